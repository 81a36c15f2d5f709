"""How many tokens to draft in the next round.

With acceptance a at every place, a round of n drafted tokens gives (1 - a^(n+1)) / (1 - a) tokens
(Leviathan et al. 2023) and takes the time of verifying n + 1 tokens and of drafting n. The number
with the most tokens a second is taken, which can be none.

A text begins with some plain rounds, which say how fast the machine is now. A draft is begun where
the costs measured on this machine and a modest acceptance promise more than it takes to read the
text so far. Else decoding is plain, and a short draft looks now and then whether it would pay. What
such looks and wrong guesses have lost is kept below a small part of the text's time.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol

    from mtkit.llm.speculative.calibration import Costs

    class Pace(Protocol):
        """Says how many tokens to draft."""

        def count(self, left: int, behind: int) -> int:
            """Return the number for the next round.

            Args:
                left: Tokens that are wanted yet.
                behind: Tokens of the text that the draft has not read.
            """
            ...

        def rest(self) -> int:
            """Return for how many rounds nothing will be drafted, before ``count`` is asked."""
            ...

        def rested(self, rounds: int) -> None:
            """Learn that so many were plain."""
            ...

        def saw(
            self, drafted: int, accepted: int, draft_seconds: float, verify_seconds: float
        ) -> None:
            """Learn how a round went."""
            ...


_MEMORY = 0.95
"""What a round counts against the next one: some twenty are remembered."""
_EXPECTED, _WEIGHT = 0.6, 4.0
"""Acceptance before anything was seen, and how many tokens that belief is worth."""
_PROBE = 2
"""Tokens of a draft that only looks."""
_LOSS = 0.03
"""Part of the text's time that drafting may lose against plain decoding."""
_GRACE, _LENT = 1.0, 16.0
"""Plain tokens that it may lose at once at the start, and at most of what it won before."""
_WORTH = 1.1
"""Speed against plain decoding from which on a draft is begun."""
_AHEAD = 256
"""Tokens of the rest of a text that are counted on: it may end at any time."""
_LISTEN = 3
"""Plain rounds at the start, which say how fast the machine is now."""
_LONGEST_PAUSE = 32
"""Plain rounds until it is thought over again."""


class Steady:
    """The same number in each round."""

    def __init__(self, number: int) -> None:
        self._number = number

    def count(self, left: int, behind: int) -> int:  # noqa: ARG002  it does not depend on them
        """Return the number."""
        return self._number

    def rest(self) -> int:
        """Return 0."""
        return 0

    def rested(self, rounds: int) -> None:
        """Learn nothing."""

    def saw(self, drafted: int, accepted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Learn nothing."""


class Adaptive:
    """The number that promises the most tokens a second, within what may be lost."""

    def __init__(self, most: int, costs: Costs) -> None:
        """Begin.

        Args:
            most: Largest number.
            costs: What a round takes on this machine; what is seen later corrects it.
        """
        self._most, self._costs = most, costs
        self._tried, self._accepted = _WEIGHT, _WEIGHT * _EXPECTED
        self._due = self._lost = self._invested = 0.0
        self._pause = 0
        self._first: list[float] = []

    def count(self, left: int, behind: int) -> int:
        """Return the number for the next round."""
        if len(self._first) < _LISTEN:
            return 0
        costs = self._costs
        plain, entry = costs.verify(1), behind * costs.read_seconds
        allowed = _LOSS * self._due - self._lost
        best, speed = self._best()
        gain = (1 - 1 / speed) * min(left, _AHEAD) * plain
        if best and gain > entry and allowed + _GRACE * plain > 0:
            self._invested = entry
            return best
        self._invested = 0.0
        probe = min(_PROBE, self._most)
        expected, _ = self._expected(probe)
        missing = entry + self._seconds(probe) - expected * plain - allowed
        if missing <= 0:
            return probe
        self._pause = min(int(missing / (_LOSS * plain)), _LONGEST_PAUSE)
        return 0

    def rest(self) -> int:
        """Return for how many rounds there is no need to think again."""
        return self._pause

    def rested(self, rounds: int) -> None:
        """Account for plain rounds."""
        self._due += rounds * self._costs.verify(1)
        self._pause = 0

    def _expected(self, number: int) -> tuple[float, float]:
        """Return the tokens that a round of so many is expected to give, and their speed."""
        acceptance = min(self._accepted / self._tried, 0.999)
        expected = (1 - acceptance ** (number + 1)) / (1 - acceptance)
        return expected, expected * self._costs.verify(1) / self._seconds(number)

    def _seconds(self, number: int) -> float:
        return self._costs.verify(number + 1) + self._costs.draft(number)

    def _best(self) -> tuple[int, float]:
        """Return the fastest number, and its speed against plain decoding; 0 and 1 for none."""
        best, best_speed = 0, _WORTH
        for number in range(1, self._most + 1):
            _, speed = self._expected(number)
            if speed > best_speed:
                best, best_speed = number, speed
        return best, best_speed if best else 1.0

    def saw(self, drafted: int, accepted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Learn acceptance and times, and account for what was lost or won."""
        draft_seconds = max(draft_seconds - self._invested, 0.0)
        if not drafted and len(self._first) < _LISTEN:
            self._first.append(verify_seconds)
            if len(self._first) == _LISTEN:
                self._costs.scale(min(self._first) / self._costs.verify(1))
        self._costs.saw(drafted, draft_seconds, verify_seconds)
        plain = self._costs.verify(1)
        self._due += (accepted + 1) * plain
        if not drafted:
            return
        self._lost += draft_seconds + verify_seconds - (accepted + 1) * plain
        self._lost = max(self._lost, -_LENT * plain)
        self._tried = _MEMORY * self._tried + min(accepted + 1, drafted)
        self._accepted = _MEMORY * self._accepted + accepted
