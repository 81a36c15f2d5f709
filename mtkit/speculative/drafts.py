"""Drafts: what proposes the next tokens of a text.

``Lookup`` needs no model: it proposes again what followed an earlier occurrence of the last tokens,
which is right where a text repeats itself or its prompt: code that is edited, a summary that
quotes. A suffix automaton (Blumer et al. 1985) over all tokens finds the occurrence; it grows by
one token in amortized constant time and always knows the longest suffix that occurred before.

``Script`` is right at a given rate, to measure costs apart from quality. ``Lazy`` and ``FirstOf``
pass to other drafts.
"""

from __future__ import annotations

import time
from random import Random

from mtkit.errors import MtkitError
from mtkit.speculative.verification import Outcome, Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Protocol

    from mtkit.speculative.vocabulary import Learner

    class Draft(Protocol):
        """Proposes tokens; close it, which frees its model."""

        @property
        def free(self) -> bool:
            """Return whether its next proposal costs nothing, unlike others."""
            ...

        @property
        def overlap(self) -> int:
            """Return how many tokens the next proposal of a lookup was found by; else 0."""
            ...

        @property
        def learning(self) -> Learner | None:
            """Return what changes its vocabulary between rounds, if anything does."""
            ...

        def begin(self, ids: Sequence[int]) -> None:
            """Take the tokens of a prompt."""
            ...

        def behind(self, ids: Sequence[int]) -> int | None:
            """Return how many tokens it has to read before it can propose; None if it cannot."""
            ...

        def read(self, ids: Sequence[int], most: int) -> None:
            """Read up to ``most`` of the tokens that it is behind."""
            ...

        def propose(self, ids: Sequence[int], most: int) -> Proposal:
            """Propose up to ``most`` tokens (1 or more), perhaps none, behind the text so far."""
            ...

        def saw(self, outcome: Outcome) -> None:
            """Learn how a round went."""
            ...

        def reset(self) -> None:
            """Forget every text, and all that was learned from them."""
            ...

        def close(self) -> None:
            """Free what it holds."""
            ...


_LONG = 8
"""Tokens that agree before a lookup is nearly sure: an edit copies lines."""


class Lookup:
    """Proposes what followed the last tokens at their latest earlier occurrence."""

    free = False
    learning = None

    @property
    def overlap(self) -> int:
        """Return how many of the last tokens occurred before."""
        return self._match_length

    def __init__(self, shortest: int = 4, is_ahead: Callable[[], bool] = lambda: True) -> None:
        """Begin without tokens.

        Args:
            shortest: Least tokens that have to agree. What follows two or three is wrong half of
                the time, in code and in prose.
            is_ahead: Whether drafting has gained anything that may be lost; until then, ``_LONG``
                tokens have to agree.
        """
        self._shortest, self._is_ahead = shortest, is_ahead
        self.reset()

    def reset(self) -> None:
        """Forget all tokens."""
        self._ids: list[int] = []
        # Of every state: its successors by token, the state of its longest proper suffix in
        # another state, the length of its longest string, and where an occurrence of it ended.
        self._next: list[dict[int, int]] = [{}]
        self._suffix, self._length, self._end = [-1], [0], [0]
        # The state of the whole text, and the end and length of its last tokens' occurrence before.
        self._whole = self._match_end = self._match_length = 0

    def begin(self, ids: Sequence[int]) -> None:
        """Take the tokens of a prompt; they are read with the first proposal."""
        if self._ids != ids[: len(self._ids)]:
            self.reset()

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return 0 where the last tokens occurred before."""
        return 0 if self._match(ids) else None

    def read(self, ids: Sequence[int], most: int) -> None:  # noqa: ARG002  it takes no time
        """Take all tokens."""
        self._read(ids)

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Return what followed the longest suffix that occurred before."""
        end = self._match(ids)
        return Proposal(list(ids[end : end + most]) if end else [])

    def _match(self, ids: Sequence[int]) -> int:
        """Return where the occurrence to go on from ended; 0 for none."""
        self._read(ids)
        long = self._match_length >= self._shortest
        if long and not self._is_ahead():
            long = self._match_length >= _LONG
        return self._match_end if long else 0

    def _read(self, ids: Sequence[int]) -> None:
        for token_id in ids[len(self._ids) :]:
            self._add(token_id)

    def _add(self, token_id: int) -> None:
        """Add a token, and find where the longest suffix that occurred before ended last."""
        following, suffix, length = self._next, self._suffix, self._length
        self._ids.append(token_id)
        state = self._state({}, length[self._whole] + 1, len(self._ids))
        at = self._whole
        while at >= 0 and token_id not in following[at]:
            following[at][token_id] = state
            at = suffix[at]
        if at < 0:
            suffix[state] = 0
        else:
            target = following[at][token_id]
            if length[target] != length[at] + 1:
                target = self._split(at, token_id, target)
            suffix[state] = target
        self._whole = state
        before = suffix[state]
        self._match_end, self._match_length = self._end[before], length[before]
        self._end[before] = len(self._ids)

    def _split(self, at: int, token_id: int, state: int) -> int:
        """Split a state: return a new one for its shorter strings."""
        copy = self._state(dict(self._next[state]), self._length[at] + 1, self._end[state])
        self._suffix[copy] = self._suffix[state]
        self._suffix[state] = copy
        while at >= 0 and self._next[at].get(token_id) == state:
            self._next[at][token_id] = copy
            at = self._suffix[at]
        return copy

    def _state(self, following: dict[int, int], length: int, end: int) -> int:
        self._next.append(following)
        self._suffix.append(-1)
        self._length.append(length)
        self._end.append(end)
        return len(self._next) - 1

    def saw(self, outcome: Outcome) -> None:
        """Learn nothing: a proposal gets all tokens."""

    def close(self) -> None:
        """Free nothing: there is no model."""


