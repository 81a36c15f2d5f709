"""Verification of drafted tokens: the target accepts each, or puts another one in its place.

``Proposal`` and ``Outcome`` pass between a draft and the loop. Two ways, both without loss:

- *matching*: the target chooses at every place as it would without a draft, and drafted tokens are
  accepted as long as they are its choice. This is the rule for greedy decoding; with random choices
  it gives the very tokens that plain decoding gives with the same seed.
- *rejection*: a drafted token is accepted with a probability derived from two distributions, which
  accepts more of what a draft draws; the tokens follow the same distribution, but are not the same.

A draft draws x from q; the target would draw from p. x is accepted with probability
min(1, p(x)/q(x)), otherwise a token is drawn from the residual, max(0, p - q) scaled to 1: the
result follows p, whatever q is (Leviathan et al. 2023, Chen et al. 2023). p and q are aligned by
id: they may know different ids, and q is 0 for those that it does not know.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from mtkit.llm.sampling import Sampler

    class Verification(Protocol):
        """Chooses the token behind a row of the last batch."""

        def choose(self, proposal: Proposal, place: int, row: int) -> int:
            """Return the token behind a row of the last batch (-1 for the last); -1 for none.

            ``place`` is that of the token in the proposal, or beyond its end.
            """
            ...


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
        matches = self.ids == token_id
        at = int(matches.argmax())
        return float(self.chances[at]) if matches[at] else 0.0

    def draw(self, random: Any) -> int:
        """Draw an id."""
        sums = self.chances.cumsum()
        at = int(sums.searchsorted(random.random() * sums[-1], side="right"))
        while at >= len(sums) or not self.chances[at]:  # rounding at the end of the sums
            at -= 1
        return int(self.ids[at])

    def without(self, other: Distribution) -> Distribution:
        """Return the residual: the part of this distribution that another one does not cover.

        Where nothing is left, the two are equal, and this one is the residual.
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


def accept_or_draw(target: Distribution, draft: Distribution, drafted: int, random: Any) -> int:
    """Return the drafted id if it is accepted, else one drawn in its place.

    If that is the same id, it counts as accepted: what was drafted behind it is still valid.
    """
    if random.random() * draft.of(drafted) < target.of(drafted):
        return drafted
    return target.without(draft).draw(random)


class Proposal:
    """Tokens that a draft proposes.

    Attributes:
        distributions: What each was drawn from; None if they were not drawn.
    """

    __slots__ = ("distributions", "ids")

    def __init__(self, ids: list[int], distributions: list[Distribution] | None = None) -> None:
        self.ids, self.distributions = ids, distributions


class Outcome:
    """How a round went.

    Attributes:
        emitted: All tokens of the round: the accepted ones and the one behind them.
        most_likely: The target's most likely id where the round ended; -1 if nothing was drafted,
            or the draft does not learn.
    """

    __slots__ = ("accepted", "drafted", "emitted", "most_likely")

    def __init__(
        self, drafted: list[int], accepted: int, emitted: list[int], most_likely: int
    ) -> None:
        self.drafted, self.accepted = drafted, accepted
        self.emitted, self.most_likely = emitted, most_likely


class Matching:
    """Chooses as if there were no draft."""

    def __init__(self, sampler: Sampler) -> None:
        self._sample = sampler.sample

    def choose(self, proposal: Proposal, place: int, row: int) -> int:  # noqa: ARG002  the same
        """Return what the sampler chooses there."""
        return self._sample(row)


class Rejection:
    """Accepts drafted tokens by chance; places without one are sampled as without drafts."""

    def __init__(self, sampler: Sampler, random: Any) -> None:
        """Take a sampler that gives distributions, and numpy's generator."""
        self._sampler, self._random = sampler, random

    def choose(self, proposal: Proposal, place: int, row: int) -> int:
        """Return the drafted token, or one from the residual, or one behind all drafted ones."""
        if place >= len(proposal.ids):
            return self._sampler.sample(row)
        drafted = proposal.ids[place]
        if proposal.distributions is None:
            draft = Distribution.certain(drafted)
        else:
            draft = proposal.distributions[place]
        target = Distribution.of_logits(*self._sampler.distribution(row))
        token_id = accept_or_draw(target, draft, drafted, self._random)
        self._sampler.accept((token_id,))
        return token_id


class Round:
    """The tokens of a round, chosen one by one.

    Attributes:
        accepted: How many of the tokens so far are accepted ones.
    """

    __slots__ = ("_proposal", "accepted", "drafted", "emitted", "is_over")

    def __init__(self, proposal: Proposal) -> None:
        self._proposal, self.drafted = proposal, proposal.ids
        self.emitted: list[int] = []
        self.accepted, self.is_over = 0, False

    def next(self, verification: Verification, first: int = 0) -> int:
        """Choose the next token; ``first`` is the row behind which the proposal begins."""
        drafted, place = self.drafted, len(self.emitted)
        token_id = verification.choose(self._proposal, place, first + place)
        self.emitted.append(token_id)
        if place < len(drafted) and token_id == drafted[place]:
            self.accepted += 1
        else:
            self.is_over = True
        return token_id

    def outcome(self, logits: Any | None) -> Outcome:
        """Return how it went; ``logits`` are those of the last token, for a draft that learns."""
        likely = int(logits.argmax()) if self.drafted and logits is not None else -1
        return Outcome(self.drafted, self.accepted, self.emitted, likely)

    def cut_short(self) -> Outcome:
        """Return how it went if no more tokens are taken: nothing was rejected."""
        return Outcome(self.drafted[: self.accepted], self.accepted, self.emitted, -1)
