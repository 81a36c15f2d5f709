"""A draft that is a model: a smaller one with the same ids."""

from __future__ import annotations

from mtkit.llm.speculative.distribution import Distribution
from mtkit.llm.speculative.proposal import Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.llama import Chain, Context
    from mtkit.llm.speculative.draft_vocabulary import Whole
    from mtkit.llm.speculative.learning import Learning
    from mtkit.llm.speculative.proposal import Outcome


class ModelDraft:
    """Proposes the tokens that a model finds most likely, or draws them.

    Attributes:
        learning: What changes its vocabulary between rounds; None for nothing.
        script: Place in the text -> what is proposed there instead; for benchmarks.
    """

    free = False
    script: Callable[[int], int] | None = None

    def __init__(
        self,
        context: Context,
        vocabulary: Whole,
        *,
        least: float = 0.0,
        cuts: Chain | None = None,
        random: Any = None,
        learning: Learning | None = None,
    ) -> None:
        """Take a context of a model.

        Args:
            context: It is closed with the draft.
            vocabulary: The ids that it knows.
            least: Propose nothing more where not even the most likely token has this probability.
                It may depend on what is likely, never on what was drawn: that would be biased.
            cuts: What is done to the logits before a token is drawn from them; None to take the
                most likely one.
            random: numpy's generator, to draw with.
            learning: What changes the vocabulary between rounds.
        """
        self.learning = learning
        self._least, self._cuts, self._random = least, cuts, random
        self._context, self._vocabulary = context, vocabulary
        self._fed: list[int] = []
        self._agreed = 0

    def begin(self, ids: Sequence[int]) -> None:
        """Take the tokens of a prompt; they are computed with the first proposal."""
        self._agreed = 0
        if self.learning is not None:
            self.learning.begin(ids)

    def behind(self, ids: Sequence[int]) -> int | None:
        """Return how many tokens have to be computed; None where they do not fit."""
        return None if len(ids) >= self._context.n_ctx else len(ids) - 1 - self._agree(ids)

    def read(self, ids: Sequence[int], most: int) -> None:
        """Compute some of the tokens that it is behind."""
        self._catch_up(ids[: self._agree(ids) + most])

    def propose(self, ids: Sequence[int], most: int) -> Proposal:
        """Propose tokens; none where they do not fit the draft's context, or it lacks an id."""
        context = self._context
        most = min(most, context.n_ctx - len(ids))
        if most <= 0 or not self._catch_up(ids):
            return Proposal([])
        if self.learning is not None:
            self.learning.ready()
        proposed: list[int] = []
        distributions: list[Distribution] = []
        vocabulary = self._vocabulary
        known = vocabulary.ids
        while True:
            logits = vocabulary.logits()
            if self._cuts is None:
                at = int(logits.argmax())
                token_id = at if known is None else int(known[at])
                if self._least > 0 and _highest(logits) < self._least:
                    break
                if self.script is not None:
                    token_id = self.script(len(ids) + len(proposed))
            else:
                rows, left = self._cuts.cut(logits)
                distribution = Distribution.of_logits(rows if known is None else known[rows], left)
                if distribution.chances.max() < self._least:
                    break
                token_id = distribution.draw(self._random)
                distributions.append(distribution)
            proposed.append(token_id)
            if len(proposed) == most:
                break
            vocabulary.feed((token_id,))
            self._fed.append(token_id)
        return Proposal(proposed, distributions if self._cuts else None)

    def _agree(self, ids: Sequence[int]) -> int:
        """Return how many of these tokens are in the memory, from the start on."""
        at, fed = self._agreed, self._fed
        until = min(len(fed), len(ids) - 1)  # the last is computed anew, for its logits
        while at < until and fed[at] == ids[at]:
            at += 1
        self._agreed = at = min(at, max(len(ids) - 1, 0))
        return at

    def _catch_up(self, ids: Sequence[int]) -> bool:
        """Bring the memory to these tokens; False where the model does not know one of them."""
        at, fed = self._agree(ids), self._fed
        del fed[at:]
        self._context.truncate(at)
        rest = ids[at:]
        if not rest or len(ids) > self._context.n_ctx or not self._vocabulary.knows(rest):
            return not rest
        self._vocabulary.feed(rest)
        fed += rest
        return True

    def saw(self, outcome: Outcome) -> None:
        """Let the vocabulary grow; what was rejected is cut off with the next proposal."""
        if self.learning is not None:
            self.learning.saw(outcome)

    def reset(self) -> None:
        """Forget every text, and what the vocabulary learnt."""
        self._fed, self._agreed = [], 0
        self._context.clear()
        if self.learning is not None:
            self.learning.reset()

    def close(self) -> None:
        """Free the context."""
        if self._cuts is not None:
            self._cuts.close()
        self._context.close()


def _highest(logits: Any) -> float:
    """Return the highest probability."""
    import numpy as np

    return float(1 / np.exp(logits - logits.max()).sum(dtype=np.float64))