class Script:
    """Proposes the tokens of a given text at a rate, and otherwise a wrong token."""

    free, overlap = False, 0
    learning = None

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._random = Random(1)  # noqa: S311  nothing secret
        self.ids: Sequence[int] = ()

    def token(self, place: int) -> int:
        """Return the token to propose at a place of the text."""
        token_id = self.ids[place] if place < len(self.ids) else 0
        return token_id if self._random.random() < self._rate else abs(token_id - 1)

    def begin(self, ids: Sequence[int]) -> None:
        """Read nothing."""

    def behind(self, ids: Sequence[int]) -> int:  # noqa: ARG002  it has read everything
        """Return 0."""
        return 0

    def read(self, ids: Sequence[int], most: int) -> None:
        """Read nothing."""

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Return the next tokens, right at the rate."""
        return Proposal([self.token(len(ids) + at) for at in range(most)])

    def saw(self, outcome: object) -> None:
        """Learn nothing."""

    def reset(self) -> None:
        """Draw the same again."""
        self._random.seed(1)

    def close(self) -> None:
        """Free nothing."""


class Lazy:
    """A draft that is made for its first proposal: one that is not worth it is never loaded.

    Attributes:
        spent: Seconds that making it took, by ``clock``; ``wall_seconds`` by the wall clock.
        failed: Why it could not be made; else empty.
    """

    free, overlap = False, 0

    def __init__(
        self, make: Callable[[], Draft], pays: Callable[[], bool], clock: Callable[[], float]
    ) -> None:
        """Make it once ``pays`` says so."""
        self._make, self._pays, self._clock = make, pays, clock
        self._draft: Draft | None = None
        self._emitted: list[int] = []
        self.spent, self.wall_seconds, self.failed = 0.0, 0.0, ""

    @property
    def learning(self) -> Learner | None:
        """Return what changes its vocabulary; None before it is made, or without."""
        return None if self._draft is None else self._draft.learning

    def begin(self, ids: Sequence[int]) -> None:
        """Take the tokens of a prompt."""
        if self._draft is not None:
            self._draft.begin(ids)

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return how many tokens it has to read; None if it is not worth its cost."""
        if self._draft is not None:
            return self._draft.behind(ids)
        return None if self.failed or not self._pays() else len(ids) - 1

    def read(self, ids: Sequence[int], most: int) -> None:
        """Read, if it is made."""
        if self._draft is not None:
            self._draft.read(ids, most)

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Propose tokens; make the draft first."""
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
        """Learn how a round went; kept for the draft until it is made."""
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
        """Close the draft."""
        if self._draft is not None:
            self._draft.close()


class FirstOf:
    """A lookup, and a draft for where it finds nothing."""

    def __init__(self, lookup: Draft, draft: Draft) -> None:
        self._drafts = lookup, draft
        self.free = False

    @property
    def learning(self) -> Learner | None:
        """Return what changes the vocabulary of the draft."""
        return next((d.learning for d in self._drafts if d.learning is not None), None)

    def begin(self, ids: Sequence[int]) -> None:
        """Give all of them the tokens of a prompt."""
        for draft in self._drafts:
            draft.begin(ids)

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return what the first that can propose has to read."""
        lookup, draft = self._drafts
        unread = lookup.behind(ids)
        self.free = unread is not None
        return unread if self.free else draft.behind(ids)

    @property
    def overlap(self) -> int:
        """Return that of the lookup, if it can propose."""
        return self._drafts[0].overlap if self.free else 0

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
