"""Drafting for sequences that share the batches of one context.

Each sequence has a draft with a vocabulary of its own; what they propose is verified together. What
plain decoding would choose is accepted (``verification.Matching``), so an answer is the same with
drafts and without. llama.cpp splits a batch whose sequences have different numbers of tokens, so
one number is found for all of them.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from mtkit.base.process import Closeable
from mtkit.speculative import costs, exactness, setup
from mtkit.speculative.draft_model import DraftLoader, check_can_cut
from mtkit.speculative.policy import shared_number
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
"""Tokens that a draft reads before a batch at most: the others wait for it."""
_MEMORY, _EXPECTED, _WEIGHT = 0.95, 0.6, 4.0
"""What a round counts against the next one; acceptance before any, and what that is worth."""


class Seat:
    """What drafts for one sequence."""

    def __init__(self, draft: Draft) -> None:
        """Take a draft; the seat closes it."""
        self.draft = draft
        self._tried, self._accepted = _WEIGHT, _WEIGHT * _EXPECTED
        self.statistics = Statistics(draft.learning)
        self._fired = 0

    def begin(self, ids: Sequence[int], *, goes_on: bool) -> None:
        """Begin a text: it goes on from the one before, or everything learnt is forgotten."""
        if not goes_on:
            self.draft.reset()
        self.draft.begin(ids)
        learning = self.draft.learning
        self.statistics = Statistics(learning)
        self._fired = learning.triggers if learning else 0

    @property
    def acceptance(self) -> float:
        """The part of drafted tokens that is accepted at present."""
        return self._accepted / self._tried

    def propose(self, ids: list[int], most: int) -> Proposal:
        """Propose tokens, or read what there is to read first."""
        start = time.perf_counter()
        if (self.draft.behind(ids) or 0) > READ_TOKENS:
            self.draft.read(ids, READ_TOKENS)
            found = Proposal([])
        else:
            found = self.draft.propose(ids, most)
        self.statistics.draft_seconds += time.perf_counter() - start
        return found

    def saw(self, made: Round, logits: Any) -> None:
        """Learn how a round went; ``logits`` are those of its end."""
        drafted, accepted = len(made.drafted), made.accepted
        self.statistics.round(drafted, 0.0, 0.0)
        self.statistics.outcome(drafted, accepted, len(made.emitted))
        if drafted:
            self._tried = _MEMORY * self._tried + min(accepted + 1, drafted)
            self._accepted = _MEMORY * self._accepted + accepted
        self.draft.saw(made.outcome(logits if self.draft.learning is not None else None))

    def figures(self) -> dict[str, float]:
        """Return what was drafted in the text."""
        seen, learning = self.statistics, self.draft.learning
        found: dict[str, float] = {
            "rounds": seen.rounds,
            "drafted": seen.drafted,
            "accepted": seen.accepted,
            "acceptance": round(seen.acceptance, 4),
            "draft_seconds": round(seen.draft_seconds, 6),
        }
        if learning is not None:
            found |= {
                "triggers": learning.triggers - self._fired,
                "dynamic_vocabulary": learning.vocabulary.size,
            }
        return found


class SharedDrafting(Closeable):
    """The seats of all sequences, and how many tokens they draft; close it."""

    def __init__(self, runner: Runner, context: SlotContext, settings: AnswerSettings) -> None:
        """Load what drafts."""
        check_can_cut(runner)
        drafting, count = settings.drafting, context.n_slots
        rows = min(context.n_batch, exactness.MOST_ROWS) if drafting.exact else context.n_batch
        self._most = min(drafting.draft_max, max(rows // count - 1, 0))
        self._known: Costs | None = None
        self._rest = 0
        with ExitStack() as stack:
            loaded = stack.enter_context(DraftLoader(runner, settings, context.n_slot, count))
            self.seats: list[Seat] = []
            for _ in range(count):
                self.seats.append(Seat(loaded.draft()))
                stack.callback(self.seats[-1].draft.close)
            if drafting.draft_auto and self._most:
                self._known = self._measured(runner, context, settings, loaded)
            self._closing = stack.pop_all()

    def _measured(
        self, runner: Runner, context: SlotContext, settings: AnswerSettings, loaded: DraftLoader
    ) -> Costs:
        """Return what is remembered of costs, measured where nothing is."""
        found = setup.open_costs(runner, context, settings.drafting, -context.n_slots)
        rows = min(context.n_slots * (self._most + 1), context.n_batch)
        plain = 0.0
        if rows > max(found.sizes):
            plain = costs.measure_batches(context, [2, 4, 8, 16, rows], found)
        if loaded.context is not None and not found.has_draft:
            plain = plain or costs.measure_batches(context, [], found)
            costs.measure_draft(loaded.context, plain, found)
        found.save()
        return found

    def proposals(
        self, asked: Sequence[tuple[Seat, list[int], int]], others: int
    ) -> list[Proposal]:
        """Let the seats propose for the next batch.

        Args:
            asked: Seat, the tokens that there are, and how many can follow the next one at most.
        """
        behind = [seat.draft.behind(ids) if most > 0 else None for seat, ids, most in asked]
        ready = [at for at, count in enumerate(behind) if count is not None]
        found = [Proposal([])] * len(asked)
        if not ready:
            return found
        number = self._number(
            [asked[at][0].acceptance for at in ready],
            others + len(asked) - len(ready),
            sum(behind[at] or 0 for at in ready),
            max(asked[at][2] for at in ready),
        )
        for at in ready if number else ():
            seat, ids, most = asked[at]
            found[at] = seat.propose(ids, min(number, most))
        return found

    def _number(self, acceptances: list[float], others: int, behind: int, left: int) -> int:
        """Return how many tokens to draft: as many as give the most tokens a second together."""
        if self._known is None:
            return self._most
        if self._rest > 0:
            self._rest -= 1
            return 0
        number, self._rest = shared_number(
            self._known, acceptances, others, behind, left, self._most
        )
        return number

    def close(self) -> None:
        """Free all drafts, and their model."""
        self._closing.close()
