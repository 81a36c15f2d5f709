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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Protocol

    from mtkit.llm.sampling import Sampler
    from mtkit.llm.speculative.proposal import Proposal

    class Verification(Protocol):
        """Chooses the token behind a row of the last batch."""

        def choose(self, proposal: Proposal, row: int) -> int:
            """Return the token behind a row, -1 for none.

            Args:
                proposal: What was drafted: token n of it stands behind row n.
                row: Of the last batch; -1 for the last, without a proposal.
            """
            ...


class Matching:
    """Chooses as if there were no draft."""

    def __init__(self, sampler: Sampler) -> None:
        self._sample = sampler.sample

    def choose(self, proposal: Proposal, row: int) -> int:  # noqa: ARG002  it changes nothing
        """Return what the sampler chooses there."""
        return self._sample(row)


class Rejection:
    """Accepts drafted tokens by chance; what is not drafted is drawn as without drafts."""

    def __init__(self, sampler: Sampler, random: Any) -> None:
        """Take a sampler that gives distributions, and numpy's generator."""
        self._sampler, self._random = sampler, random

    def choose(self, proposal: Proposal, row: int) -> int:
        """Return the drafted token, or one from the residual, or one behind all drafted ones."""
        if not 0 <= row < len(proposal.ids):
            return self._sampler.sample(row)
        drafted = proposal.ids[row]
        if proposal.distributions is None:
            draft = Distribution.certain(drafted)
        else:
            draft = proposal.distributions[row]
        target = Distribution.of_logits(*self._sampler.distribution(row))
        token_id = judge(target, draft, drafted, self._random)
        self._sampler.accept((token_id,))
        return token_id
