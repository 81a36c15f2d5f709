"""What a round costs: batches of the target, tokens of the draft."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

_NEWS = 0.1
"""What the last time counts against all before."""


class Costs:
    """Seconds that the parts of a round take.

    Attributes:
        by_size: Tokens in a batch -> seconds of computing it, for some sizes.
        draft_seconds: Seconds of one drafted token.
        read_seconds: Seconds that the draft takes to read a token of the text.
        pairs: A round never computes a token alone (``exactness``).
        mixed: Some of what is drafted costs nothing: a lookup is asked before a model.
    """

    def __init__(
        self,
        by_size: Mapping[int, float],
        draft_seconds: float,
        read_seconds: float = 0.0,
        *,
        pairs: bool = False,
        mixed: bool = False,
    ) -> None:
        """Begin with what was measured.

        Args:
            by_size: For size 1 at least.
            draft_seconds: Of one token.
            read_seconds: Of one token among many.
            pairs: As the attribute.
            mixed: As the attribute.
        """
        self.by_size = dict(by_size)
        self.draft_seconds, self.read_seconds = draft_seconds, read_seconds
        self.pairs, self.mixed = pairs, mixed

    @property
    def plain(self) -> float:
        """Return the seconds of a token without drafting."""
        return self.by_size[1]

    @property
    def step(self) -> float:
        """Return how many times as long a round without a draft takes as plain decoding."""
        return self.verify(1) / self.plain

    def verify(self, size: int) -> float:
        """Return the seconds of a round's batch."""
        size = max(size, 1 + self.pairs)
        known = self.by_size.get(size)
        if known is not None:
            return known
        below = max(k for k in self.by_size if k < size)
        above = min((k for k in self.by_size if k > size), default=0)
        if not above:
            return self.by_size[below] * size / below
        part = (size - below) / (above - below)
        return self.by_size[below] * (1 - part) + self.by_size[above] * part

    def draft(self, count: int) -> float:
        """Return the seconds of drafting so many tokens."""
        return count * self.draft_seconds

    def break_even(self, count: int, other: float | None = None) -> float | None:
        """Return the acceptance at every place from which on drafting so many tokens pays.

        None where it never does, and for a count of 0.

        Args:
            count: Tokens drafted a round.
            other: Seconds of a token otherwise; None: of plain decoding.
        """
        if not count:
            return None
        wanted = (self.verify(count + 1) + self.draft(count)) / (other or self.plain)
        low, high = 0.0, 1.0
        if wanted >= count + 1:
            return None
        for _ in range(40):
            middle = (low + high) / 2
            if sum(middle**n for n in range(count + 1)) < wanted:
                low = middle
            else:
                high = middle
        return high

    def scale(self, factor: float) -> None:
        """Let everything take so many times longer."""
        self.by_size = {size: factor * seconds for size, seconds in self.by_size.items()}
        self.draft_seconds *= factor
        self.read_seconds *= factor

    def saw_plain(self, seconds: float, before: float) -> None:
        """Learn how fast the machine is now: it counts for every size and for the draft.

        Args:
            seconds: Of a round without a draft.
            before: What it was thought to take.
        """
        self.scale(1 + _change(seconds, before))

    def saw(self, drafted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Learn from a round with a draft."""
        size = drafted + 1
        before = self.verify(size)
        self.by_size[size] = before * (1 + _change(verify_seconds, before))
        if self.draft_seconds:
            a_token = min(draft_seconds / drafted, 2 * self.draft_seconds)
            self.draft_seconds += _NEWS * (a_token - self.draft_seconds)


def _change(seconds: float, before: float) -> float:
    # One slow round is the machine's affair: it may have had other things to do.
    return _NEWS * (min(seconds / before, 2) - 1)
