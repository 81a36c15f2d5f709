"""How many tokens to draft in the next round.

With acceptance a at every place, a round of n drafted tokens gives (1 - a^(n+1)) / (1 - a) tokens
(Leviathan et al. 2023) and takes the time of verifying n + 1 tokens and of drafting n. The number
with the most tokens a second is taken, which can be none: then decoding is plain for a while, and
a short draft looks now and then whether the text has become easier.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mtkit.llm.speculative.calibration import Costs

    class Pace(Protocol):
        """Says how many tokens to draft."""

        def count(self) -> int:
            """Return the number for the next round."""
            ...

        def saw(
            self, drafted: int, accepted: int, draft_seconds: float, verify_seconds: float
        ) -> None:
            """Learn how a round went."""
            ...


_MEMORY = 0.95
"""What a round counts against the next one: some twenty are remembered."""
_EXPECTED, _WEIGHT = 0.7, 4.0
"""Acceptance before anything was seen, and how many tokens that belief is worth."""
_PROBE = 2
"""Tokens of a draft that only looks."""
_FIRST_PAUSE, _LONGEST_PAUSE = 32, 512
"""Plain rounds between two looks; each look in vain doubles them."""


class Steady:
    """The same number in each round."""

    def __init__(self, number: int) -> None:
        self._number = number

    def count(self) -> int:
        """Return the number."""
        return self._number

    def saw(self, drafted: int, accepted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Learn nothing."""


class Adaptive:
    """The number that promises the most tokens a second."""

    def __init__(self, most: int, costs: Costs) -> None:
        """Begin.

        Args:
            most: Largest number.
            costs: What a round takes on this machine; what is seen later corrects it.
        """
        self._most, self._costs = most, costs
        self._tried, self._accepted = _WEIGHT, _WEIGHT * _EXPECTED
        self._pause = _FIRST_PAUSE
        self._waited = 0

    def count(self) -> int:
        """Return the number for the next round."""
        best = self._best()
        if best:
            self._waited = 0
            return best
        self._waited += 1
        if self._waited <= self._pause:
            return 0
        self._waited = 0
        self._pause = min(2 * self._pause, _LONGEST_PAUSE)
        return min(_PROBE, self._most)

    def _best(self) -> int:
        acceptance = min(self._accepted / self._tried, 0.999)
        expected, power = 1.0, 1.0
        best, best_rate = 0, 1 / self._costs.verify(1)
        for number in range(1, self._most + 1):
            power *= acceptance
            expected += power
            rate = expected / (self._costs.verify(number + 1) + self._costs.draft(number))
            if rate > best_rate:
                best, best_rate = number, rate
        return best

    def saw(self, drafted: int, accepted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Learn acceptance and times; a look that pays ends the pause."""
        self._costs.saw(drafted, draft_seconds, verify_seconds)
        if not drafted:
            return
        self._tried = _MEMORY * self._tried + min(accepted + 1, drafted)
        self._accepted = _MEMORY * self._accepted + accepted
        if self._best():
            self._pause = _FIRST_PAUSE
