"""What a draft is: something that proposes tokens behind those that there are."""

from __future__ import annotations

from mtkit.llm.speculative.proposal import Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    from mtkit.llm.speculative.learning import Learning
    from mtkit.llm.speculative.proposal import Outcome

    class Draft(Protocol):
        """Proposes tokens; close it, which frees its model."""

        @property
        def learning(self) -> Learning | None:
            """Return what changes its vocabulary."""
            ...

        def begin(self, ids: Sequence[int]) -> None:
            """Take the tokens of a prompt: proposals go on behind them."""
            ...

        def behind(self, ids: Sequence[int]) -> int | None:
            """Return how many tokens it has to read before it can propose; None: it cannot."""
            ...

        def read(self, ids: Sequence[int], most: int) -> None:
            """Read so many of the tokens that it is behind, at most."""
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

        def reset(self) -> None:
            """Forget every text, and what was learnt from them."""
            ...

        def close(self) -> None:
            """Free what it holds."""
            ...


class FirstOf:
    """Drafts that are asked in turn: the first that proposes anything is taken."""

    def __init__(self, drafts: Sequence[Draft]) -> None:
        self._drafts = drafts
        self.learning = next((d.learning for d in drafts if d.learning is not None), None)

    def begin(self, ids: Sequence[int]) -> None:
        """Give all of them the tokens of a prompt."""
        for draft in self._drafts:
            draft.begin(ids)

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return what the first that can propose has to read."""
        found = (draft.behind(ids) for draft in self._drafts)
        return next((count for count in found if count is not None), None)

    def read(self, ids: Sequence[int], most: int) -> None:
        """Let all of them read."""
        for draft in self._drafts:
            draft.read(ids, most)

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

    def reset(self) -> None:
        """Let all of them forget."""
        for draft in self._drafts:
            draft.reset()

    def close(self) -> None:
        """Close all of them."""
        for draft in self._drafts:
            draft.close()
