"""How much of the bodies of requests is held until they are whole, of all connections together."""

from __future__ import annotations

from contextlib import contextmanager

from mtkit.serve.bodies.fields import MOST_BODY
from mtkit.serve.replies import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator
    from typing import Any

    Receive = Callable[[], Awaitable[Any]]


class HeldBodies:
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
