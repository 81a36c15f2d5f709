"""What passes between a draft and the loop: tokens proposed, and what became of them."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llm.speculative.distribution import Distribution


class Proposal:
    """Tokens that a draft proposes.

    Attributes:
        ids: The tokens.
        distributions: What each was drawn from; None of all where they were not drawn.
    """

    __slots__ = ("distributions", "ids")

    def __init__(self, ids: list[int], distributions: list[Distribution] | None = None) -> None:
        self.ids, self.distributions = ids, distributions


class Outcome:
    """How a round went.

    Attributes:
        drafted: The tokens that were proposed.
        accepted: How many of them were accepted, from the first on.
        emitted: All tokens of the round: the accepted ones and the one behind them.
        most_likely: The target's most likely id at the place where the round ended; -1 where
            nothing was drafted, or the draft does not learn.
    """

    __slots__ = ("accepted", "drafted", "emitted", "most_likely")

    def __init__(
        self, drafted: list[int], accepted: int, emitted: list[int], most_likely: int
    ) -> None:
        self.drafted, self.accepted = drafted, accepted
        self.emitted, self.most_likely = emitted, most_likely
