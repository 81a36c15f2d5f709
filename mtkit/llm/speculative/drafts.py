"""What a draft is: something that proposes tokens behind those that there are."""

from __future__ import annotations

import time

from mtkit.errors import MtkitError
from mtkit.llm.speculative.proposal import Outcome, Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from mtkit.llm.speculative.learning import Learning

    class Draft(Protocol):
        """Proposes tokens; close it, which frees its model."""

        @property
        def free(self) -> bool:
            """Return whether what it proposes now costs nothing, unlike at other times."""
            ...

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


class Lazy:
    """A draft that is made when it is first asked: what is not worth it is never loaded.

    Attributes:
        spent: Seconds that making it took, by ``clock``.
        wall_seconds: The same by the clock on the wall.
        failed: Why it could not be made; empty where it could, or was not asked yet.
    """

    free = False

    def __init__(
        self, make: Callable[[], Draft], pays: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        """Wait.

        Args:
            make: Makes it.
            pays: Whether it can be worth its cost, as far as that is known.
            clock: What ``spent`` is measured with.
        """
        self._make, self._pays, self._clock = make, pays, clock
        self._draft: Draft | None = None
        self._emitted: list[int] = []
        self.spent, self.wall_seconds, self.failed = 0.0, 0.0, ""

    @property
    def learning(self) -> Learning | None:
        """Return what changes its vocabulary; None before it is made."""
        return None if self._draft is None else self._draft.learning

    def begin(self, ids: Sequence[int]) -> None:
        """Take the tokens of a prompt."""
        if self._draft is not None:
            self._draft.begin(ids)

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return how many tokens it has to read; None where it is not worth its cost."""
        if self._draft is not None:
            return self._draft.behind(ids)
        return None if self.failed or not self._pays() else len(ids) - 1

    def read(self, ids: Sequence[int], most: int) -> None:
        """Read, if it is made."""
        if self._draft is not None:
            self._draft.read(ids, most)

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Propose tokens; made first."""
        if self._draft is None:
            if self.behind(ids) is None:
                return Proposal([])
            start, began = time.perf_counter(), self._clock()
            try:
                self._draft = self._make()
            except MtkitError as error:  # the text goes on without it
                self.failed = str(error)
                return Proposal([])
            finally:
                self.spent += self._clock() - began
                self.wall_seconds += time.perf_counter() - start
            self._draft.begin(ids)
            self._draft.saw(Outcome([], 0, self._emitted, -1))
        return self._draft.propose(ids, most)

    def saw(self, outcome: Outcome) -> None:
        """Learn how a round went, also before it is made."""
        if self._draft is not None:
            self._draft.saw(outcome)
        else:
            self._emitted += outcome.emitted

    def reset(self) -> None:
        """Forget every text."""
        self._emitted = []
        if self._draft is not None:
            self._draft.reset()

    def close(self) -> None:
        """Free what was made."""
        if self._draft is not None:
            self._draft.close()


class FirstOf:
    """A lookup, and a draft that is asked where it finds nothing.

    Attributes:
        free: The lookup has found something.
    """

    def __init__(self, lookup: Draft, draft: Draft) -> None:
        self._drafts = lookup, draft
        self.free = False

    @property
    def learning(self) -> Learning | None:
        """Return what changes the vocabulary of one of them."""
        return next((d.learning for d in self._drafts if d.learning is not None), None)

    def begin(self, ids: Sequence[int]) -> None:
        """Give all of them the tokens of a prompt."""
        for draft in self._drafts:
            draft.begin(ids)

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return what the first that can propose has to read."""
        lookup, draft = self._drafts
        found = lookup.behind(ids)
        self.free = found is not None
        return found if self.free else draft.behind(ids)

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
