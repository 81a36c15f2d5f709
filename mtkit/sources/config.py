"""The user's settings: a TOML file in the configuration folder.

Keys: ``tokenizer`` and ``model``, each a path or name that commands take when none is given. The
environment (``MTKIT_TOKENIZER``, ``MTKIT_MODEL``) wins over the file, an option over both.
"""

from __future__ import annotations

import os
import sys

from mtkit.errors import FormatError, UsageError

KEYS = {
    "tokenizer": "tokenizer that encode, decode and others use when -t is not given",
    "model": "model that generate and chat use when -m is not given",
}


def path() -> str:
    """Return the path of the settings: in XDG_CONFIG_HOME, APPDATA or ~/.config."""
    base = os.environ.get("XDG_CONFIG_HOME")
    if not base and sys.platform == "win32":
        base = os.environ.get("APPDATA")
    return os.path.join(
        base or os.path.join(os.path.expanduser("~"), ".config"), "mtkit", "config.toml"
    )


def read() -> dict[str, str]:
    """Return the settings in the file; empty where there is none."""
    try:
        with open(path(), "rb") as file:
            text = file.read()
    except (FileNotFoundError, NotADirectoryError):
        return {}
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(text.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise FormatError(f"is not TOML: {error}", source=path(), hint="fix or delete it") from None
    settings = {}
    for key, value in table.items():
        if not isinstance(value, str):
            raise FormatError("is not a string", source=path(), field=key)
        settings[key] = value
    return settings


def find(key: str) -> tuple[str | None, str]:
    """Return a setting and its origin: an environment variable, or the file."""
    value = os.environ.get(_variable(key))
    if value:
        return value, _variable(key)
    value = read().get(key)
    return value, path() if value else ""


def _variable(key: str) -> str:
    return f"MTKIT_{key.upper()}"


def write(key: str, value: str | None) -> None:
    """Set a key in the file, or remove it with None; other keys are kept."""
    from mtkit.base.files import write_files

    if key not in KEYS:
        raise UsageError(f"there is no setting {key!r}", hint=f"known: {', '.join(KEYS)}")
    settings = read()
    if value is None:
        settings.pop(key, None)
    else:
        settings[key] = value
    lines = [f"{_key(name)} = {_quote(text)}\n" for name, text in settings.items()]
    try:
        content = "".join(lines).encode("utf-8")
    except UnicodeEncodeError:
        raise UsageError("is not valid UTF-8", field=key) from None
    os.makedirs(os.path.dirname(path()), exist_ok=True)
    write_files({path(): content}, force=True)


def _key(name: str) -> str:
    bare = name.replace("-", "").replace("_", "")
    return name if bare.isascii() and bare.isalnum() else _quote(name)


def _quote(text: str) -> str:
    """Render a TOML basic string: JSON's escapes are a subset of TOML's."""
    import json

    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")
