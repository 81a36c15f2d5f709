"""Prompt lookup: a draft without a model.

What stands behind an earlier occurrence of the last tokens is proposed again, which is right where
a text repeats itself or its prompt: code that is edited, a summary that quotes.

The occurrence is found by a suffix automaton (Blumer et al. 1985) over all tokens, which grows by
one token in amortized constant time and always knows the longest suffix that occurred before.
"""

from __future__ import annotations

from mtkit.llm.speculative.proposal import Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.llm.speculative.proposal import Outcome


class Lookup:
    """Proposes what followed the last tokens when they occurred before."""

    free = False
    learning = None

    def __init__(self, shortest: int = 4) -> None:
        """Begin without tokens.

        Args:
            shortest: Tokens that have to agree at least. What follows two or three is wrong half of
                the time, in code and in prose.
        """
        self._shortest = shortest
        self.reset()

    def reset(self) -> None:
        """Forget all tokens."""
        self._ids: list[int] = []
        # Of every state: where each token leads, the state of its longest proper suffix that is
        # another state, its longest string, and behind which token an occurrence of it ended.
        self._next: list[dict[int, int]] = [{}]
        self._suffix, self._length, self._end = [-1], [0], [0]
        self._whole = self._found = 0

    def begin(self, ids: Sequence[int]) -> None:
        """Take the tokens of a prompt; they are read when something is asked for."""
        if self._ids != ids[: len(self._ids)]:
            self.reset()

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return 0 where the last tokens occurred before."""
        self._read(ids)
        return 0 if self._found else None

    def read(self, ids: Sequence[int], most: int) -> None:  # noqa: ARG002  it takes no time
        """Take all tokens."""
        self._read(ids)

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Return what stands behind the longest suffix that occurred before."""
        self._read(ids)
        return Proposal(list(ids[self._found : self._found + most]) if self._found else [])

    def _read(self, ids: Sequence[int]) -> None:
        for token_id in ids[len(self._ids) :]:
            self._add(token_id)

    def _add(self, token_id: int) -> None:
        """Add a token, and find the place behind the last occurrence of the longest suffix."""
        following, suffix, length = self._next, self._suffix, self._length
        self._ids.append(token_id)
        made = self._state({}, length[self._whole] + 1, len(self._ids))
        at = self._whole
        while at >= 0 and token_id not in following[at]:
            following[at][token_id] = made
            at = suffix[at]
        if at < 0:
            suffix[made] = 0
        else:
            to = following[at][token_id]
            if length[to] != length[at] + 1:
                to = self._split(at, token_id, to)
            suffix[made] = to
        self._whole = made
        before = suffix[made]
        self._found = self._end[before] if length[before] >= self._shortest else 0
        self._end[before] = len(self._ids)

    def _split(self, at: int, token_id: int, to: int) -> int:
        """Make a state of its own of the shorter strings of a state; returns it."""
        copy = self._state(dict(self._next[to]), self._length[at] + 1, self._end[to])
        self._suffix[copy] = self._suffix[to]
        self._suffix[to] = copy
        while at >= 0 and self._next[at].get(token_id) == to:
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
        """Learn nothing: a proposal is given all tokens."""

    def close(self) -> None:
        """Free nothing: there is no model."""
