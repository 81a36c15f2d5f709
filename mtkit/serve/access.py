"""Who may ask, by the settings: keys, names of the server, origins of pages."""

from __future__ import annotations

import ipaddress
import re

from mtkit.base.binary import map_file
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.settings import ServeSettings

_LEAST_KEY = 8
_NAME = re.compile(r"[^\s/:*?#@\[\]]+|\[?[0-9a-fA-F.:]*:[0-9a-fA-F.:]*\]?")
ORIGIN = re.compile(r"(([a-z][a-z0-9+.-]*)://(?:[^\s/:*?#@\[\]]+|\[[0-9a-f.:]+\])(?::\d+)?)/?")
_MANY = ("*", "localhost")
"""Values of ``--cors-origins``: any origin, those of this machine."""
_NO_ORIGIN = "null"
"""The origin of pages without one, such as those opened from files."""
_EVERY_APP = re.compile(r"(?!https?:|file:)[a-z][a-z0-9+.-]*://\*")
"""All pages of a scheme, such as ``chrome-extension://*``: their names differ by installation."""
_FORMS = (
    "its form is https://host[:port], app://name, chrome-extension://*, or null for pages of files"
)
_PORTS = {"http": ":80", "https": ":443"}
"""The ports that browsers leave out."""


def keys_of(settings: ServeSettings) -> list[str]:
    """Return the keys; listening for other machines needs one."""
    keys = [settings.api_key.strip()] if settings.api_key is not None else []
    if settings.api_key_file is not None:
        try:
            lines = bytes(map_file(settings.api_key_file)).decode("utf-8-sig").splitlines()
        except UnicodeDecodeError:
            raise UsageError("is not valid UTF-8", source=settings.api_key_file) from None
        keys += [line.strip() for line in lines if line.strip()]
        if not keys:
            raise UsageError("holds no key", source=settings.api_key_file)
    if any(len(key) < _LEAST_KEY for key in keys):
        raise UsageError(f"has fewer than {_LEAST_KEY} characters", field="--api-key")
    open_to_all = [host for host in hosts_of(settings) if not is_loopback(host)]
    if not keys and open_to_all:
        raise UsageError(
            f"{open_to_all[0]} can be reached from other machines",
            field="--host",
            hint="add --api-key KEY or --api-key-file FILE",
        )
    return keys


def hosts_of(settings: ServeSettings) -> list[str]:
    """Return the addresses to listen on."""
    return [host.strip() for host in settings.host.split(",")]


def names_of(settings: ServeSettings) -> tuple[set[str], set[str]]:
    """Return the names that the server is called by, and the origins whose pages may ask."""
    hosts = {"localhost", *(host.lower() for host in hosts_of(settings))}
    for name in settings.allow_host:
        if not _NAME.fullmatch(name):
            what = f"{name!r} is not a name"
            raise UsageError(what, field="--allow-host", hint="as in model.example, without a port")
        hosts.add(name.lower())
    origins = set()
    more = (part.strip() for part in (settings.cors_origins or "").split(","))
    for origin in (*settings.allow_origin, *filter(None, more)):
        if origin in _MANY and origin not in settings.allow_origin:
            origins.add(origin)
            continue
        if origin.lower() == _NO_ORIGIN:
            origins.add(_NO_ORIGIN)
            continue
        if _EVERY_APP.fullmatch(origin.lower()):
            origins.add(origin.lower())
            continue
        match = ORIGIN.fullmatch(origin.lower())
        if not match:
            what = f"{origin!r} is not an origin"
            raise UsageError(what, field="--allow-origin", hint=_FORMS)
        origins.add(match[1].removesuffix(_PORTS.get(match[2], "/")))
    return hosts, origins


def is_loopback(host: str) -> bool:
    """Whether an address belongs to this machine alone."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
