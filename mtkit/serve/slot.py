"""One sequence of the context: what it remembers, and the answer that it is giving."""

from __future__ import annotations

import time
from functools import partial

from mtkit.errors import UnsupportedError
from mtkit.llm.sampling import Sampler
from mtkit.llm.speculative.proposal import Proposal
from mtkit.llm.speculative.verification import Matching, Round
from mtkit.llm.whole_characters import TextStream
from mtkit.serve import slot_file
from mtkit.serve.aside import Aside, Late
from mtkit.serve.chances import chances, probable
from mtkit.serve.job import Begun, Broken, Done, Piece, Progress
from mtkit.serve.lines import Lines
from mtkit.serve.thinking_budget import Bounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor
    from typing import Any, Literal

    from mtkit.llama import SlotContext
    from mtkit.llm.speculative.shared import Seat
    from mtkit.llm.speculative.verification import Verification
    from mtkit.serve.job import End, Job

_NOTHING = Proposal([])


class Slot:
    """A slot; only the scheduler's thread may call it.

    Attributes:
        number: Its sequence in the context.
        ids: Tokens of the sequence.
        past: How many of them are computed.
        job: What it answers; None where it is free.
        used: When it was last taken, in the scheduler's count; 0: never.
        started: When its job began, as ``time.perf_counter`` counts.
        cached: Tokens of the prompt that it remembered.
        generated: Tokens of the answer so far.
        seat: What drafts for it; None where nothing does.
        proposal: What is computed behind the last token.
    """

    def __init__(
        self, context: SlotContext, number: int, seat: Seat | None, executor: Executor
    ) -> None:
        self._context, self._executor = context, executor
        self._aside: Aside | None = None
        self._likely: Any = None
        self.number, self.seat, self.proposal = number, seat, _NOTHING
        self.ids: list[int] = []
        self.past = 0
        self.job: Job | None = None
        self.used = 0
        self.started = 0.0
        self.cached = 0
        self.generated = 0
        self._is_shortened = False

    @property
    def state(self) -> Literal["idle", "prompt", "generating"]:
        """What it does."""
        if self.job is None:
            return "idle"
        return "generating" if self.generated else "prompt"

    @property
    def waiting(self) -> int:
        """How many tokens have to be computed before the next can be chosen."""
        return len(self.ids) - self.past

    @property
    def may_draft(self) -> int:
        """How many tokens can be drafted behind the last one."""
        job = self.job
        if job is None or self.seat is None or job.terms.speculative is False or self.waiting > 1:
            return 0
        return min(job.limit - self.generated, self._context.n_slot - self.past) - 1

    def part(self, share: int) -> tuple[int, int, list[int], int]:
        """Return its part of the next batch, as ``SlotContext.compute`` takes it.

        Args:
            share: Tokens of a prompt that it may compute.
        """
        ids = self.ids[self.past : self.past + share] + self.proposal.ids
        wanted = 1 + len(self.proposal.ids) if share == self.waiting else 0
        return self.number, self.past, ids, wanted

    def common(self, ids: Sequence[int]) -> int:
        """Return how many tokens of a prompt it remembers from the start."""
        count = 0
        for had, wanted in zip(self.ids[: self.past], ids, strict=False):
            if had != wanted:
                break
            count += 1
        return count

    def begin(self, job: Job, used: int) -> None:
        """Take a job.

        Raises:
            UsageError: Its grammar does not parse, or it names an id that does not exist.
        """
        context, ids, terms = self._context, job.ids, job.terms
        context.model.check_ids(ids)
        self._sampler = Sampler(context, terms.sampler, distributions=terms.sampled)
        common = self.common(ids) if terms.cached else 0
        had = self.ids[: self.past]
        keep = min(common, len(ids) - 1)  # one has to be computed, for its logits
        if keep < self.past and not (keep and context.cut(self.number, keep)):
            context.clear_slot(self.number)
            keep = 0
        if self.seat is not None:
            self.seat.begin(ids, goes_on=2 * common >= len(ids))
        self.job, self.used = job, used
        self.ids, self.past, self.cached, self.generated = list(ids), keep, keep, 0
        self._text = TextStream(terms.stops)
        self._lines = Lines.of(terms)
        self.started = time.perf_counter()
        self._first, self._is_shortened = 0.0, False
        self._sampler.accept(ids)
        self._verification: Verification = Matching(self._sampler)
        # a grammar says itself what an answer may be
        if terms.sampler.grammar is not None or terms.sampler.json_schema is not None:
            self._verification = self._aside = Aside(self._sampler, self._executor)
        elif terms.budget is not None:
            spelled = partial(context.model.piece, special=True)
            self._verification = Bounded(self._verification, self._sampler, terms.budget, spelled)
        broken = Broken(
            common,
            had[common] if common < len(had) else None,
            ids[common] if common < len(ids) else None,
        )
        job.emit(Begun(self.number, keep, broken))
        if terms.progress:
            job.emit(Progress(len(ids), keep, keep, 0.0))

    def computed(self, count: int) -> None:
        """Take note that so many of its tokens are computed."""
        self.past += count
        job = self.job
        if job is not None and job.terms.progress and not self.generated:
            seconds = time.perf_counter() - self.started
            job.emit(Progress(len(job.ids), self.cached, self.past, seconds))

    def shorten(self) -> None:
        """Where no more tokens fit, forget half of those that need not be kept.

        Source: server-context.cpp of llama.cpp, ``pre_decode``.
        """
        job, context = self.job, self._context
        if job is None or self.past + 1 < context.n_slot:
            return
        model, keep = context.model, job.terms.keep
        keep = min((len(job.ids) if keep < 0 else keep) + model.add_bos, context.n_slot - 4)
        count = (self.past - keep) // 2
        context.shift(self.number, keep, count)
        del self.ids[keep : keep + count]
        self.past -= count
        self._is_shortened = True

    @property
    def late(self) -> Aside | None:
        """What chooses a token that others did not wait for; None where there is none."""
        return self._aside if self._aside is not None and self._aside.is_late else None

    def choose(self, row: int, until: float = 0.0) -> None:
        """Choose the tokens behind the last one and what was drafted, and tell them.

        Args:
            row: Of the logits behind the last token of the part; of a token that was late, any.
            until: When others have waited long enough, as ``time.monotonic`` counts.
        """
        job, context, proposal = self.job, self._context, self.proposal
        assert job is not None
        self.proposal = _NOTHING
        if self._aside is not None:
            self._aside.until = until
        if not job.limit:
            self._first = time.perf_counter()
            self._finish("length")
            return
        made, drafted = Round(proposal), len(proposal.ids)
        end: End | None = None
        was_late = self.late is not None
        while end is None and not made.is_over and not job.cancelled:
            at = row - drafted + len(made.emitted)
            try:
                end = self._next(made, at)
            except Late:
                break
        self.past += made.accepted
        if made.accepted < drafted and not context.cut(self.number, self.past):
            raise UnsupportedError("its memory cannot be cut", source=context.model.path)
        is_whole = made.emitted and not was_late and self.late is None
        if self.seat is not None and is_whole and job.terms.speculative is not False:
            self.seat.saw(made, context.logits(at))
        if end is not None:
            self._finish(end)

    def _next(self, made: Round, row: int) -> End | None:
        """Choose a token; says why it is the last one, None where it is not."""
        job, context = self.job, self._context
        assert job is not None
        if self.late is None:
            self._likely = probable(context, row, self._sampler, job.terms)
        token = made.next(self._verification, row - len(made.emitted))
        now = time.perf_counter()
        if not self.generated:
            self._first = now
        if token < 0:
            return "grammar"
        self.ids.append(token)
        self.generated += 1
        is_eog = context.model.is_eog(token) and not job.terms.sampler.ignore_eos
        raw = context.model.piece(token, special=is_eog or token in job.terms.shown)
        text = "" if is_eog else self._text.push(raw)
        is_over = False
        if self._lines is not None:
            text, is_over = self._lines.push(text, now - self._first)
        likely = None if is_eog else self._likely
        found = None if likely is None else chances(likely, token, job.terms.top or 0)
        job.emit(Piece(token, raw, text, found, now - self.started))
        if is_eog:
            return "eog"
        if self._text.stopped is not None:
            return "stop"
        return "length" if is_over or self.generated >= job.limit else None

    def _finish(self, end: End) -> None:
        job = self.job
        assert job is not None
        is_full = job.terms.limit is None or job.terms.limit > job.limit
        is_cut = self._lines is not None and self._lines.has_cut
        rest = "" if is_cut else self._text.finish()
        stop = self._text.stopped
        now = time.perf_counter()
        self.free()
        job.emit(
            Done(
                "stop" if stop is not None else end,
                stop,
                rest,
                self.generated,
                self._first - self.started,
                now - self._first,
                self._is_shortened or (end == "length" and is_full),
                self.drafting if job.terms.speculative is not False else None,
            )
        )

    @property
    def drafting(self) -> dict[str, float] | None:
        """Figures of what was drafted in its text; None where nothing drafts."""
        return self.seat.figures() if self.seat is not None else None

    def free(self) -> None:
        """Leave the job; what was computed is remembered."""
        if self.job is not None:
            (self._aside or self._sampler).close()
            self.job, self._aside, self.proposal = None, None, _NOTHING
        del self.ids[self.past :]

    def put_off(self) -> None:
        """Let go of what is computed; a job goes on once all of it is computed again."""
        self._context.clear_slot(self.number)
        self.past, self.proposal = 0, _NOTHING
        if self.job is None:
            self.ids = []

    def save(self, path: str) -> tuple[int, int]:
        """Write what it remembers into a file, which is replaced; returns tokens and bytes.

        Raises:
            UsageError, ResourceError: It cannot be written there.
        """
        return len(self.ids), slot_file.save(self._context, self.number, path, self.ids)

    def restore(self, path: str) -> tuple[int, int]:
        """Remember what a file of ``save`` holds; returns tokens and bytes.

        Raises:
            UsageError: There is no such file.
            FormatError: It does not fit; the slot is empty then.
        """
        self.forget()
        ids, size = slot_file.restore(self._context, self.number, path)
        self.ids, self.past = ids, len(ids)
        return len(ids), size

    def erase(self) -> int:
        """Forget all tokens; returns how many there were."""
        count = len(self.ids)
        self.forget()
        return count

    def forget(self) -> None:
        """Leave the job and forget all tokens."""
        self.free()
        self._context.clear_slot(self.number)
        self.ids, self.past = [], 0
