"""The loop of speculative decoding: draft, verify, cut.

Between rounds the target's cache holds all tokens but the last. A round computes the last token and
what a draft proposes behind it in one batch; it emits every accepted token, and the one that the
target chooses behind them. So each round emits at least one, and none needs a batch of its own.

``Measuring`` measures batches between the plain steps of a text and compares them with those;
``Statistics`` counts rounds and tokens.
"""

from __future__ import annotations

import time
from collections import deque
from statistics import median

from mtkit.errors import UnsupportedError
from mtkit.llm.runner import Choice
from mtkit.speculative.costs import batch_seconds
from mtkit.speculative.policy import MEASURED_SIZES
from mtkit.speculative.verification import Matching, Outcome, Proposal, Rejection, Round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.base.process import Closeable
    from mtkit.llama import Context
    from mtkit.llm.runner import Choices, Runner
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
    """Measures the batches that a policy asks for, as soon as there are enough plain steps."""

    def __init__(self, policy: Policy, clock: Callable[[], float], *, checks: bool) -> None:
        """With ``checks``, compare the bits of batches with those of plain steps."""
        self.policy, self._clock, self._checks = policy, clock, checks
        # Plain steps in a row, and the logits of the last ones if bits are to be compared.
        self._steps = 0
        self._rows: deque[Any] = deque(maxlen=max(MEASURED_SIZES))

    def forget(self) -> None:
        """Start a new row of steps."""
        self._steps = 0
        self._rows.clear()

    def keeps(self) -> bool:
        """Whether ``saw_step`` wants the logits of the next plain steps."""
        keeps = self._checks and self.policy.waits
        if not keeps:
            self._rows.clear()
        return keeps

    def saw_step(self, logits: Any) -> None:
        """Count a plain step; ``logits`` are None unless ``keeps``."""
        self._steps += 1
        if logits is not None:
            self._rows.append(logits)

    def measure(self, context: Context, ids: list[int]) -> float:
        """Measure a batch if one is due; return the wall-clock seconds it took, or 0.

        The context is left as it was. Where a bit differs, ``costs.checked`` becomes -1.
        """
        policy, clock = self.policy, self._clock
        size = policy.size_to_measure(len(self._rows) if self._checks else self._steps)
        past = context.n_past
        if not size or past + size > context.n_ctx:
            return 0.0
        start, began = time.perf_counter(), clock()
        if self._checks:  # the tokens just computed one by one, now in a batch
            again = ids[past - size : past]
            cut_context(context, past - size)
            context.decode(again, outputs="all")
            rows = list(self._rows)[-size:]
            same = all((context.logits(at) == row).all() for at, row in enumerate(rows))
            seconds = clock() - began
            policy.costs.checked = max(policy.costs.checked, size) if same else -1
            if not same:
                cut_context(context, past - size)
                for token_id in again:
                    context.step(token_id)
        else:
            seconds = batch_seconds(context, [ids[-1]] * size, clock)
        policy.saw_measurement(size, seconds)
        self.forget()
        return time.perf_counter() - start


