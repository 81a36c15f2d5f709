"""A draft that is right at a given rate, for what drafts cost apart from how good they are."""

from __future__ import annotations

from random import Random

from mtkit.llm.speculative.proposal import Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class Script:
    """Proposes the tokens of a known text at a rate, and another token else.

    Attributes:
        ids: Prompt and text.
    """

    free = False
    learning = None

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._random = Random(1)  # noqa: S311  nothing secret
        self.ids: Sequence[int] = ()

    def token(self, place: int) -> int:
        """Return what to propose at a place of the text."""
        known = self.ids[place] if place < len(self.ids) else 0
        return known if self._random.random() < self._rate else abs(known - 1)

    def begin(self, ids: Sequence[int]) -> None:
        """Read nothing."""

    def behind(self, ids: Sequence[int]) -> int:  # noqa: ARG002  it has read everything
        """Return 0."""
        return 0

    def read(self, ids: Sequence[int], most: int) -> None:
        """Read nothing."""

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Return what comes next, right at the rate."""
        return Proposal([self.token(len(ids) + at) for at in range(most)])

    def saw(self, outcome: object) -> None:
        """Learn nothing."""

    def reset(self) -> None:
        """Draw the same again."""
        self._random.seed(1)

    def close(self) -> None:
        """Free nothing."""
