"""One sequence of the context: the tokens that it remembers, and the answer that it gives.

A grammar chooses tokens in a thread of its own: a slow one holds up only its own answer. The
scheduler waits for the token as long as others can wait; then it goes on without the slot, which
keeps a copy of its logits, until the token is there. llguidance holds Python's lock for a short
time only: what it does under the lock ends an answer where it takes long (``sampling``).

Text for a gap in a program ends after a time, or before a line that is indented less. Source:
llama.cpp, tools/server/server-context.cpp (``process_token``: n_indent, t_max_predict_ms).

A file of a slot has llama-server's layout with a checksum behind it. llama.cpp ends the process on
a state that is cut, and takes one of other weights of the same shape without a word; what is behind
its state it does not read. So 8 bytes ``MTKITSL2`` and 32 bytes SHA-256 follow: of parts of the
model's file, and of all of llama-server's layout, tokens included.
"""

from __future__ import annotations

import hashlib
import os
import time
from concurrent.futures import wait

from mtkit.base.binary import open_input
from mtkit.base.files import write_files
from mtkit.base.watch import work_cell
from mtkit.errors import FormatError, UnsupportedError, UsageError, system_message
from mtkit.llama.media import first_of, row_of, text_ids, whole_chunks
from mtkit.llm.media import lag_of
from mtkit.llm.runner import common_length
from mtkit.llm.sampling import Sampler
from mtkit.serve.job import (
    CacheBreak,
    Chances,
    Echo,
    JobEnd,
    JobProgress,
    JobStart,
    Piece,
)
from mtkit.serve.stop_text import AnswerText
from mtkit.speculative.verification import Matching, Proposal, Round

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Executor, Future
    from typing import Any, Literal

    from mtkit.base.binary import Buffer
    from mtkit.llama import Model, SlotContext
    from mtkit.llama.media import Chunk
    from mtkit.serve.job import End, Job, Terms
    from mtkit.speculative.seats import Seat
    from mtkit.speculative.verification import Verification


class TokenPending(Exception):
    """A token is not chosen yet: its grammar is still at work in another thread."""


