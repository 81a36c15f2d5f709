"""What becomes of a drafted token: the target accepts it, or puts another one in its place.

Two ways, both without loss:

- *matching*: the target chooses at every place as it would without a draft, and a drafted token
  stays as long as it is the one that was chosen. This is the rule for greedy decoding; with random
  choices it gives the very tokens that plain decoding gives with the same random seed.
- *rejection*: a drafted token stays with the probability that ``distribution`` derives, which
  accepts more of what a draft draws; the tokens follow the same distribution, but are not the same.
"""

from __future__ import annotations

from mtkit.llm.speculative.distribution import Distribution, judge
from mtkit.llm.speculative.proposal import Outcome

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from mtkit.llm.sampling import Sampler
    from mtkit.llm.speculative.proposal import Proposal

    class Verification(Protocol):
        """Chooses the token behind a row of the last batch."""

        def choose(self, proposal: Proposal, place: int, row: int) -> int:
            """Return the token behind a row, -1 for none.

            Args:
                proposal: What was drafted.
                place: Of the token in it; beyond its end, none was drafted there.
                row: Of the last batch; -1 for the last.
            """
            ...


class Matching:
    """Chooses as if there were no draft."""

    def __init__(self, sampler: Sampler) -> None:
        self._sample = sampler.sample

    def choose(self, proposal: Proposal, place: int, row: int) -> int:  # noqa: ARG002  the same
        """Return what the sampler chooses there."""
        return self._sample(row)


class Rejection:
    """Accepts drafted tokens by chance; what is not drafted is drawn as without drafts."""

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
        token_id = judge(target, draft, drafted, self._random)
        self._sampler.accept((token_id,))
        return token_id


class Round:
    """The tokens of a round, one by one: of one text alone (``rounds``), or of a slot (``shared``).

    Attributes:
        drafted: The tokens that were proposed.
        accepted: How many of those that were taken so far are accepted ones.
        emitted: The tokens that were taken.
        is_over: There are no more.
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
        """Return how it went.

        Args:
            logits: Those behind which the last token was chosen; None: nobody learns from them.
        """
        likely = int(logits.argmax()) if self.drafted and logits is not None else -1
        return Outcome(self.drafted, self.accepted, self.emitted, likely)

    def cut_short(self) -> Outcome:
        """Return how it went as far as tokens were taken: nothing was rejected."""
        return Outcome(self.drafted[: self.accepted], self.accepted, self.emitted, -1)
