"""The loop of speculative decoding: draft, verify, cut.

Between rounds the memory of the target holds all tokens but the last. A round computes the last
and what a draft proposes behind it in one batch; every accepted token, and the one that the target
chooses behind them, is emitted. So each round emits at least one, and no token costs a batch alone.

``Measuring`` measures batches between the plain steps of a text and compares them with these;
``Statistics`` are what is counted while a draft is used.
"""

from __future__ import annotations

import time
from collections import deque

from mtkit.errors import UnsupportedError
from mtkit.speculative import costs
from mtkit.speculative.policy import MEASURED_SIZES
from mtkit.speculative.verification import Matching, Outcome, Proposal, Rejection, Round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.base.process import Closeable
    from mtkit.llama import Context
    from mtkit.llm.runner import Chosen, Runner
    from mtkit.llm.sampling import Sampler
    from mtkit.speculative.drafts import Draft, Lazy
    from mtkit.speculative.policy import Policy
    from mtkit.speculative.verification import Verification
    from mtkit.speculative.vocabulary import Learner


def cut_context(context: Context, end: int) -> None:
    """Forget a context's tokens from a position on."""
    if not context.truncate(end):
        raise UnsupportedError("its memory cannot be cut", source=context.model.path)


class Measuring:
    """Measures what a policy wants to know, as soon as there were plain steps enough."""

    def __init__(self, policy: Policy, clock: Callable[[], float], *, checks: bool) -> None:
        """Begin.

        Args:
            checks: Compare the bits of batches with those of plain steps.
        """
        self._policy, self._clock, self._checks = policy, clock, checks
        # Plain steps in a row, and the logits of the last ones where bits are to be compared.
        self._steps = 0
        self._rows: deque[Any] = deque(maxlen=max(MEASURED_SIZES))

    def forget(self) -> None:
        """Forget all steps: what comes next does not follow them."""
        self._steps = 0
        self._rows.clear()

    def keeps(self) -> bool:
        """Whether the logits of the next plain steps are wanted; else those told are forgotten."""
        keeps = self._checks and self._policy.waits
        if not keeps:
            self._rows.clear()
        return keeps

    def stepped(self, logits: Any) -> None:
        """Count a plain step; ``logits`` are None where ``keeps`` does not want them."""
        self._steps += 1
        if logits is not None:
            self._rows.append(logits)

    def measure(self, context: Context, ids: list[int]) -> float:
        """Measure a batch where that is due; return the seconds it took by the wall, or 0.

        The context is left as it was. Where a bit differs, ``known.checked`` becomes -1.
        """
        policy, clock = self._policy, self._clock
        size = policy.size_to_measure(len(self._rows) if self._checks else self._steps)
        past = context.n_past
        if not size or past + size > context.n_ctx:
            return 0.0
        start, began = time.perf_counter(), clock()
        if self._checks:  # what was just computed one by one, together
            again = ids[past - size : past]
            cut_context(context, past - size)
            context.decode(again, outputs="all")
            same = all((context.logits(row) == one).all()
                       for row, one in enumerate(list(self._rows)[-size:]))  # fmt: skip
            seconds = clock() - began
            policy.known.checked = max(policy.known.checked, size) if same else -1
            if not same:
                cut_context(context, past - size)
                for token_id in again:
                    context.step(token_id)
        else:
            seconds = costs.batch_seconds(context, [ids[-1]] * size, clock)
        policy.measured(size, seconds)
        self.forget()
        return time.perf_counter() - start


