"""Says how many tokens to draft: what every way to find that has to answer, and a fixed number."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Protocol

    class Pace(Protocol):
        """Says how many tokens to draft."""

        def declined(self, left: int, behind: int) -> str:
            """Return why to draft nothing in a text; empty where drafting may pay.

            Args:
                left: Tokens of the text at most.
                behind: Tokens that the draft would have to read first.
            """
            ...

        @property
        def looks(self) -> bool:
            """Return whether to propose in texts that were declined, to see."""
            ...

        def imagines(self, behind: int, done: int) -> int:
            """Return how many tokens to propose now in a text that was declined; 0: none.

            Args:
                behind: Tokens of the text that the draft has not read.
                done: Tokens of it that were decoded.
            """
            ...

        def imagined(self, drafted: int, accepted: int) -> None:
            """Learn how a round would have gone."""
            ...

        def count(self, left: int, behind: int) -> int:
            """Return the number for the next round.

            Args:
                left: Tokens that are wanted yet.
                behind: Tokens of the text that the draft has not read.
            """
            ...

        def rest(self) -> int:
            """Return for how many rounds nothing is to be drafted, where ``count`` said 0."""
            ...

        def rested(self, rounds: int, seconds: Sequence[float]) -> None:
            """Learn that so many were plain, and how long the first of them took each."""
            ...

        def saw(
            self, drafted: int, accepted: int, draft_seconds: float, verify_seconds: float
        ) -> None:
            """Learn how a round went.

            Args:
                drafted: Tokens that were proposed.
                accepted: Of them.
                draft_seconds: Of proposing them.
                verify_seconds: Of all else: computing, choosing, cutting, learning.
            """
            ...


class Steady:
    """The same number in each round."""

    def __init__(self, number: int) -> None:
        self._number = number

    def declined(self, left: int, behind: int) -> str:  # noqa: ARG002  nothing is decided
        """Return an empty text."""
        return ""

    @property
    def looks(self) -> bool:
        """Return False."""
        return False

    def imagines(self, behind: int, done: int) -> int:  # noqa: ARG002  nothing is declined
        """Return 0."""
        return 0

    def imagined(self, drafted: int, accepted: int) -> None:
        """Learn nothing."""

    def count(self, left: int, behind: int) -> int:  # noqa: ARG002  it does not depend on them
        """Return the number."""
        return self._number

    def rest(self) -> int:
        """Return 0."""
        return 0

    def rested(self, rounds: int, seconds: Sequence[float]) -> None:
        """Learn nothing."""

    def saw(self, drafted: int, accepted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Learn nothing."""
