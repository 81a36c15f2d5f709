"""A draft model of another vocabulary."""

from __future__ import annotations

from mtkit.llm.speculative.distribution import Distribution
from mtkit.llm.speculative.proposal import Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.llm.speculative.drafts import Draft
    from mtkit.llm.speculative.proposal import Outcome
    from mtkit.llm.speculative.translation import Translation


class TranslatedDraft:
    """Proposes what a draft with ids of its own proposes.

    It proposes the ids alone that mean something in the target, and they are taken for those.
    """

    free = False
    learning = None

    def __init__(self, draft: Draft, translation: Translation) -> None:
        """Take a draft, which is closed with this one."""
        import numpy as np

        self._draft, self._translation = draft, translation
        shared = translation.shared
        self._ours = np.full(max(shared, default=0) + 1, -1, np.int64)
        self._ours[list(shared)] = list(shared.values())
        self._entered: tuple[list[int], list[int] | None] = [], None

    def begin(self, ids: Sequence[int]) -> None:
        """Wait: the text is translated when something is proposed."""

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return how many of its tokens the draft has to read."""
        entering = self._entering(ids)
        if entering is None:
            return None
        self._draft.begin(entering)  # another split can change the last tokens
        return self._draft.behind(entering)

    def _entering(self, ids: Sequence[int]) -> list[int] | None:
        if self._entered[0] != ids:
            self._entered = list(ids), self._translation.entering(ids)
        return self._entered[1]

    def read(self, ids: Sequence[int], most: int) -> None:
        """Let the draft read."""
        entering = self._entering(ids)
        if entering is not None:
            self._draft.begin(entering)
            self._draft.read(entering, most)

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Return what the draft proposes, in the target's ids."""
        entering = self._entering(ids)
        if entering is None:
            return Proposal([])
        self._draft.begin(entering)
        made = self._draft.propose(entering, most)
        ours = [int(self._ours[token_id]) for token_id in made.ids]
        if made.distributions is None:
            return Proposal(ours)
        translated = [Distribution(self._ours[one.ids], one.chances) for one in made.distributions]
        return Proposal(ours, translated)

    def saw(self, outcome: Outcome) -> None:
        """Learn nothing."""

    def reset(self) -> None:
        """Let the draft forget."""
        self._draft.reset()

    def close(self) -> None:
        """Close the draft."""
        self._draft.close()