class Statistics:
    """Counts of rounds.

    Attributes:
        rounds: Batches that were verified, those without a draft included.
        reason: Why it was not; empty where there are none.
        tried: Place in a proposal -> how often the tokens in front of it were all accepted.
        kept: Place in a proposal -> how often the token there was accepted, too.
        verify_seconds: Time spent on verifying them, and on rounds without a draft.
        measure_seconds: Time spent on measuring batches and comparing their bits.
        learning: What of it changed the draft's vocabulary; None for nothing.
    """

    def __init__(self, learning: Learner | None = None) -> None:
        self.learning = learning
        self.load_seconds = self.measure_seconds = 0.0
        self.declined, self.reason = 0, ""
        self.rounds = self.plain = self.drafted = self.accepted = self.emitted = 0
        self.tried: list[int] = []
        self.kept: list[int] = []
        self.draft_seconds = self.verify_seconds = 0.0

    def text(self, declined: str) -> None:
        """Count a text: why nothing is drafted in it, empty where something may be."""
        self.declined += bool(declined)
        self.reason = declined or self.reason

    def stopped(self, reason: str) -> None:
        """Count that nothing more is drafted in the text."""
        self.declined, self.reason = self.declined + 1, reason

    def round(self, drafted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Count a batch."""
        self.rounds += 1
        self.plain += not drafted
        self.drafted += drafted
        self.draft_seconds += draft_seconds
        self.verify_seconds += verify_seconds

    def plain_rounds(self, count: int, seconds: float) -> None:
        """Count batches of one token."""
        self.rounds += count
        self.plain += count
        self.emitted += count
        self.verify_seconds += seconds

    def outcome(self, drafted: int, accepted: int, emitted: int) -> None:
        """Count what became of it."""
        self.accepted += accepted
        self.emitted += emitted
        missing = drafted - len(self.tried)
        self.tried += [0] * missing
        self.kept += [0] * missing
        for place in range(min(accepted + 1, drafted)):
            self.tried[place] += 1
            self.kept[place] += place < accepted

    @property
    def acceptance(self) -> float:
        """Part of the proposed tokens that was accepted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def per_round(self) -> float:
        """Tokens that a round gave on average."""
        return self.emitted / self.rounds if self.rounds else 0.0

    def document(self) -> dict[str, object]:
        """Return them for JSON."""
        learning = {"dynamic_vocabulary": self.learning.document()} if self.learning else {}
        return {
            "rounds": self.rounds,
            "plain_rounds": self.plain,
            "declined_texts": self.declined,
            **({"declined": self.reason} if self.reason else {}),
            "drafted": self.drafted,
            "accepted": self.accepted,
            "emitted": self.emitted,
            "acceptance": self.acceptance,
            "acceptance_by_place": [
                kept / tried if tried else 0.0
                for kept, tried in zip(self.kept, self.tried, strict=True)
            ],
            "tried_by_place": self.tried,
            "accepted_by_place": self.kept,
            "tokens_per_round": self.per_round,
            "draft_seconds": self.draft_seconds,
            "verify_seconds": self.verify_seconds,
            "load_seconds": self.load_seconds,
            "measure_seconds": self.measure_seconds,
            **learning,
        }


_STRETCH = 4
"""Plain steps until it is looked at again whether something is to be measured."""
_TIMED = 8
"""Plain steps in a row that are timed."""
_INEXACT = "a batch gives other bits than single tokens on this machine"


class Speculation:
    """A draft, and what was seen of it; close it, which closes the draft."""

    def __init__(
        self,
        draft: Draft,
        policy: Policy,
        *,
        random: Any = None,
        clock: Callable[[], float] = time.perf_counter,
        checks: bool = False,
        lazy: Lazy | None = None,
        loaded: Closeable | None = None,
    ) -> None:
        """Take a draft.

        Args:
            policy: Says how many. Where its width is not 1, no step computes fewer rows: some
                kernels add in another order for a single row (``exactness``).
            random: numpy's generator, to accept drafted tokens by rejection sampling; None to
                accept those that the sampler chooses.
            checks: Compare the bits of batches that are measured with those of plain steps, and
                draft nothing where they differ.
            lazy: The draft, or one of those it consists of, that is loaded when it is asked.
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
                cut_context(context, len(ids) - 1)

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
            cut_context(context, past - first)
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
                cut_context(context, past + 1 + made.accepted)
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
