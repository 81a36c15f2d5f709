"""Distributions over token ids, and the rejection sampling of speculative decoding.

A draft draws x from q; the target would draw from p. x is kept with probability min(1, p(x)/q(x)),
otherwise something is drawn from the residual, max(0, p - q) scaled to 1: what comes out follows p,
whatever q is (Leviathan et al. 2023, Chen et al. 2023). p and q are aligned by id: they may know
different ids, and q is 0 for those that it does not know.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class Distribution:
    """Probabilities of some ids; all others have none.

    Attributes:
        ids: Each once, in any order; of shape (n,).
        chances: Their probabilities, which add up to 1; float64 of shape (n,).
    """

    __slots__ = ("chances", "ids")

    def __init__(self, ids: Any, chances: Any) -> None:
        self.ids, self.chances = ids, chances

    @classmethod
    def of_logits(cls, ids: Any, logits: Any) -> Distribution:
        """Return the softmax of logits."""
        import numpy as np

        chances = logits.astype(np.float64)
        chances -= chances.max()
        np.exp(chances, out=chances)
        chances /= chances.sum()
        return cls(ids, chances)

    @classmethod
    def certain(cls, token_id: int) -> Distribution:
        """Return the distribution of a draft that proposes one token without drawing it."""
        import numpy as np

        return cls(np.array([token_id], np.int64), np.ones(1))

    def of(self, token_id: int) -> float:
        """Return the probability of an id."""
        found = self.ids == token_id
        at = int(found.argmax())
        return float(self.chances[at]) if found[at] else 0.0

    def draw(self, random: Any) -> int:
        """Draw an id."""
        sums = self.chances.cumsum()
        at = int(sums.searchsorted(random.random() * sums[-1], side="right"))
        while at >= len(sums) or not self.chances[at]:  # rounding at the end of the sums
            at -= 1
        return int(self.ids[at])

    def without(self, other: Distribution) -> Distribution:
        """Return the residual: what of this distribution another one does not cover.

        Where nothing is left, both are the same, and so is the residual.
        """
        import numpy as np

        order = other.ids.argsort()
        at = other.ids.searchsorted(self.ids, sorter=order)
        at[at == len(order)] = 0
        at = order[at]
        rest = np.where(other.ids[at] == self.ids, self.chances - other.chances[at], self.chances)
        np.maximum(rest, 0.0, out=rest)
        total = rest.sum()
        if not total > 0:
            return self
        rest /= total
        return Distribution(self.ids, rest)


def judge(target: Distribution, draft: Distribution, drafted: int, random: Any) -> int:
    """Return the drafted id where it is accepted, else the one drawn in its place.

    Where the two are equal, the id counts as accepted: either way it is next, and what was drafted
    behind it was drafted behind it.
    """
    if random.random() * draft.of(drafted) < target.of(drafted):
        return drafted
    return target.without(draft).draw(random)
