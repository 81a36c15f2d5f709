"""Drafting for sequences that share the batches of one context.

Each sequence has a draft with a vocabulary of its own; their proposals are verified together.
Tokens that plain decoding would choose are accepted (``verification.Matching``), so an answer is
the same with and without drafts. llama.cpp splits a batch whose sequences have different numbers of
tokens, so all of them draft the same number.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from mtkit.base.process import Closeable
from mtkit.speculative import exactness, setup
from mtkit.speculative.costs import measure_batches, measure_draft
from mtkit.speculative.draft_model import DraftLoader, check_can_cut
from mtkit.speculative.policy import Budget, shared_number
from mtkit.speculative.rounds import Statistics
from mtkit.speculative.verification import Proposal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.llama import SlotContext
    from mtkit.llm.runner import Runner
    from mtkit.settings import AnswerSettings
    from mtkit.speculative.costs import Costs
    from mtkit.speculative.drafts import Draft
    from mtkit.speculative.verification import Round


READ_TOKENS = 128
"""Tokens that a draft reads before a batch at most: the other sequences wait for it."""
_MEMORY, _EXPECTED, _WEIGHT = 0.95, 0.6, 4.0
"""Weight of a round against the next one; acceptance before any round, and its weight."""


class Seat:
    """The draft of one sequence."""

    def __init__(self, draft: Draft) -> None:
        """Take a draft; the seat closes it."""
        self.draft = draft
        self._tried, self._accepted = _WEIGHT, _WEIGHT * _EXPECTED
        self.statistics = Statistics(draft.learning)
        self._fired = self.emitted = 0

    def begin(self, ids: Sequence[int], *, goes_on: bool) -> None:
        """Begin a text; unless it goes on from the one before, forget all that was learned."""
        if not goes_on:
            self.draft.reset()
        self.draft.begin(ids)
        learning = self.draft.learning
        self.statistics = Statistics(learning)
        self._fired = learning.triggers if learning else 0

    @property
    def acceptance(self) -> float:
        """The fraction of the next proposal that is likely to be accepted."""
        overlap = self.draft.overlap
        return (self._accepted + overlap) / (self._tried + overlap)

    def propose(self, ids: list[int], most: int) -> Proposal:
        """Propose tokens; a draft that is far behind only reads."""
        start = time.perf_counter()
        if (self.draft.behind(ids) or 0) > READ_TOKENS:
            self.draft.read(ids, READ_TOKENS)
            proposal = Proposal([])
        else:
            proposal = self.draft.propose(ids, most)
        self.statistics.draft_seconds += time.perf_counter() - start
        return proposal

    def saw(self, tokens: Round, logits: Any) -> None:
        """Learn how a round went; ``logits`` are those of its end."""
        drafted, accepted = len(tokens.drafted), tokens.accepted
        self.emitted += len(tokens.emitted)
        self.statistics.count_round(drafted, 0.0, 0.0)
        self.statistics.count_outcome(drafted, accepted, len(tokens.emitted))
        if drafted:
            self._tried = _MEMORY * self._tried + min(accepted + 1, drafted)
            self._accepted = _MEMORY * self._accepted + accepted
        self.draft.saw(tokens.outcome(logits if self.draft.learning is not None else None))

    def figures(self) -> dict[str, float]:
        """Return the counts of the text, for JSON."""
        statistics, learning = self.statistics, self.draft.learning
        figures: dict[str, float] = {
            "rounds": statistics.rounds,
            "drafted": statistics.drafted,
            "accepted": statistics.accepted,
            "acceptance": round(statistics.acceptance, 4),
            "draft_seconds": round(statistics.draft_seconds, 6),
        }
        if learning is not None:
            figures |= {
                "triggers": learning.triggers - self._fired,
                "dynamic_vocabulary": learning.vocabulary.size,
            }
        return figures


class SharedDrafting(Closeable):
    """The seats of all sequences, and how many tokens they draft; close it."""

    def __init__(self, runner: Runner, context: SlotContext, settings: AnswerSettings) -> None:
        """Load what drafts."""
        check_can_cut(runner)
        drafting, count = settings.drafting, context.n_slots
        rows = min(context.n_batch, exactness.MOST_ROWS) if drafting.exact else context.n_batch
        self._most = min(drafting.draft_max, max(rows // count - 1, 0))
        self._costs: Costs | None = None
        self._rest = 0  # batches until drafting is considered again
        self._budget = Budget()
        # The last batch that drafted: its cost in plain tokens, and what was emitted before.
        self._last: tuple[float, int] | None = None
        with ExitStack() as stack:
            loaded = stack.enter_context(DraftLoader(runner, settings, context.n_slot, count))
            self.seats: list[Seat] = []
            for _ in range(count):
                self.seats.append(Seat(loaded.draft()))
                stack.callback(self.seats[-1].draft.close)
            if drafting.draft_auto and self._most:
                self._costs = self._open_costs(runner, context, settings, loaded)
            self._closing = stack.pop_all()

    def _open_costs(
        self, runner: Runner, context: SlotContext, settings: AnswerSettings, loaded: DraftLoader
    ) -> Costs:
        """Return the costs as saved, measured where none are."""
        costs = setup.open_costs(runner, context, settings.drafting, -context.n_slots)
        rows = min(context.n_slots * (self._most + 1), context.n_batch)
        plain = 0.0
        if rows > max(costs.sizes):
            plain = measure_batches(context, [2, 4, 8, 16, rows], costs)
        if loaded.context is not None and not costs.has_draft:
            plain = plain or measure_batches(context, [], costs)
            measure_draft(loaded.context, plain, costs)
        costs.save()
        return costs

    def proposals(
        self, requests: Sequence[tuple[Seat, list[int], int]], others: int
    ) -> list[Proposal]:
        """Let the seats propose for the next batch."""
        self._settle(len(requests) + others)
        behind = [seat.draft.behind(ids) if most > 0 else None for seat, ids, most in requests]
        ready = [at for at, count in enumerate(behind) if count is not None]
        proposals = [Proposal([])] * len(requests)
        if not ready:
            return proposals
        number = self._number(
            [requests[at][0].acceptance for at in ready],
            others + len(requests) - len(ready),
            sum(behind[at] or 0 for at in ready),
            max(requests[at][2] for at in ready),
        )
        for at in ready if number else ():
            seat, ids, most = requests[at]
            proposals[at] = seat.propose(ids, min(number, most))
        return proposals

    def _number(self, acceptances: list[float], others: int, behind: int, left: int) -> int:
        """Return how many tokens each sequence drafts: what gives the most tokens a second."""
        if self._costs is None:
            return self._most
        if self._rest > 0:
            self._rest -= 1
            return 0
        number, cost, self._rest = shared_number(
            self._costs, acceptances, others, behind, left, self._most, self._budget.left
        )
        if number:
            self._last = cost, self._emitted
        return number

    @property
    def _emitted(self) -> int:
        return sum(seat.emitted for seat in self.seats)

    def _settle(self, size: int) -> None:
        """Count what the last batch gave, which drafted or not."""
        self._budget.begin()
        if self._last is None:
            self._budget.saw(size, size)
            return
        cost, before = self._last
        self._budget.saw(self._emitted - before, cost)
        self._last = None

    def close(self) -> None:
        """Free all drafts, and their model."""
        self._closing.close()
