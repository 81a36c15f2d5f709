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
        ids: Ascending; int64 of shape (n,).
        chances: Their probabilities, which add up to 1; float64 of shape (n,).
    """

    __slots__ = ("chances", "ids")

    def __init__(self, ids: Any, chances: Any) -> None:
        self.ids, self.chances = ids, chances

    @classmethod
    def of_logits(cls, ids: Any, logits: Any) -> Distribution:
        """Return the softmax of logits whose ids may come in any order."""
        import numpy as np

        order = np.argsort(ids, kind="stable")
        shifted = logits[order].astype(np.float64)
        chances = np.exp(shifted - shifted.max())
        return cls(ids[order].astype(np.int64), chances / chances.sum())

    @classmethod
    def certain(cls, token_id: int) -> Distribution:
        """Return the distribution of a draft that proposes one token without drawing it."""
        import numpy as np

        return cls(np.array([token_id], np.int64), np.ones(1))

    def of(self, token_id: int) -> float:
        """Return the probability of an id."""
        at = int(self.ids.searchsorted(token_id))
        found = at < len(self.ids) and self.ids[at] == token_id
        return float(self.chances[at]) if found else 0.0

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

        rest = self.chances.copy()
        at = self.ids.searchsorted(other.ids)
        at[at == len(self.ids)] = 0
        known = self.ids[at] == other.ids
        rest[at[known]] -= other.chances[known]
        np.maximum(rest, 0.0, out=rest)
        total = rest.sum()
        return Distribution(self.ids, rest / total) if total > 0 else self


def drawn(ids: Any, logits: Any, random: Any) -> int:
    """Draw from the softmax of logits, without making a distribution that can be compared."""
    import numpy as np

    sums = np.exp(logits.astype(np.float64) - logits.max()).cumsum()
    at = int(sums.searchsorted(random.random() * sums[-1], side="right"))
    return int(ids[min(at, len(ids) - 1)])


def judge(target: Distribution, draft: Distribution, drafted: int, random: Any) -> int:
    """Return the drafted id where it is accepted, else the one drawn in its place.

    Where the two are equal, the id counts as accepted: either way it is next, and what was drafted
    behind it was drafted behind it.
    """
    if random.random() * draft.of(drafted) < target.of(drafted):
        return drafted
    return target.without(draft).draw(random)
