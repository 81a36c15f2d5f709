"""How much context the memory that is free has room for."""

from __future__ import annotations

from mtkit.memory_plan.limits import available
from mtkit.memory_plan.plan import CELLS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.memory_plan.plan import Plan

_LEFT = 8
"""One part of so many is left to others."""


def fitting_context(plan: Callable[[int], Plan], most: int, least: int) -> int:
    """Return how many tokens of context fit, a multiple of what a cache is rounded to.

    Args:
        plan: What so many tokens take.
        most: Tokens that are wanted.
        least: Tokens that are returned though they may not fit.
    """
    free = available()
    if free is None or plan(most).most <= free - free // _LEFT:
        return most
    low, high = least // CELLS, most // CELLS  # low fits or is the least, high does not
    while high - low > 1:
        middle = (low + high) // 2
        if plan(middle * CELLS).most <= free - free // _LEFT:
            low = middle
        else:
            high = middle
    return max(low * CELLS, least)
