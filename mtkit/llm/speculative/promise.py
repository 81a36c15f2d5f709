"""What rounds of drafted tokens promise, by acceptance and costs.

With acceptance a at every place, a round of n drafted tokens gives (1 - a^(n+1)) / (1 - a) tokens
(Leviathan et al. 2023), and costs verifying n + 1 tokens and drafting n.
"""

from __future__ import annotations

from math import ceil

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.llm.speculative.known import Known

HOPE = 0.95
"""The best acceptance that is thought possible."""
WORTH = 1.05
"""Speed against plain decoding from which on it is worth drafting."""
PROBES = (2, 3)
"""Tokens of a draft that only looks: what costs less."""
LOSS = 0.02
"""Part of the text that drafting may lose."""
AHEAD = 256
"""Tokens of the rest of a text that are counted on: it may end at any time."""


def expected(acceptance: float, number: int) -> float:
    """Return the tokens that a round of so many drafted ones gives."""
    acceptance = min(acceptance, 0.999)
    return (1 - acceptance ** (number + 1)) / (1 - acceptance)


def cost(known: Known, number: int, width: int = 1, *, free: bool = False) -> float:
    """Return the cost of a round of so many drafted tokens, and so many rows at least."""
    return known.verify(max(number + 1, width)) + known.draft(number, free=free)


def fastest(
    known: Known,
    acceptance: float,
    most: int,
    width: int,
    more: float = 0.0,
    *,
    free: bool = False,
) -> tuple[int, float]:
    """Return the number that is fastest, and its speed; 0 and 1 where none is worth it.

    Args:
        known: Costs.
        acceptance: Part of what is drafted that is right.
        most: Largest number.
        width: Rows that a round computes at least.
        more: What a round costs beside that.
        free: Drafting costs nothing.
    """
    best, speed = 0, WORTH
    for number in range(1, most + 1):
        found = expected(acceptance, number) / (cost(known, number, width, free=free) + more)
        if found > speed:
            best, speed = number, found
    return best, speed if best else 1.0


def could_pay(known: Known, most: int, width: int, *, free: bool = False) -> bool:
    """Whether any number is worth it at best; ``free``: drafting costs nothing."""
    return any(
        expected(HOPE, number) > WORTH * cost(known, number, width, free=free)
        for number in range(1, most + 1)
    )


def break_even(known: Known, count: int) -> float | None:
    """Return the acceptance from which on drafting so many tokens pays; None: it never does."""
    wanted = cost(known, count)
    if not count or wanted >= count + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (middle, high) if expected(middle, count) < wanted else (low, middle)
    return high


def number_together(
    known: Known, rates: Sequence[float], others: int, behind: int, left: int, most: int
) -> tuple[int, int]:
    """Return how many tokens sequences of one batch draft, and after how many rounds to look again.

    Args:
        known: Costs.
        rates: Acceptance of each sequence that drafts.
        others: Tokens that are computed for other sequences.
        behind: Tokens that their drafts have not read.
        left: Tokens that are wanted yet of the longest.
        most: Largest number.
    """
    size = len(rates)
    plain = known.verify(size + others)

    def together(number: int) -> float:
        rows = size * (number + (not others))  # of other numbers, in a second batch
        return known.verify(rows) + (plain if others else 0) + size * known.draft(number)

    def speed(number: int, rates: Sequence[float]) -> float:
        tokens = others + sum(expected(rate, number) for rate in rates)
        return tokens * plain / (together(number) * (size + others))

    numbers, entry = range(1, most + 1), known.reading(behind)
    best = max(numbers, key=lambda number: speed(number, rates))
    if speed(best, rates) > WORTH:
        gain = (1 - 1 / speed(best, rates)) * min(left, AHEAD) * plain
        if gain > entry:
            return best, 0
    if max(speed(number, [HOPE] * size) for number in numbers) < WORTH:
        return 0, AHEAD  # not even then
    probe = min(PROBES[0], most)
    lost = together(probe) + entry - plain * speed(probe, rates)
    return probe, ceil(max(lost, plain) / (LOSS * plain))
