"""Drafting for sequences that share the batches of one context.

Each sequence has a draft with a vocabulary of its own; what they propose is verified together. What
plain decoding would choose is accepted (``verification.Matching``), so an answer is the same with
drafts and without. llama.cpp splits a batch whose sequences have different numbers of tokens, so
one number is found for all of them.
"""

from __future__ import annotations

import time
from contextlib import ExitStack
from math import ceil

from mtkit.base.closing import Closing
from mtkit.llm.speculative import calibration, exactness
from mtkit.llm.speculative.loaded_draft import LoadedDraft, check_can_cut
from mtkit.llm.speculative.proposal import Proposal
from mtkit.llm.speculative.statistics import Statistics

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.llama import SlotContext
    from mtkit.llm.runner import Runner
    from mtkit.llm.speculative.costs import Costs
    from mtkit.llm.speculative.drafts import Draft
    from mtkit.llm.speculative.verification import Round
    from mtkit.settings import AnswerSettings

READ = 128
"""Tokens that a draft reads before a batch at most: the others wait for it."""
_MEMORY, _EXPECTED, _WEIGHT = 0.95, 0.6, 4.0
"""What a round counts against the next one; acceptance before any, and what that is worth."""
_HOPE, _WORTH, _PROBE, _LOSS, _AHEAD = 0.95, 1.05, 2, 0.03, 256
"""As in ``adaptive``; a slot begins a draft a little sooner."""


class Seat:
    """What drafts for one sequence.

    Attributes:
        statistics: Of its text so far.
    """

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
        self._fired = learning.trigger.fired if learning and learning.trigger else 0

    @property
    def acceptance(self) -> float:
        """The part of drafted tokens that is accepted at present."""
        return self._accepted / self._tried

    def propose(self, ids: list[int], most: int) -> Proposal:
        """Propose tokens, or read what there is to read first."""
        start = time.perf_counter()
        if (self.draft.behind(ids) or 0) > READ:
            self.draft.read(ids, READ)
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
            fired = learning.trigger.fired - self._fired if learning.trigger else 0
            found |= {"triggers": fired, "dynamic_vocabulary": learning.vocabulary.size}
        return found


class SharedDrafting(Closing):
    """The seats of all sequences, and how many tokens they draft; close it."""

    def __init__(self, runner: Runner, context: SlotContext, settings: AnswerSettings) -> None:
        """Load what drafts.

        Args:
            runner: The target.
            context: Its context, empty; measuring empties it.
            settings: What drafts, and how.

        Raises:
            UsageError: There is no such draft, or it has another vocabulary.
            UnsupportedError: Rejected tokens cannot be taken back.
            FormatError: The draft is damaged.
            ResourceError: It does not fit the memory.
        """
        check_can_cut(runner)
        drafting, count = settings.drafting, context.n_slots
        rows = min(context.n_batch, exactness.MOST_ROWS) if drafting.exact else context.n_batch
        self._most = min(drafting.draft_max, max(rows // count - 1, 0))
        self._costs: Costs | None = None
        self._rest = 0
        with ExitStack() as stack:
            loaded = stack.enter_context(LoadedDraft(runner, settings, context.n_slot, count))
            self.seats: list[Seat] = []
            for _ in range(count):
                self.seats.append(Seat(loaded.draft()))
                stack.callback(self.seats[-1].draft.close)
            if drafting.draft_auto and self._most:
                rows = min(count * (self._most + 1), context.n_batch)
                by_size = calibration.remembered(runner.header, context, rows, pairs=False)
                self._costs = calibration.costs_now(by_size, context, loaded.context, pairs=False)
            self._closing = stack.pop_all()

    def proposals(
        self, asked: Sequence[tuple[Seat, list[int], int]], others: int
    ) -> list[Proposal]:
        """Let the seats propose for the next batch.

        Args:
            asked: Seat, the tokens that there are, and how many can follow the next one at most.
            others: Tokens that the batch computes for other sequences.
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
        costs, size = self._costs, len(acceptances)
        if costs is None:
            return self._most
        if self._rest > 0:
            self._rest -= 1
            return 0
        plain = costs.verify(size + others)

        def seconds(number: int) -> float:
            if not number:
                return plain
            rows = size * (number + (not others))  # of other numbers, in a second batch
            return costs.verify(rows) + (plain if others else 0) + size * costs.draft(number)

        def tokens(number: int, rates: Sequence[float]) -> float:
            return others + sum(rate**place for rate in rates for place in range(number + 1))

        def speed(number: int, rates: Sequence[float]) -> float:
            return tokens(number, rates) * plain / (seconds(number) * (size + others))

        numbers = range(1, self._most + 1)
        best = max(numbers, key=lambda number: speed(number, acceptances))
        gain = (1 - 1 / speed(best, acceptances)) * min(left, _AHEAD) * plain
        if speed(best, acceptances) > _WORTH and gain > behind * costs.read_seconds:
            return best
        hope = [_HOPE] * size
        if max(speed(number, hope) for number in numbers) < _WORTH:
            self._rest = _AHEAD  # not even then
            return 0
        probe = min(_PROBE, self._most)
        lost = seconds(probe) + behind * costs.read_seconds - plain * speed(probe, acceptances)
        self._rest = ceil(max(lost, plain) / (_LOSS * plain))
        return probe

    def close(self) -> None:
        """Free all drafts, and their model."""
        self._closing.close()
