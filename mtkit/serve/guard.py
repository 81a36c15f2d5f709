"""Who may ask, how much of bodies is held at once, and the headers of every answer.

A page on the web can make a browser ask a server on this machine: under a name of its own that it
makes to mean this machine (DNS rebinding), or across origins. So a request has to call the server
by an address, by ``localhost`` or by a name that was allowed, and a page that asks has to be the
server's own or one that was allowed.

The bytes of bodies that are not whole yet are counted over all connections together.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
from contextlib import contextmanager

from starlette.responses import Response

from mtkit.serve.access import ORIGIN, is_loopback, names_of
from mtkit.serve.reply import Problem, error_response
from mtkit.serve.request import MOST_BODY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from typing import Any

    from mtkit.serve.metrics import Metrics
    from mtkit.settings import ServeSettings

    Receive = Callable[[], Awaitable[Any]]


class BodyLimit:
    """Counts bodies as they come in."""

    def __init__(self, most: int) -> None:
        """Hold so many bytes at most."""
        self._most, self._held = most, 0

    @contextmanager
    def counted(self, scope: Any, receive: Receive) -> Iterator[Receive]:
        """Give what receives the body of a request, and refuses what is too much."""
        held = 0

        async def counting() -> Any:
            nonlocal held
            message = await receive()
            if scope.get("state", {}).get("is_too_long"):
                what = f"the body has more than {MOST_BODY} bytes"
                raise Problem(413, what, headers={"connection": "close"})
            size = len(message.get("body", b""))
            if self._held + size > self._most:
                headers = {"retry-after": "1", "connection": "close"}
                raise Problem(503, "too many bodies of requests are on their way", headers=headers)
            if not message.get("more_body"):
                size = -held
            self._held, held = self._held + size, held + size
            return message

        try:
            yield counting
        finally:
            self._held -= held


_KEYLESS_PATHS = {"/", "/health", "/v1/health"}
"""Paths that need no key."""
_HEADERS = [
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
]
_POLICY = (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'")


class Guard:
    """The application behind its checks.

    Attributes:
        is_full: Whether there are more connections than the server takes.
    """

    def __init__(
        self, app: Any, settings: ServeSettings, keys: Sequence[str], metrics: Metrics
    ) -> None:
        self._app, self._metrics = app, metrics
        self.is_full: Callable[[], bool] = lambda: False
        self._hosts, self._origins = names_of(settings)
        self._bodies = BodyLimit(settings.max_held_bytes)
        self._keys = [_key_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def sending(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._metrics.request(message["status"])
                headers = [*message["headers"], *_HEADERS]
                origin = given.get(b"origin", b"")
                if origin and self._is_allowed(origin.decode("latin-1").lower()):
                    headers += [(b"Access-Control-Allow-Origin", origin), (b"vary", b"origin")]
                if all(name != _POLICY[0] for name, _ in headers):
                    headers.append(_POLICY)
                message = {**message, "headers": headers}
            await send(message)

        scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        given = dict(scope["headers"])
        asking = b"access-control-request-method" in given and scope["method"] == "OPTIONS"
        try:
            self._check(scope["path"], given, is_open=asking)
        except Problem as found:
            await error_response(scope["path"], found)(scope, receive, sending)
            return
        if asking:
            name = given.get(b"origin", b"").decode("latin-1").lower()
            headers = {}
            if self._is_allowed(name):
                headers["access-control-allow-methods"] = "GET, POST"
            wanted = given.get(b"access-control-request-headers")
            if headers and wanted is not None:  # what such a page sends is as free as anybody's
                headers["access-control-allow-headers"] = wanted.decode("latin-1")
            await Response(headers=headers)(scope, receive, sending)
            return
        with self._bodies.counted(scope, receive) as counting:
            await self._app(scope, counting, sending)

    def _check(self, path: str, headers: dict[bytes, bytes], *, is_open: bool) -> None:
        if self.is_full():
            raise Problem(503, "too many connections", headers={"connection": "close"})
        if b"content-length" in headers and b"transfer-encoding" in headers:  # RFC 9112, 6.3
            what = "a body has a length or comes in chunks, not both"
            raise Problem(400, what, headers={"connection": "close"})
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if not self._is_known(host):
            hint = "--allow-host NAME of mtkit serve allows a name"
            raise Problem(403, f"requests for host {host[:100]!r} are not allowed; {hint}")
        origin = headers.get(b"origin")
        if origin is not None and not is_open:
            name = origin.decode("latin-1").lower()
            if name.partition("://")[2] != host and not self._is_allowed(name):
                hint = "--allow-origin URL of mtkit serve allows a page"
                what = f"requests from web pages of {name[:100]!r} are not allowed"
                raise Problem(403, f"{what}; {hint}")
        is_open = is_open or path in _KEYLESS_PATHS
        if self._keys and not is_open and not self._has_key(headers):
            raise Problem(
                401, "the key is missing or wrong", headers={"www-authenticate": "Bearer"}
            )

    def _is_allowed(self, origin: str) -> bool:
        """Whether pages of an origin that is not the server's own may ask."""
        if origin in self._origins or "*" in self._origins:
            return True
        found = ORIGIN.fullmatch(origin) if "localhost" in self._origins else None
        return bool(found) and is_loopback(_without_port(origin.partition("://")[2]))

    def _is_known(self, host: str) -> bool:
        name = _without_port(host)
        if name in self._hosts:
            return True
        try:
            ipaddress.ip_address(name)
        except ValueError:
            return False
        return True

    def _has_key(self, headers: dict[bytes, bytes]) -> bool:
        given = headers.get(b"x-api-key")
        if given is None:
            kind, _, given = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer":
                return False
        digest = _key_digest(given.strip())
        # All are looked at: the time does not say which key was right.
        return sum(hmac.compare_digest(digest, key) for key in self._keys) > 0


def _without_port(host: str) -> str:
    """Return the name or address in what a request calls the server."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    return name.removeprefix("[").removesuffix("]")


def _key_digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
