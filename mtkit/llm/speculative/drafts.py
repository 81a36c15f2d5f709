"""What a draft is: something that proposes tokens behind those that there are."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from mtkit.llm.speculative.distribution import Distribution

    class Draft(Protocol):
        """Proposes tokens; close it, which frees its model."""

        def begin(self, ids: Sequence[int]) -> None:
            """Take the tokens of a prompt: proposals go on behind them."""
            ...

        def propose(self, ids: Sequence[int], most: int) -> Proposal:
            """Propose tokens, ``most`` at most, perhaps none.

            Args:
                ids: Those that there are: what ``begin`` got, and what came behind it.
                most: 1 or more.
            """
            ...

        def saw(self, outcome: Outcome) -> None:
            """Learn how a round went."""
            ...

        def close(self) -> None:
            """Free what it holds."""
            ...


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
        most_likely: The target's most likely id at the place where the round ended.
    """

    __slots__ = ("accepted", "drafted", "emitted", "most_likely")

    def __init__(
        self, drafted: list[int], accepted: int, emitted: list[int], most_likely: int
    ) -> None:
        self.drafted, self.accepted = drafted, accepted
        self.emitted, self.most_likely = emitted, most_likely


class FirstOf:
    """Drafts that are asked in turn: the first that proposes anything is taken."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self._drafts = drafts

    def begin(self, ids: Sequence[int]) -> None:
        """Give all of them the tokens of a prompt."""
        for draft in self._drafts:
            draft.begin(ids)

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Return the first proposal that is not empty."""
        proposal = Proposal([])
        for draft in self._drafts:
            proposal = draft.propose(ids, most)
            if proposal.ids:
                break
        return proposal

    def saw(self, outcome: Outcome) -> None:
        """Let all of them learn."""
        for draft in self._drafts:
            draft.saw(outcome)

    def close(self) -> None:
        """Close all of them."""
        for draft in self._drafts:
            draft.close()