class Statistics:
    """Counts of rounds and tokens.

    Attributes:
        rounds: All batches, those without drafted tokens (``plain``) included.
        declined: Texts in which nothing was drafted from some token on; ``reason`` is the last's.
        tried: Place in a proposal -> how often the tokens in front of it were all accepted.
        accepted_at: Place in a proposal -> how often the token there was accepted, too.
        verify_seconds: Of verifying drafted tokens, and of rounds without any; ``round_seconds``
            of those that emitted ``round_tokens``, not of plain tokens, of which one takes
            ``plain_seconds``.
        learning: What changes the draft's vocabulary; None for nothing.
    """

    def __init__(self, learning: Learner | None = None) -> None:
        self.learning = learning
        self.load_seconds = self.measure_seconds = 0.0
        self.declined, self.reason = 0, ""
        self.rounds = self.plain = self.drafted = self.accepted = self.emitted = 0
        self.tried: list[int] = []
        self.accepted_at: list[int] = []
        self.draft_seconds = self.verify_seconds = 0.0
        self.round_seconds = self.plain_seconds = 0.0
        self.round_tokens = 0
        self._plain: deque[float] = deque(maxlen=15)

    def count_refusal(self, reason: str) -> None:
        """Count a text in which nothing more is drafted, if there is a reason."""
        if reason:
            self.declined, self.reason = self.declined + 1, reason

    def count_round(self, drafted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Count a batch."""
        self.rounds += 1
        self.plain += not drafted
        self.drafted += drafted
        self.draft_seconds += draft_seconds
        self.verify_seconds += verify_seconds
        self.round_seconds += verify_seconds

    def count_plain(self, count: int, seconds: float) -> None:
        """Count batches of one token."""
        if count:
            self._plain.append(seconds / count)
            self.plain_seconds = median(self._plain)
        self.rounds += count
        self.plain += count
        self.emitted += count
        self.verify_seconds += seconds

    def count_outcome(self, drafted: int, accepted: int, emitted: int) -> None:
        """Count what became of a batch's tokens."""
        self.accepted += accepted
        self.emitted += emitted
        self.round_tokens += emitted
        missing = drafted - len(self.tried)
        self.tried += [0] * missing
        self.accepted_at += [0] * missing
        for place in range(min(accepted + 1, drafted)):
            self.tried[place] += 1
            self.accepted_at[place] += place < accepted

    @property
    def acceptance(self) -> float:
        """Fraction of the drafted tokens that was accepted."""
        return self.accepted / self.drafted if self.drafted else 0.0

    @property
    def per_round(self) -> float:
        """Mean number of tokens of a round."""
        return self.emitted / self.rounds if self.rounds else 0.0

    @property
    def balance(self) -> str:
        """What drafting gave in the text, all its costs included, against plain tokens of it."""
        if not self.plain_seconds:
            return ""
        saved = self.saved
        return f"; {'saved' if saved >= 0 else 'cost'} {abs(saved):.3f} s"

    @property
    def saved(self) -> float:
        """Seconds that the tokens would have taken longer one by one; 0 while none was timed."""
        if not self.plain_seconds:
            return 0.0
        spent = self.draft_seconds + self.round_seconds + self.load_seconds + self.measure_seconds
        return self.round_tokens * self.plain_seconds - spent

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
                accepted / tried if tried else 0.0
                for accepted, tried in zip(self.accepted_at, self.tried, strict=True)
            ],
            "tried_by_place": self.tried,
            "accepted_by_place": self.accepted_at,
            "tokens_per_round": self.per_round,
            "draft_seconds": self.draft_seconds,
            "verify_seconds": self.verify_seconds,
            "load_seconds": self.load_seconds,
            "measure_seconds": self.measure_seconds,
            "saved_seconds": self.saved,
            **learning,
        }


_STRETCH = 4
"""Plain steps of a text without drafts, after which to look whether a batch is to be measured."""
_TIMED = 8
"""Plain steps in a row that are timed."""
_QUIET = 0.7
"""Part of its threads' time that a process gets at least where no other program disturbs it."""
_INEXACT = "a batch gives other bits than single tokens on this machine"