class GrammarVerification:
    """Chooses the tokens of one answer, as ``Verification`` says.

    Attributes:
        until: When the scheduler goes on, as ``time.monotonic`` counts.
    """

    def __init__(self, sampler: Sampler, executor: Executor) -> None:
        self._sampler, self._executor = sampler, executor
        self._future: Future[int] | None = None
        self.until = 0.0

    def choose(self, proposal: Proposal, place: int, row: int) -> int:  # noqa: ARG002
        """Return what the sampler chooses behind a row, or chose behind that of the last call."""
        if self._future is None and self._sampler.is_free:
            return self._sampler.sample(row)
        if self._future is None:
            self._future = self._executor.submit(self._sampler.follow, self._sampler.copied(row))
        if not self.is_ready(max(0.0, self.until - time.monotonic())):
            raise TokenPending
        future, self._future = self._future, None
        return future.result()

    @property
    def is_pending(self) -> bool:
        """Whether the token of the last call is still to be fetched."""
        return self._future is not None

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Whether that token is there; waits for it so long."""
        return self._future is not None and bool(wait((self._future,), seconds).done)

    def close(self) -> None:
        """Close the sampler, once it does not choose any more."""
        future, self._future = self._future, None
        if future is None or future.cancel():
            self._sampler.close()
        else:
            future.add_done_callback(lambda _: self._sampler.close())


def chance_logits(context: SlotContext, row: int, sampler: Sampler, terms: Terms) -> Any:
    """Return the logits for probabilities; None where none are asked for.

    Call it before a token is chosen.

    Returns:
        float32 of shape (n_vocab,), minus infinity where a sampler left nothing.
    """
    if terms.top is None:
        return None
    logits = context.logits(row)
    copy = logits.copy()
    if terms.sampled:
        left, values = ([], []) if terms.sampler.is_greedy else sampler.distribution(row)
        logits[:] = copy  # a bias was added
        copy.fill(float("-inf"))
        copy[left] = values
    return copy


def token_chances(row: Any, token_id: int, top: int) -> Chances:
    """Return how probable a token was.

    Args:
        top: How many of the most probable tokens to return, without impossible ones.
    """
    import numpy as np

    if row[token_id] == float("-inf"):  # greedy, or a grammar took what the samplers had not left
        row[token_id] = 0.0
    shifted = row - row.max()
    total = float(np.log(np.exp(shifted).sum(dtype=np.float64)))
    places = most_probable(shifted, top) if top else np.empty(0, np.intp)
    logprobs = shifted[places].astype(np.float64) - total
    best = list(zip(places.tolist(), logprobs.tolist(), strict=True))
    return Chances(float(shifted[token_id]) - total, best)


_STRIPES = 64


def most_probable(logits: Any, top: int) -> Any:
    """Return so many places of the greatest logits, the greatest first, without impossible ones.

    Few logits reach the least of the greatest maxima of columns, and at least as many as those: of
    150,000 this finds 100 in 0.1 ms, where argpartition takes 4.
    """
    import numpy as np

    greatest = logits[: len(logits) // _STRIPES * _STRIPES].reshape(_STRIPES, -1).max(axis=0)
    bound = np.partition(greatest, -top)[-top] if top < len(greatest) else -np.inf
    places = np.flatnonzero((logits >= bound) & (logits > -np.inf))
    return places[np.argsort(-logits[places], kind="stable")[:top]]


_BLANKS = " \t"


class Lines:
    """Follows the lines of an answer.

    Attributes:
        has_cut: Text of the answer was left out; text that is held back is left out with it.
    """

    def __init__(self, seconds: float | None, indent: int) -> None:
        self._seconds, self._indent = seconds, indent
        self._line: str | None = None
        self.has_cut = False

    @classmethod
    def of(cls, terms: Terms) -> Lines | None:
        """Return the lines of an answer; None where its terms have no limit for them."""
        if terms.seconds is None and not terms.indent:
            return None
        return cls(terms.seconds, terms.indent)

    def push(self, text: str, seconds: float) -> tuple[str, bool]:
        """Add text; returns the part of it that stays, and whether the answer ends."""
        end = 0
        for place, part in enumerate(text.split("\n")):
            if place:
                self._line, end = "", end + 1
            if self._line is not None:
                self._line += part
                words = self._line.lstrip(_BLANKS)
                if words and len(self._line) - len(words) < self._indent:
                    self.has_cut = True
                    return text[: end + max(len(part) - len(words), 0)], True
            end += len(part)
        is_over = self._seconds is not None and seconds > self._seconds
        return text, is_over and self._line is not None


SLOT_MAGIC = b"MTKITSL2"
_SUM_BYTES = 32
_MODEL_PARTS, _PART_BYTES = 16, 1 << 16


def write_slot_file(model: Model, path: str, parts: Sequence[Buffer]) -> int:
    """Write what a slot remembers to a file, which is replaced; returns the bytes.

    It can be called from any thread: hashing and the disk take longer than a batch.
    """
    content = [*parts, SLOT_MAGIC + _checksum(model, parts)]
    write_files({path: content}, force=True)
    return sum(memoryview(part).nbytes for part in content)


def read_slot_file(model: Model, path: str) -> bytes:
    """Return what a slot remembered, from a file of ``write_slot_file``; from any thread."""
    try:
        with open_input(path) as file:
            start = os.fstat(file.fileno()).st_size - _SUM_BYTES - len(SLOT_MAGIC)
            is_slot = start > 0 and file.seek(start) == start
            if not is_slot or file.read(len(SLOT_MAGIC)) != SLOT_MAGIC:  # before much is read
                raise FormatError("is not a slot of this server, or cut", source=path)
            file.seek(0)
            data = file.read()
    except OSError as error:
        raise UsageError(system_message(error), source=path) from None
    digest = data[start + len(SLOT_MAGIC) :]
    if _checksum(model, [memoryview(data)[:start]]) != digest:
        raise FormatError("is damaged, or of another model", source=path)
    return data


def _checksum(model: Model, parts: Sequence[Buffer]) -> bytes:
    with open(model.path, "rb") as weights:
        size = os.fstat(weights.fileno()).st_size
        digest = hashlib.sha256(b"%d" % size)
        for number in range(_MODEL_PARTS):
            weights.seek(number * size // _MODEL_PARTS)
            digest.update(weights.read(_PART_BYTES))
    for part in parts:
        digest.update(part)
    return digest.digest()


_NO_PROPOSAL = Proposal([])
_ECHO_ROWS = 64
"""Tokens of a prompt whose logits all count, in a batch: 39 MB of logits at 150,000 ids."""


class Slot:
    """A slot; only the scheduler's thread may call it.

    Attributes:
        job: None where it is free.
        used: When it was last taken, in the scheduler's count; 0: never.
        started: When its job began, as ``time.perf_counter`` counts.
        seat: Its place in the drafting; None where nothing drafts.
        scales: The scale of each adapter with which its tokens are computed.
        turn: The last batch that it was part of.
        encoding: Computes its next picture or sound; None where nothing does.
    """

    def __init__(
        self, context: SlotContext, number: int, seat: Seat | None, executor: Executor
    ) -> None:
        self._context, self._executor = context, executor
        self._grammar: GrammarVerification | None = None
        self._chance_logits: Any = None
        self.number, self.seat, self.proposal = number, seat, _NO_PROPOSAL
        self.ids: list[int] = []
        self.past = 0
        self.job: Job | None = None
        self.used = 0
        self.started = 0.0
        self.cached = 0
        self.generated = 0
        self._is_shortened = False
        self.scales: tuple[float, ...] = ()
        self.turn = self._echoed = self._lag = 0
        self.encoding: Future[None] | None = None
        self._work = work_cell()

    @property
    def state(self) -> Literal["idle", "prompt", "generating"]:
        """Its state, as ``/slots`` has it."""
        if self.job is None:
            return "idle"
        return "generating" if self.generated else "prompt"

    @property
    def waiting(self) -> int:
        """How many tokens have to be computed before the next can be chosen."""
        return len(self.ids) - self.past

    @property
    def is_costly(self) -> bool:
        """Whether plain answers go before its own."""
        return self.job is not None and self.job.is_costly

    @property
    def chunk(self) -> Chunk | None:
        """The picture or sound whose rows come next; None where text does."""
        if self.job is None or not self.waiting or self.ids[self.past] >= 0:
            return None
        return self.job.terms.chunks[first_of(self.ids[self.past])]

    def compute_chunk(self, most: int, sections: int) -> int:
        """Compute rows of its picture or sound, which has been encoded; returns how many."""
        chunk, encoding = self.chunk, self.encoding
        assert chunk is not None
        assert encoding is not None
        encoding.result()
        start, size = row_of(self.ids[self.past]), len(chunk.ids)
        end = min(start + most, size) if chunk.is_causal else size
        self._context.compute_chunk(
            chunk, range(start, end), self.past - start - self._lag, sections, self.number,
            is_last=self.waiting == end - start,
        )  # fmt: skip
        if end == size:
            self.encoding = None
            self._lag += chunk.lag
        self.computed(end - start, 0)
        return end - start

    @property
    def may_draft(self) -> int:
        """How many tokens can be drafted behind the last one."""
        job = self.job
        if job is None or self.seat is None or job.terms.speculative is False or self.waiting > 1:
            return 0
        return min(job.limit - self.generated, self._context.n_slot - self.past) - 1

    def part(self, share: int) -> tuple[int, int, list[int], int]:
        """Return its part of the next batch, as ``SlotContext.compute`` takes it."""
        past, drafted = self.past, self.proposal.ids
        ids = self.ids[past : past + share]
        n_logits = 1 + len(drafted) if len(self.ids) - past == share else 0
        if drafted:
            ids += drafted
        n_logits = share if self._is_echoing else n_logits
        return self.number, past - self._lag, ids, n_logits

    @property
    def most_rows(self) -> int:
        """How many of its tokens the next batch may compute: as far as the next picture."""
        most = min(self.waiting, _ECHO_ROWS) if self._is_echoing else self.waiting
        if self.job is None or not self.job.terms.chunks or most == 1:
            return most if self.chunk is None else 0
        rest = enumerate(self.ids[self.past : self.past + most])
        return next((at for at, token_id in rest if token_id < 0), most)

    @property
    def _is_echoing(self) -> bool:
        job = self.job
        return job is not None and job.terms.echo and not self.generated

    def common(self, job: Job) -> int:
        """Return how many tokens of a prompt it remembers from the start."""
        if job.terms.echo or self.scales != self._scales_of(job):
            return 0
        return common_length(self.ids[: self.past], job.ids)

    def _scales_of(self, job: Job) -> tuple[float, ...]:
        own = job.terms.adapters
        return tuple(self._context.model.adapter_scales) if own is None else own

    def begin(self, job: Job, used: int) -> None:
        """Take a job."""
        context, ids, terms = self._context, job.ids, job.terms
        self._work[0] = job.work
        context.model.check_ids(text_ids(ids) if terms.chunks else ids)
        self._sampler = Sampler(context, terms.sampler, distributions=terms.sampled)
        common = self.common(job) if terms.cached else 0
        old = self.ids[: self.past]
        keep = min(common, len(ids) - 1)  # one has to be computed, for its logits
        keep = whole_chunks(ids, keep)
        lag = lag_of(ids[:keep], terms.chunks)
        if keep < self.past and not (keep and context.cut(self.number, keep - lag)):
            context.clear_slot(self.number)
            keep = lag = 0
        if self.seat is not None and not terms.chunks:
            self.seat.begin(ids, goes_on=2 * common >= len(ids))
        self.job, self.used, self.scales, self._echoed = job, used, self._scales_of(job), 0
        self.ids, self.past, self.cached, self.generated = list(ids), keep, keep, 0
        self._lag, self.encoding = lag, None
        self._text = AnswerText(terms.stops, terms.signs)
        self._lines = Lines.of(terms)
        self.started = time.perf_counter()
        self._first, self._is_shortened = 0.0, False
        self._sampler.accept(ids)
        self._sampler.watch(terms.reasoning)
        self._verification: Verification = Matching(self._sampler)
        # a grammar says itself what an answer may be
        if terms.sampler.grammar is not None or terms.sampler.json_schema is not None:
            self._verification = self._grammar = GrammarVerification(self._sampler, self._executor)
        broken = CacheBreak(
            common,
            old[common] if common < len(old) else None,
            ids[common] if common < len(ids) else None,
        )
        job.emit(JobStart(self.number, keep, broken))
        if terms.progress:
            job.emit(JobProgress(len(ids), keep, keep, 0.0))

    def computed(self, count: int, row: int) -> None:
        """Count so many of its tokens as computed, the last one in a row of the batch."""
        self.past += count
        job = self.job
        if job is None or self.generated:
            return
        if job.terms.echo:
            self._echo(job, row)
        if job.terms.progress:
            seconds = time.perf_counter() - self.started
            job.emit(JobProgress(len(job.ids), self.cached, self.past, seconds))

    def _echo(self, job: Job, row: int) -> None:
        """Say how probable the tokens of the prompt are that follow those just computed."""
        end = min(self.past, len(job.ids) - 1)
        pieces = []
        for place in range(self._echoed, end):
            token = job.ids[place + 1]
            logits = self._context.logits(row - (self.past - 1 - place))
            chances = token_chances(logits, token, job.terms.top or 0)
            raw = self._context.model.piece(token, special=True)
            pieces.append(Piece(token, raw, raw.decode("utf-8", "replace"), chances, 0.0))
        self._echoed = max(self._echoed, end)  # what is computed again was said
        if pieces:
            job.emit(Echo(pieces))

    def shorten(self) -> None:
        """Where no more tokens fit, forget half of those that need not be kept.

        Source: server-context.cpp of llama.cpp, ``pre_decode``.
        """
        job, context = self.job, self._context
        if job is None or job.terms.chunks or self.past + 1 < context.n_slot:
            return
        model, keep = context.model, job.terms.keep
        keep = min((len(job.ids) if keep < 0 else keep) + model.add_bos, context.n_slot - 4)
        count = (self.past - keep) // 2
        context.shift(self.number, keep, count)
        del self.ids[keep : keep + count]
        self.past -= count
        self._is_shortened = True

    @property
    def pending(self) -> GrammarVerification | None:
        """The grammar whose token others did not wait for; None where there is none."""
        return self._grammar if self._grammar is not None and self._grammar.is_pending else None

    def choose(self, row: int, until: float = 0.0) -> None:
        """Choose the tokens behind the last one and what was drafted, with an event for each."""
        job, context, proposal = self.job, self._context, self.proposal
        assert job is not None
        self.proposal = _NO_PROPOSAL
        if self._grammar is not None:
            self._grammar.until = until
        if not job.limit:
            self._first = time.perf_counter()
            self._finish("length")
            return
        if job.cancelled:
            return
        if self.seat is None and self._grammar is None:  # one token, which is there at once
            self._chance_logits = chance_logits(context, row, self._sampler, job.terms)
            end = self._take(self._sampler.sample(row))
            if end is not None:
                self._finish(end)
            return
        tokens, first = Round(proposal), row - len(proposal.ids)
        end = None
        is_whole = self.pending is None
        while end is None and not tokens.is_over and not job.cancelled:
            try:
                end = self._next(tokens, first)
            except TokenPending:
                is_whole = False
                break
        self.past += tokens.accepted
        if tokens.accepted < len(proposal.ids) and not context.cut(self.number, self.past):
            raise UnsupportedError("its memory cannot be cut", source=context.model.path)
        is_whole = is_whole and bool(tokens.emitted)
        if self.seat is not None and is_whole and job.terms.speculative is not False:
            self.seat.saw(tokens, context.logits(first + len(tokens.emitted) - 1))
        if end is not None:
            self._finish(end)

    def _next(self, tokens: Round, first: int) -> End | None:
        """Choose a token; says why it is the last one, None where it is not."""
        job, context = self.job, self._context
        assert job is not None
        if self.pending is None:
            row = first + len(tokens.emitted)
            self._chance_logits = chance_logits(context, row, self._sampler, job.terms)
        return self._take(tokens.next(self._verification, first))

    def _take(self, token: int) -> End | None:
        """Take a token as the next; says why it is the last one, None where it is not."""
        job, model, now = self.job, self._context.model, time.perf_counter()
        assert job is not None
        if not self.generated:
            self._first = now
        if token < 0:
            return "grammar"
        self.ids.append(token)
        self.generated += 1
        terms = job.terms
        is_eog = model.is_eog(token) and not terms.sampler.ignore_eos
        raw = model.piece(token, special=is_eog or token in terms.markers)
        text = "" if is_eog else self._text.push(raw)
        is_over = False
        if self._lines is not None:
            text, is_over = self._lines.push(text, now - self._first)
        logits = None if is_eog and not terms.echo else self._chance_logits
        chances = None if logits is None else token_chances(logits, token, terms.top or 0)
        job.emit(Piece(token, raw, text, chances, now - self.started))
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
            JobEnd(
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
        self._work[0] = 0
        if self.job is not None:
            (self._grammar or self._sampler).close()
            self.job, self._grammar, self.proposal = None, None, _NO_PROPOSAL
        if self.encoding is not None:
            self.encoding.cancel()  # it may wait behind those of others, for seconds each
            self.encoding = None
        del self.ids[self.past :]

    def put_off(self) -> None:
        """Let go of what is computed; a job goes on once all of it is computed again."""
        self._context.clear_slot(self.number)
        self.past, self._lag, self.encoding, self.proposal = 0, 0, None, _NO_PROPOSAL
        if self.job is None:
            self.ids = []

    def save(self) -> tuple[int, Sequence[Buffer]]:
        """Return how many tokens it remembers, and all of it, for ``write_slot_file``."""
        if min(self.ids, default=0) < 0:
            raise UnsupportedError("remembers a picture or sound, and cannot be saved")
        return len(self.ids), self._context.save_slot(self.number, self.ids)

    def restore(self, data: bytes) -> int:
        """Take what ``read_slot_file`` gave; returns the tokens. One that fails changes nothing."""
        end = len(data) - _SUM_BYTES - len(SLOT_MAGIC)
        ids = self._context.restore_slot(self.number, memoryview(data)[:end])
        self.ids, self.past = ids, len(ids)
        self.scales = tuple(self._context.model.adapter_scales)
        return len(ids)

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
