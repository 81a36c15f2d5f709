"""When ShenXing looks for new ids: the double condition.

A round fires it if (1) its first drafted token was rejected and (2) the target's most likely id
there is not in the static vocabulary. An id that fired it before fires again, and is not searched
for again: the answer would be the same.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Container
    from typing import Literal

    from mtkit.llm.speculative.proposal import Outcome

    Position = Literal["first", "any"]
    Which = Literal["likely", "emitted", "either"]


class Trigger:
    """The double condition with its counters.

    Attributes:
        first_rejected: Rounds whose first drafted token was rejected.
        unknown: Rounds that ended where an id outside the static vocabulary was wanted.
        fired: Rounds that fired.
        searched: Ids that fired for the first time.
    """

    def __init__(
        self, static: Container[int], *, position: Position = "first", which: Which = "likely"
    ) -> None:
        """Begin.

        Args:
            static: The static vocabulary.
            position: Fire for the first drafted token alone, as the document has it, or for any.
            which: The id that is looked at: the most likely one, as the document has it, the one
                that was emitted (with random choices another one), or either.
        """
        self._static, self._position, self._which = static, position, which
        self.reset()

    def reset(self) -> None:
        """Count anew."""
        self.first_rejected = self.unknown = self.fired = 0
        self.searched: set[int] = set()

    def saw(self, outcome: Outcome) -> list[int]:
        """Return the ids to search for after a round."""
        if not outcome.drafted:
            return []
        asked = {
            "likely": (outcome.most_likely,),
            "emitted": (outcome.emitted[-1],),
            "either": (outcome.most_likely, outcome.emitted[-1]),
        }[self._which]
        unknown = [i for i in dict.fromkeys(asked) if i >= 0 and i not in self._static]
        first = outcome.accepted == 0
        rejected = outcome.accepted < len(outcome.drafted)
        self.first_rejected += first
        self.unknown += bool(unknown)
        if not unknown or not (first or (self._position == "any" and rejected)):
            return []
        self.fired += 1
        new = [i for i in unknown if i not in self.searched]
        self.searched.update(new)
        return new
