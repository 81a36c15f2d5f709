"""One sequence of the context: what it remembers, and the answer that it is giving."""

from __future__ import annotations

import time

from mtkit.llm.sampling import Sampler
from mtkit.llm.whole_characters import TextStream
from mtkit.serve.job import Begun, Broken, Done, Piece, chances

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Literal

    from mtkit.llama import SlotContext
    from mtkit.serve.job import End, Job


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
    """

    def __init__(self, context: SlotContext, number: int) -> None:
        self._context = context
        self.number = number
        self.ids: list[int] = []
        self.past = 0
        self.job: Job | None = None
        self.used = 0
        self.started = 0.0
        self.cached = 0
        self.generated = 0

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
        context, ids = self._context, job.ids
        context.model.check_ids(ids)
        self._sampler = Sampler(context, job.sampler)
        common = self.common(ids)
        had = self.ids[: self.past]
        keep = min(common, len(ids) - 1)  # one has to be computed, for its logits
        if keep < self.past and not (keep and context.cut(self.number, keep)):
            context.clear_slot(self.number)
            keep = 0
        self.job, self.used = job, used
        self.ids, self.past, self.cached, self.generated = list(ids), keep, keep, 0
        self._text = TextStream(job.stops)
        self.started = time.perf_counter()
        self._first = 0.0
        self._sampler.accept(ids)
        broken = Broken(
            common,
            had[common] if common < len(had) else None,
            ids[common] if common < len(ids) else None,
        )
        job.emit(Begun(self.number, keep, broken))

    def choose(self, row: int) -> None:
        """Choose the next token from a row of logits, and tell it."""
        job, context = self.job, self._context
        assert job is not None
        logits = context.logits(row).copy() if job.top is not None else None
        token = self._sampler.sample(row)
        if not self.generated:
            self._first = time.perf_counter()
        if token < 0:
            self._finish("grammar")
            return
        self.ids.append(token)
        self.generated += 1
        is_eog = token in context.model.eog_ids and not job.sampler.ignore_eos
        raw = context.model.piece(token, special=is_eog or token in job.shown)
        text = "" if is_eog else self._text.push(raw)
        found = None if job.top is None or is_eog else chances(logits, token, job.top)
        job.emit(Piece(token, raw, text, found))
        if is_eog:
            self._finish("eog")
        elif self._text.stopped is not None:
            self._finish("stop")
        elif self.generated >= job.limit:
            self._finish("length")

    def _finish(self, end: End) -> None:
        job = self.job
        assert job is not None
        rest = self._text.finish()
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
            )
        )

    def free(self) -> None:
        """Leave the job; what was computed is remembered."""
        if self.job is not None:
            self._sampler.close()
            self.job = None
        del self.ids[self.past :]

    def forget(self) -> None:
        """Leave the job and forget all tokens."""
        self.free()
        self._context.clear_slot(self.number)
        self.ids, self.past = [], 0
