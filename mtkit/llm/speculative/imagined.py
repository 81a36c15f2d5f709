"""What a draft without a model would have been right about, in a text that is decoded plainly.

Its proposals cost nothing, so how often they are right is known without verifying any.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.llm.speculative.drafts import Draft


class Imagined:
    """Rounds that are not made: each is a proposal, and the tokens that then came."""

    def __init__(self, draft: Draft, most: int, tell: Callable[[int, int], None]) -> None:
        """Begin behind a token that was just chosen.

        Args:
            draft: Proposes at no cost.
            most: Tokens of a proposal.
            tell: Gets the tokens proposed and accepted of each round.
        """
        self._draft, self._most, self._tell = draft, most, tell
        self._proposed: list[int] | None = None
        self._accepted = 0

    def saw(self, ids: Sequence[int]) -> None:
        """Take the tokens that there are, one more than before."""
        proposed = self._proposed
        if proposed is not None:
            if self._accepted < len(proposed) and proposed[self._accepted] == ids[-1]:
                self._accepted += 1
                return
            self._tell(len(proposed), self._accepted)
        self._proposed, self._accepted = self._draft.propose(ids, self._most).ids, 0
