"""What a draft would have been right about, in a text that is decoded plainly.

How often proposals are right is known without verifying any. A draft without a model proposes at no
cost; one with a model is asked as often as the pace allows.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.llm.speculative.drafts import Draft
    from mtkit.llm.speculative.pace import Pace

_PAUSE = 8
"""Tokens until the pace is asked again that said no."""


class Imagined:
    """Rounds that are not made: each is a proposal, and the tokens that then came."""

    def __init__(self, draft: Draft, pace: Pace) -> None:
        """Begin behind a token that was just chosen.

        Args:
            draft: Proposes.
            pace: Says when and how much, and learns how each round would have gone.
        """
        self._draft, self._pace = draft, pace
        self._proposed: list[int] | None = None
        self._accepted = self._done = self._again = 0

    def saw(self, ids: Sequence[int]) -> None:
        """Take the tokens that there are, one more than before."""
        self._done += 1
        if self._done < self._again:
            return
        proposed = self._proposed
        if proposed is not None:
            if self._accepted < len(proposed) and proposed[self._accepted] == ids[-1]:
                self._accepted += 1
                return
            self._pace.imagined(len(proposed), self._accepted)
        self._proposed, self._accepted = self._next(ids), 0

    def _next(self, ids: Sequence[int]) -> list[int] | None:
        """Return what is proposed now; None where nothing is asked."""
        behind = self._draft.behind(ids)
        count = self._pace.imagines(behind or 0, self._done)
        if not count:
            self._again = self._done + _PAUSE
            return None
        return self._draft.propose(ids, count).ids if behind is not None else []
