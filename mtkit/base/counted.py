"""Numbers that come one by one, added up for whoever is told how far the work is."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


class Counted:
    """What is done so far.

    Attributes:
        total: All that there is to do; it may be known later than who is told.
        done: The sum of what came.
    """

    def __init__(self, told: Callable[[int, int], object] | None, total: int = 0) -> None:
        self.total, self.done = total, 0
        self._told = told

    def __call__(self, more: int) -> None:
        """Add a number, and tell how much of how much is done."""
        self.done += more
        if self._told is not None:
            self._told(self.done, self.total)
