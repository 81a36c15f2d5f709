"""Checks of every request, a limit for bodies on their way, and headers of every answer.

A page on the web can make a browser ask a server on this machine: under a name of its own that it
makes to mean this machine (DNS rebinding), or across origins. So a request has to call the server
by an address, by ``localhost`` or by a name that was allowed, and a page that asks has to be the
server's own or one that was allowed.

The bytes of bodies that are not whole yet are counted over all connections together.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
from contextlib import contextmanager

from starlette.responses import Response

from mtkit.base.process import release_memory
from mtkit.chat.process import end_surplus
from mtkit.llama.grammar import forget_long
from mtkit.serve.access import ORIGIN, is_loopback, names_of
from mtkit.serve.reply import Problem, error_response
from mtkit.serve.request import MOST_BODY, room

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Sequence
    from typing import Any

    from mtkit.serve.metrics import Metrics
    from mtkit.settings import ServeSettings

    Receive = Callable[[], Awaitable[Any]]


class BodyLimit:
    """A limit of the bytes of all bodies that are not whole yet."""

    def __init__(self, most: int) -> None:
        """Hold so many bytes at most."""
        self._most, self._bytes = most, 0
        self._releasing: asyncio.TimerHandle | None = None

    def _release_later(self) -> None:
        if self._releasing is None:
            loop = asyncio.get_running_loop()

            def work() -> bool:
                end_surplus()
                stays = forget_long(_GRAMMAR_SECONDS)
                release_memory()
                return stays

            def release() -> None:
                self._releasing = None
                loop.run_in_executor(None, work).add_done_callback(again)

            def again(future: asyncio.Future[bool]) -> None:
                if not future.cancelled() and future.result():
                    self._release_later()

            self._releasing = loop.call_later(_RELEASE_SECONDS, release)

    @contextmanager
    def limit(self, scope: Any, receive: Receive) -> Iterator[Receive]:
        """Give a ``receive`` for the body of a request that refuses what is too much."""
        own, is_large = 0, False

        async def receive_limited() -> Any:
            nonlocal own, is_large
            message = await receive()
            if scope.get("state", {}).get("is_too_long"):
                what = f"the body has more than {scope['state']['most_body']} bytes"
                raise Problem(413, what, headers={"connection": "close"})
            size = len(message.get("body", b""))
            if self._bytes + size > self._most:
                headers = {"retry-after": "1", "connection": "close"}
                raise Problem(503, "too many bodies of requests are on their way", headers=headers)
            if not message.get("more_body"):
                size = -own
            is_large |= own + len(message.get("body", b"")) > _LARGE_BYTES
            self._bytes, own = self._bytes + size, own + size
            return message

        try:
            yield receive_limited
        finally:
            self._bytes -= own
            room.give(scope.get("state", {}))
            if is_large:
                self._release_later()


_LARGE_BYTES, _RELEASE_SECONDS, _GRAMMAR_SECONDS = 1 << 15, 5.0, 15.0
"""Bytes of a body after whose answer memory is given back, how much later, and that of a long
grammar after how long without a use."""
_PRIVATE_ASKED = b"access-control-request-private-network"
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
        most_body: Bytes of a body.
    """

    def __init__(
        self,
        app: Any,
        settings: ServeSettings,
        keys: Sequence[str],
        metrics: Metrics,
        most_body: int = MOST_BODY,
    ) -> None:
        self._app, self._metrics, self.most_body = app, metrics, most_body
        self.is_full: Callable[[], bool] = lambda: False
        self._hosts, self._origins = names_of(settings)
        self._bodies = BodyLimit(settings.max_held_bytes)
        self._keys = [_key_digest(key.encode()) for key in keys]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request, or refuse it."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Any) -> None:
            if message["type"] == "http.response.start":
                self._metrics.count_request(message["status"])
                pairs = [*message["headers"], *_HEADERS]
                origin = headers.get(b"origin", b"")
                if origin and self._is_allowed(origin.decode("latin-1").lower()):
                    pairs += [(b"Access-Control-Allow-Origin", origin), (b"vary", b"origin")]
                if all(name != _POLICY[0] for name, _ in pairs):
                    pairs.append(_POLICY)
                message = {**message, "headers": pairs}
            await send(message)

        scope = {**scope, "path": scope["path"].rstrip("/") or "/"}
        scope.setdefault("state", {})["most_body"] = self.most_body
        headers = dict(scope["headers"])
        is_preflight = b"access-control-request-method" in headers and scope["method"] == "OPTIONS"
        try:
            self._check(scope["path"], headers, is_open=is_preflight)
        except Problem as problem:
            await error_response(scope["path"], problem)(scope, receive, send_guarded)
            return
        if is_preflight:
            name = headers.get(b"origin", b"").decode("latin-1").lower()
            cors = {}
            if self._is_allowed(name):
                cors["access-control-allow-methods"] = "GET, POST, DELETE"
                if headers.get(_PRIVATE_ASKED) == b"true":  # a public page asks a local server
                    cors["access-control-allow-private-network"] = "true"
            names = headers.get(b"access-control-request-headers")
            if cors and names is not None:  # such a page may send what anybody may
                cors["access-control-allow-headers"] = names.decode("latin-1")
            await Response(headers=cors)(scope, receive, send_guarded)
            return
        with self._bodies.limit(scope, receive) as receive_limited:
            await self._app(scope, receive_limited, send_guarded)

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
        scheme, mark, _ = origin.partition("://")
        if mark and f"{scheme}://*" in self._origins:
            return True
        is_local = "localhost" in self._origins and ORIGIN.fullmatch(origin) is not None
        return is_local and is_loopback(_without_port(origin.partition("://")[2]))

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
        key = headers.get(b"x-api-key")
        if key is None:
            kind, _, key = headers.get(b"authorization", b"").partition(b" ")
            if kind.lower() != b"bearer":
                return False
        digest = _key_digest(key.strip())
        # All are looked at: the time does not say which key was right.
        return sum(hmac.compare_digest(digest, own) for own in self._keys) > 0


def _without_port(host: str) -> str:
    """Return the name or address in what a request calls the server."""
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    return name.removeprefix("[").removesuffix("]")


def _key_digest(key: bytes) -> bytes:
    return hashlib.sha256(key).digest()
