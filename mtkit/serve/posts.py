"""What the scheduler's thread tells, brought to the event loop in one go.

To wake the loop costs a system call, and the scheduler then waits for Python's lock while the loop
writes. So the loop is woken for what is new, and fetches the rest itself as long as there is some,
every ``_PAUSE`` seconds: what is written together is sent together. What nobody waits for, as the
tokens of an answer that is sent as a whole, is fetched with what somebody does.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_PAUSE = 0.005


class Posts:
    """Calls to be made in an event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], None], Any, bool]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._urgent = self._awaited = self._fetches = False

    def attach(self) -> None:
        """Deliver to the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def add(
        self, call: Callable[[Any], None], value: Any, *, urgent: bool, awaited: bool = True
    ) -> None:
        """Remember a call, from any thread.

        Args:
            call: To be made.
            value: Its argument.
            urgent: It cannot wait for ``_PAUSE``.
            awaited: It cannot wait for another.
        """
        self._waiting.append((call, value, awaited))
        self._urgent |= urgent
        self._awaited |= awaited

    def deliver(self) -> None:
        """Have the loop make the calls, from any thread."""
        awaited, self._awaited = self._awaited, False
        if self._loop is not None and (self._urgent or (awaited and not self._fetches)):
            self._urgent = False
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._make)

    def _make(self) -> None:
        if self._fetches:  # woken between two fetches
            self._empty()
            return
        self._fetches = True
        self._fetch()

    def _fetch(self) -> None:
        if self._empty():
            asyncio.get_running_loop().call_later(_PAUSE, self._fetch)
            return
        self._fetches = False
        self._empty()  # what came before the scheduler could see that

    def _empty(self) -> bool:
        """Make the calls; says whether any was awaited."""
        found = False
        while self._waiting:
            call, value, awaited = self._waiting.popleft()
            call(value)
            found |= awaited
        return found