class Speculation:
    """Chooses tokens with a draft, and counts how that goes; close it, which closes the draft."""

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
            policy: Decides how many tokens. If its width is not 1, no step computes fewer rows:
                some kernels add in another order for a single row (``exactness``).
            random: numpy's generator, to accept drafted tokens by rejection sampling; None to
                accept those that the sampler chooses.
            checks: Compare the bits of measured batches with those of plain steps, and draft
                nothing where they differ.
        """
        self.draft, self.policy, self._clock = draft, policy, clock
        self._random, self._lazy, self._loaded = random, lazy, loaded
        self._checks = checks
        self._measuring = Measuring(policy, clock, checks=checks)
        self.statistics = Statistics(draft.learning)
        self._refusal = ""
        self._wall_seconds = self._cpu_seconds = 0.0  # of plain tokens
        self._threads = 1
        # The first text of a session: later ones that go on from it keep to its decision.
        self._first_ids: list[int] = []

    def choose(self, runner: Runner, sampler: Sampler, limit: int, *, logprobs: bool) -> Choices:
        """Choose tokens; the caller appends each to the runner's ``ids``."""
        context, ids = runner.context, runner.ids
        assert context is not None
        verification: Verification
        verification = (
            Matching(sampler) if self._random is None else Rejection(sampler, self._random)
        )
        n_prompt = len(ids)
        # By the wall clock, which a busy machine makes longer; a library's process is older.
        self.policy.began(min(time.process_time(), runner.load_seconds + runner.prompt_seconds))
        self.draft.begin(ids)
        self._decide(ids, limit)
        self._measuring.forget()
        try:
            if context.n_past == len(ids) and not runner.stop_requested:
                logits = context.logits().copy() if logprobs else None
                token_id = verification.choose(Proposal([]), 0, -1)
                self.draft.saw(Outcome([], 0, [token_id], -1))
                yield Choice(token_id, logits)
            while not runner.stop_requested:
                room = context.n_ctx - context.n_past - 1
                if room < 0:
                    runner.end = "context"
                    return
                most = min(limit - (len(ids) - n_prompt) - 1, room)
                if self._refusal:
                    self._measure(context, ids)
                    count = min(most + 1, _STRETCH) if self.policy.waits else most + 1
                    yield from self._plain(runner, verification, count, logprobs)
                    continue
                start = self._clock()
                behind = self.draft.behind(ids) if most > 0 else None
                seconds = self._clock() - start
                if behind is not None and self._measure(context, ids) and self._refusal:
                    continue
                count = 0
                if behind is not None:
                    free, overlap = self.draft.free, self.draft.overlap
                    count = self.policy.count(most + 1, behind, free=free, overlap=overlap)
                if count or self.policy.width > 1:
                    count = min(count, most)
                    yield from self._round(context, ids, verification, count, logprobs, seconds)
                elif behind is None:
                    yield from self._plain(runner, verification, most + 1, logprobs, mute=True)
                else:
                    rest = min(max(self.policy.rest(), 1), most + 1)
                    yield from self._plain(runner, verification, rest, logprobs)
            runner.end = "interrupted"
        finally:
            self._first_ids = self._first_ids or ids[: n_prompt + 1]
            if context.is_open and context.n_past >= len(ids):
                cut_context(context, len(ids) - 1)

    def _decide(self, ids: list[int], limit: int) -> None:
        """Decide whether to draft in a text at all.

        In steps of several rows, keys and values of a token are not those of plain decoding. So
        there the decision holds for all texts that go on from the first one's tokens.
        """
        first = self._first_ids
        if not first or self.policy.width == 1 or ids[: len(first)] != first:
            self._first_ids, self._refusal = [], self.policy.refusal(limit, len(ids))
            if self._checks and self.policy.costs.checked < 0:
                self._refusal = _INEXACT
        self.statistics.count_refusal(self._refusal)

    def _plain(
        self,
        runner: Runner,
        verification: Verification,
        count: int,
        logprobs: bool,
        *,
        mute: bool = False,
    ) -> Choices:
        """Choose tokens without a draft, and with no more work than plain decoding.

        ``mute`` says that the draft has nothing to propose: the first time it has ends this.
        """
        context, ids, clock = runner.context, runner.ids, self._clock
        assert context is not None
        emitted: list[int] = []
        times: list[float] = []
        nothing, seconds, cpu = Proposal([]), 0.0, time.process_time()
        keeps = self._measuring.keeps()
        try:
            while len(emitted) < count and not runner.stop_requested:
                timed = len(emitted) < _TIMED
                start, began = time.perf_counter(), clock() if timed else 0.0
                context.step(ids[-1])
                logits = context.logits(0).copy() if logprobs or keeps else None
                token_id = verification.choose(nothing, 0, 0)
                if timed:
                    times.append(clock() - began)
                seconds += time.perf_counter() - start
                emitted.append(token_id)
                self._measuring.saw_step(logits if keeps else None)
                yield Choice(token_id, logits if logprobs else None)
                if mute and self.draft.behind(ids) is not None:
                    break
        finally:
            # Also when the caller stops in the middle.
            self._wall_seconds += seconds
            self._cpu_seconds += time.process_time() - cpu
            self._threads = context.settings.threads or 1
            self.statistics.count_plain(len(emitted), seconds)
            self.policy.saw_plain(len(emitted), times)
            self.draft.saw(Outcome([], 0, emitted, -1))

    def _measure(self, context: Context, ids: list[int]) -> bool:
        """Measure a batch if one is due; returns whether one was."""
        policy, seconds = self.policy, self._measuring.measure(context, ids)
        if not seconds:
            return False
        if policy.width == 1:
            wrong = _INEXACT if policy.costs.checked < 0 else ""
            self._refusal = wrong or self._refusal or policy.hopeless
            self.statistics.count_refusal(self._refusal)
        self.statistics.measure_seconds += seconds
        return True

    def _round(
        self,
        context: Context,
        ids: list[int],
        verification: Verification,
        count: int,
        logprobs: bool,
        draft_seconds: float,
    ) -> Choices:
        """Draft and verify; ``draft_seconds`` is what the draft has taken for this round so far."""
        statistics, clock = self.statistics, self._clock
        self._measuring.forget()
        start, began, loaded = time.perf_counter(), clock(), self._loading
        proposal = self.draft.propose(ids, count) if count > 0 else Proposal([])
        drafted_at, drafted_by = time.perf_counter(), clock()
        loaded = self._loading - loaded
        if loaded and self._lazy is not None:
            statistics.load_seconds += self._lazy.wall_seconds
            self.policy.saw_load(loaded)
            statistics.reason = self._lazy.failed or statistics.reason
            start += self._lazy.wall_seconds
            statistics.learning = self.draft.learning
        drafted, past, first = proposal.ids, context.n_past, 0
        batch = [ids[-1], *drafted]
        missing = self.policy.rows(len(batch)) - len(batch)
        if missing > 0 and past + len(batch) + missing <= context.n_ctx:
            batch += [ids[-1]] * missing  # rows to throw away
        elif self.policy.width > len(batch):  # no room for more: compute earlier tokens again
            first = min(self.policy.width - len(batch), past)
            cut_context(context, past - first)
            batch = [*ids[past - first : past], *batch]
        if len(batch) == 1:
            context.step(batch[0])
        else:
            context.decode(batch, outputs="all")
        context.logits(0)  # waits until it is done
        now = time.perf_counter()
        statistics.count_round(len(drafted), max(drafted_at - start, 0.0), now - drafted_at)
        tokens, row, free = Round(proposal), first, self.draft.free
        seconds, resumed = 0.0, drafted_by  # without the caller's time between tokens
        try:
            while not tokens.is_over:
                logits = context.logits(row)
                copy = logits.copy() if logprobs else None
                row += 1
                token_id = tokens.next(verification, first)
                seconds += clock() - resumed
                yield Choice(token_id, copy)
                resumed = clock()
            if context.n_past > past + 1 + tokens.accepted:
                cut_context(context, past + 1 + tokens.accepted)
            self.draft.saw(tokens.outcome(logits if self.draft.learning is not None else None))
            seconds += clock() - resumed
        except GeneratorExit:  # the text ends before the accepted tokens do
            self.draft.saw(tokens.cut_short())
            raise
        finally:
            statistics.count_outcome(len(drafted), tokens.accepted, len(tokens.emitted))
            draft_seconds += max(drafted_by - began - loaded, 0.0)
            self.policy.saw(len(drafted), tokens.accepted, draft_seconds, seconds, free=free)

    @property
    def _loading(self) -> float:
        """Return the seconds that loading the draft has taken."""
        return 0.0 if self._lazy is None else self._lazy.spent

    def _save(self) -> None:
        """Save the costs, unless other programs took the processors: they are kept for a day.

        CPU time, the clock of one thread, has nothing of theirs.
        """
        share = self._cpu_seconds / (self._threads * self._wall_seconds or 1.0)
        if self._clock is time.process_time or not self._wall_seconds or share >= _QUIET:
            self.policy.costs.save()

    def reset(self) -> None:
        """Begin another session: forget texts, learned ids and counts, but not the costs."""
        self.draft.reset()
        self._first_ids = []
        self._save()
        self.statistics = Statistics(self.draft.learning)

    def close(self) -> None:
        """Save the costs, and close the draft."""
        self._save()
        self.draft.close()
        if self._loaded is not None:
            self._loaded.close()
