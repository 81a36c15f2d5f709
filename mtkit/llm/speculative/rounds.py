"""The loop of speculative decoding: draft, verify, cut.

Between rounds the memory of the target holds all tokens but the last. A round computes the last
and what a draft proposes behind it in one batch; every accepted token, and the one that the target
chooses behind them, is emitted. So each round emits at least one, and no token costs a batch alone.
"""

from __future__ import annotations

import time

from mtkit.errors import UnsupportedError
from mtkit.llm.speculative.imagined import Imagined
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
    from mtkit.llm.speculative.drafts import Draft
    from mtkit.llm.speculative.pace import Pace
    from mtkit.llm.speculative.verification import Verification

_TIMED = 3
"""Plain steps in a row that are timed: behind them others take as long."""


class Speculation:
    """A draft, and what was seen of it; close it, which closes the draft.

    Attributes:
        draft: Proposes tokens.
        statistics: Of all rounds so far.
    """

    def __init__(
        self,
        draft: Draft,
        pace: Pace,
        *,
        pairs: bool = False,
        random: Any = None,
        clock: Callable[[], float] = time.perf_counter,
        loaded: Closing | None = None,
    ) -> None:
        """Take a draft.

        Args:
            draft: Proposes tokens.
            pace: Says how many.
            pairs: Never compute a token alone but with another one, which is then forgotten: some
                kernels add in another order for a single row (``exactness``).
            random: numpy's generator, to accept drafted tokens by rejection sampling; None to
                accept those that the sampler chooses.
            clock: What the pace measures with; the statistics are by the wall clock.
            loaded: Closed behind the draft: the model that it runs.
        """
        self.draft, self._pace, self._clock = draft, pace, clock
        self._pairs, self._random, self._loaded = pairs, random, loaded
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
        alone = bool(self._declined)
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
                if alone:
                    yield from self._plain(runner, verification, most + 1, logprobs)
                    continue
                asked = self._clock()
                behind = self.draft.behind(ids) if most > 0 else None
                asked = self._clock() - asked
                wanted = 0 if behind is None else self._pace.count(most + 1, behind)
                if wanted or self._pairs:
                    count = min(wanted, most)
                    yield from self._round(context, ids, verification, count, logprobs, asked)
                elif behind is None:
                    yield from self._plain(runner, verification, most + 1, logprobs, mute=True)
                else:
                    rest = min(max(self._pace.rest(), 1), most + 1)
                    yield from self._plain(runner, verification, rest, logprobs)
            runner.end = "interrupted"
        finally:
            self._kept = self._kept or ids[: began + 1]
            if context.is_open and context.n_past >= len(ids):
                self._cut(context, len(ids) - 1)

    def _decide(self, ids: list[int], limit: int) -> None:
        """Decide whether to draft in a text at all.

        In pairs the keys and values of a token are not those of plain decoding, so there it is
        decided once for all texts that go on from the tokens of another one.
        """
        kept = self._kept
        if not kept or not self._pairs or ids[: len(kept)] != kept:
            self._kept, self._declined = [], self._pace.declined(limit, len(ids))
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
        nothing, spent = Proposal([]), 0.0
        looks = self._declined and self._pace.looks
        imagined = Imagined(self.draft, self._pace) if looks else None
        timed, times = 0 if self._declined else _TIMED, []
        if looks:  # a text in pairs cannot tell how fast plain decoding is: this one does
            timed = count
        try:
            while len(emitted) < count and not runner.stop_asked:
                is_timed = len(emitted) < timed
                start, began = time.perf_counter(), clock() if is_timed else 0.0
                context.step(ids[-1])
                kept = context.logits(0).copy() if logprobs else None
                token_id = verification.choose(nothing, 0, 0)
                if is_timed:
                    times.append(clock() - began)
                spent += time.perf_counter() - start
                emitted.append(token_id)
                yield token_id, kept
                if imagined is not None:
                    imagined.saw(ids)
                if mute and self.draft.behind(ids) is not None:
                    break
        finally:
            # Here, too, when nobody takes more: a text ends in the middle.
            self.statistics.plain_rounds(len(emitted), spent)
            self._pace.rested(len(emitted), times)
            self.draft.saw(Outcome([], 0, emitted, -1))

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
        start, began = time.perf_counter(), clock()
        proposal = self.draft.propose(ids, count) if count > 0 else Proposal([])
        drafted_at, drafted_by = time.perf_counter(), clock()
        drafted, past, first = proposal.ids, context.n_past, 0
        batch = [ids[-1], *drafted]
        if self._pairs and len(batch) == 1:
            if past + 2 <= context.n_ctx:
                batch.append(ids[-1])
            else:  # no room for a row that is forgotten: the one before is computed again
                self._cut(context, past - 1)
                batch, first = ids[-2:], 1
        if len(batch) == 1:
            context.step(batch[0])
        else:
            context.decode(batch, outputs="all")
        context.logits(0)  # waits until it is done
        seen.round(len(drafted), drafted_at - start, time.perf_counter() - drafted_at)
        made, row = Round(proposal), first
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
                self._cut(context, past + 1 + made.accepted)
            self.draft.saw(made.outcome(logits if self.draft.learning is not None else None))
            spent += clock() - resumed
        except GeneratorExit:  # nobody takes what was accepted: the text has ended before
            self.draft.saw(made.cut_short())
            raise
        finally:
            accepted = made.accepted
            seen.outcome(len(drafted), accepted, len(made.emitted))
            self._pace.saw(len(drafted), accepted, asked + drafted_by - began, spent)

    def _cut(self, context: Context, end: int) -> None:
        if not context.truncate(end):
            raise UnsupportedError("its memory cannot be cut", source=context.model.path)

    def reset(self) -> None:
        """Forget every text, and what was learnt from it and counted: another session begins.

        What drafting costs, and how much of it was accepted, is not forgotten.
        """
        self.draft.reset()
        self._kept = []
        self.statistics = Statistics(self.draft.learning)

    def close(self) -> None:
        """Close the draft."""
        self.draft.close()
        if self._loaded is not None:
            self._loaded.close()
