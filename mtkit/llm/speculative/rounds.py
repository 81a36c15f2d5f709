"""The loop of speculative decoding: draft, verify, cut.

Between rounds the memory of the target holds all tokens but the last. A round computes the last
and what a draft proposes behind it in one batch; every accepted token, and the one that the target
chooses behind them, is emitted. So each round emits at least one, and no token costs a batch alone.
"""

from __future__ import annotations

import time

from mtkit.llm.speculative.measuring import Measuring, cut
from mtkit.llm.speculative.proposal import Outcome, Proposal
from mtkit.llm.speculative.statistics import Statistics
from mtkit.llm.speculative.verification import Matching, Rejection, Round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.base.closing import Closing
    from mtkit.llama import Context
    from mtkit.llm.runner import Chosen, Runner
    from mtkit.llm.sampling import Sampler
    from mtkit.llm.speculative.drafts import Draft, Lazy
    from mtkit.llm.speculative.policy import Policy
    from mtkit.llm.speculative.verification import Verification

_STRETCH = 4
"""Plain steps until it is looked at again whether something is to be measured."""
_TIMED = 8
"""Plain steps in a row that are timed."""
_INEXACT = "a batch gives other bits than single tokens on this machine"


class Speculation:
    """A draft, and what was seen of it; close it, which closes the draft.

    Attributes:
        draft: Proposes tokens.
        statistics: Of all rounds so far.
    """

    def __init__(
        self,
        draft: Draft,
        policy: Policy,
        *,
        random: Any = None,
        clock: Callable[[], float] = time.perf_counter,
        checks: bool = False,
        lazy: Lazy | None = None,
        loaded: Closing | None = None,
    ) -> None:
        """Take a draft.

        Args:
            draft: Proposes tokens.
            policy: Says how many. Where its width is not 1, no step computes fewer rows: some
                kernels add in another order for a single row (``exactness``).
            random: numpy's generator, to accept drafted tokens by rejection sampling; None to
                accept those that the sampler chooses.
            clock: What the policy measures with; the statistics are by the wall clock.
            checks: Compare the bits of batches that are measured with those of plain steps, and
                draft nothing where they differ.
            lazy: The draft, or one of those it consists of, that is loaded when it is asked.
            loaded: Closed behind the draft: the model that it runs.
        """
        self.draft, self._policy, self._clock = draft, policy, clock
        self._random, self._lazy, self._loaded = random, lazy, loaded
        self._checks = checks
        self._measuring = Measuring(policy, clock, checks=checks)
        self.statistics = Statistics(draft.learning)
        self._declined = ""
        self._kept: list[int] = []

    def chosen(self, runner: Runner, sampler: Sampler, limit: int, *, logprobs: bool) -> Chosen:
        """Choose tokens; whoever takes one adds it to the runner's ``ids``."""
        context, ids = runner.context, runner.ids
        assert context is not None
        verification: Verification
        verification = (
            Matching(sampler) if self._random is None else Rejection(sampler, self._random)
        )
        began = len(ids)
        self.draft.begin(ids)
        self._decide(ids, limit)
        self._measuring.forget()
        try:
            if context.n_past == len(ids) and not runner.stop_asked:
                kept = context.logits().copy() if logprobs else None
                token_id = verification.choose(Proposal([]), 0, -1)
                self.draft.saw(Outcome([], 0, [token_id], -1))
                yield token_id, kept
            while not runner.stop_asked:
                room = context.n_ctx - context.n_past - 1
                if room < 0:
                    runner.end = "context"
                    return
                most = min(limit - (len(ids) - began) - 1, room)
                if self._declined:
                    self._measure(context, ids)
                    count = min(most + 1, _STRETCH) if self._policy.waits else most + 1
                    yield from self._plain(runner, verification, count, logprobs)
                    continue
                asked = self._clock()
                behind = self.draft.behind(ids) if most > 0 else None
                asked = self._clock() - asked
                if behind is not None and self._measure(context, ids) and self._declined:
                    continue
                wanted = 0
                if behind is not None:
                    wanted = self._policy.count(most + 1, behind, free=self.draft.free)
                if wanted or self._policy.width > 1:
                    count = min(wanted, most)
                    yield from self._round(context, ids, verification, count, logprobs, asked)
                elif behind is None:
                    yield from self._plain(runner, verification, most + 1, logprobs, mute=True)
                else:
                    rest = min(max(self._policy.rest(), 1), most + 1)
                    yield from self._plain(runner, verification, rest, logprobs)
            runner.end = "interrupted"
        finally:
            self._kept = self._kept or ids[: began + 1]
            if context.is_open and context.n_past >= len(ids):
                cut(context, len(ids) - 1)

    def _decide(self, ids: list[int], limit: int) -> None:
        """Decide whether to draft in a text at all.

        In steps of several rows keys and values of a token are not those of plain decoding, so
        there it is decided once for all texts that go on from the tokens of another one.
        """
        kept = self._kept
        if not kept or self._policy.width == 1 or ids[: len(kept)] != kept:
            self._kept, self._declined = [], self._policy.declined(limit, len(ids))
            if self._checks and self._policy.known.checked < 0:
                self._declined = _INEXACT
        self.statistics.text(self._declined)

    def _plain(
        self,
        runner: Runner,
        verification: Verification,
        count: int,
        logprobs: bool,
        *,
        mute: bool = False,
    ) -> Chosen:
        """Choose tokens without a draft, and with no more work than plain decoding.

        ``mute`` ends that as soon as the draft could propose something.
        """
        context, ids, clock = runner.context, runner.ids, self._clock
        assert context is not None
        emitted: list[int] = []
        times: list[float] = []
        nothing, spent = Proposal([]), 0.0
        keeps = self._measuring.keeps()
        try:
            while len(emitted) < count and not runner.stop_asked:
                timed = len(emitted) < _TIMED
                start, began = time.perf_counter(), clock() if timed else 0.0
                context.step(ids[-1])
                kept = context.logits(0).copy() if logprobs or keeps else None
                token_id = verification.choose(nothing, 0, 0)
                if timed:
                    times.append(clock() - began)
                spent += time.perf_counter() - start
                emitted.append(token_id)
                self._measuring.stepped(kept if keeps else None)
                yield token_id, kept if logprobs else None
                if mute and self.draft.behind(ids) is not None:
                    break
        finally:
            # Here, too, when nobody takes more: a text ends in the middle.
            self.statistics.plain_rounds(len(emitted), spent)
            self._policy.plain(len(emitted), times)
            self.draft.saw(Outcome([], 0, emitted, -1))

    def _measure(self, context: Context, ids: list[int]) -> bool:
        """Measure a batch where that is due."""
        policy, seconds = self._policy, self._measuring.measure(context, ids)
        if not seconds:
            return False
        if policy.width == 1:
            wrong = _INEXACT if policy.known.checked < 0 else ""
            self._declined = wrong or self._declined or policy.hopeless
            if self._declined:
                self.statistics.stopped(self._declined)
        self.statistics.measure_seconds += seconds
        return True

    def _round(
        self,
        context: Context,
        ids: list[int],
        verification: Verification,
        count: int,
        logprobs: bool,
        asked: float,
    ) -> Chosen:
        """Draft and verify; ``asked`` is how long it took to say how far the draft has read."""
        seen, clock = self.statistics, self._clock
        self._measuring.forget()
        start, began, loaded = time.perf_counter(), clock(), self._loading
        proposal = self.draft.propose(ids, count) if count > 0 else Proposal([])
        drafted_at, drafted_by = time.perf_counter(), clock()
        loaded = self._loading - loaded
        if loaded and self._lazy is not None:
            seen.load_seconds += self._lazy.wall_seconds
            seen.reason = self._lazy.failed or seen.reason
            start += self._lazy.wall_seconds
            seen.learning = self.draft.learning
        drafted, past, first = proposal.ids, context.n_past, 0
        batch = [ids[-1], *drafted]
        missing = self._policy.rows(len(batch)) - len(batch)
        if missing > 0 and past + len(batch) + missing <= context.n_ctx:
            batch += [ids[-1]] * missing  # rows that are forgotten
        elif self._policy.width > len(batch):  # no room: those before are computed again
            first = min(self._policy.width - len(batch), past)
            cut(context, past - first)
            batch = [*ids[past - first : past], *batch]
        if len(batch) == 1:
            context.step(batch[0])
        else:
            context.decode(batch, outputs="all")
        context.logits(0)  # waits until it is done
        seen.round(len(drafted), max(drafted_at - start, 0.0), time.perf_counter() - drafted_at)
        made, row, free = Round(proposal), first, self.draft.free
        spent, resumed = 0.0, drafted_by  # without the time of whoever takes the tokens
        try:
            while not made.is_over:
                logits = context.logits(row)
                kept = logits.copy() if logprobs else None
                row += 1
                token_id = made.next(verification, first)
                spent += clock() - resumed
                yield token_id, kept
                resumed = clock()
            if context.n_past > past + 1 + made.accepted:
                cut(context, past + 1 + made.accepted)
            self.draft.saw(made.outcome(logits if self.draft.learning is not None else None))
            spent += clock() - resumed
        except GeneratorExit:  # nobody takes what was accepted: the text has ended before
            self.draft.saw(made.cut_short())
            raise
        finally:
            accepted = made.accepted
            seen.outcome(len(drafted), accepted, len(made.emitted))
            asked += max(drafted_by - began - loaded, 0.0)
            self._policy.saw(len(drafted), accepted, asked, spent, free=free)

    @property
    def _loading(self) -> float:
        """Return the seconds that loading what drafts has taken."""
        return 0.0 if self._lazy is None else self._lazy.spent

    def reset(self) -> None:
        """Forget every text, and what was learnt from it and counted: another session begins.

        What drafting costs, and how much of it was accepted, is not forgotten.
        """
        self.draft.reset()
        self._kept = []
        self._policy.known.save()
        self.statistics = Statistics(self.draft.learning)

    def close(self) -> None:
        """Remember what was learnt of costs, and close the draft."""
        self._policy.known.save()
        self.draft.close()
        if self._loaded is not None:
            self._loaded.close()
