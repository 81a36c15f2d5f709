"""Callers of several threads, one at a time, in the order in which they came."""

from __future__ import annotations

from collections import deque
from threading import Lock, get_ident

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType


class Turns:
    """A lock for ``with``: Python's own lets any waiting thread in, not the first."""

    def __init__(self) -> None:
        self._guard = Lock()
        self._waiting: deque[Lock] = deque()
        self._owner = 0

    def __enter__(self) -> None:
        own = Lock()
        own.acquire()
        with self._guard:
            if self._waiting and self._owner == get_ident():
                raise UsageError(
                    "another answer is still open in this thread",
                    hint="read it to its end, or close it",
                )
            self._waiting.append(own)
            is_first = len(self._waiting) == 1
        if not is_first:
            try:
                own.acquire()
            except BaseException:  # Ctrl-C while it waits
                self._leave(own)
                raise
        self._owner = get_ident()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        with self._guard:
            own = self._waiting[0]
        self._leave(own)

    def _leave(self, own: Lock) -> None:
        with self._guard:
            was_first = self._waiting[0] is own
            self._waiting.remove(own)
            if was_first:
                self._owner = 0
                if self._waiting:
                    self._waiting[0].release()
