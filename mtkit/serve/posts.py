"""What the scheduler's thread tells, brought to the event loop in one go."""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class Posts:
    """Calls to be made in an event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], None], Any]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None

    def attach(self) -> None:
        """Deliver to the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def add(self, call: Callable[[Any], None], value: Any) -> None:
        """Remember a call, from any thread."""
        self._waiting.append((call, value))

    def deliver(self) -> None:
        """Have the loop make the calls, from any thread."""
        if self._waiting and self._loop is not None:
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._make)

    def _make(self) -> None:
        while self._waiting:
            call, value = self._waiting.popleft()
            call(value)
