"""The thread that owns the context and answers all jobs together.

Each round puts the next tokens of all slots into one batch: the last token of an answer and the
tokens drafted behind it, or a chunk of a prompt (``batch_rows``). Where slots share cells,
``slots_with_cells`` says whose turn it is. Jobs beyond the slots wait in the queue (``queue``).
"""

from __future__ import annotations

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress

from mtkit.errors import UnsupportedError, UsageError, format_count
from mtkit.serve.job import JobFailure, PromptTooLong, ServerClosed, work_number
from mtkit.serve.queue import JobQueue, Pace
from mtkit.serve.slot import Slot

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import TypeVar

    from mtkit.llama import SlotContext
    from mtkit.llama.media import Projector
    from mtkit.serve.job import Job
    from mtkit.speculative.seats import SharedDrafting

    T = TypeVar("T")


def batch_rows(waiting: Sequence[int], left: int) -> list[int]:
    """Divide the rows of a batch: answers get their one, prompts what is left, in equal parts."""
    rows = [int(count == 1) for count in waiting]
    prompts = sorted((count, at) for at, count in enumerate(waiting) if count > 1)
    for place, (count, at) in enumerate(prompts):  # the shortest leave the rest to the others
        rows[at] = min(count, left // (len(prompts) - place))
        left -= rows[at]
    return rows


def slots_with_cells(slots: Sequence[Slot], n_cells: int) -> list[Slot]:
    """Return the slots whose next tokens find cells, in their order.

    The answer that began first gets what it needs: idle slots forget what they remember, the one
    that was not used for longest before the others, then the answers that began last wait, and
    are computed again once there is room.
    """
    busy = [slot for slot in slots if slot.job is not None]
    need = sum(slot.waiting + len(slot.proposal.ids) for slot in busy)
    if need <= n_cells - sum(slot.past for slot in slots):
        return busy
    busy.sort(key=lambda slot: slot.used)
    idle = [slot for slot in slots if slot.job is None]
    free, ready = n_cells - sum(slot.past for slot in slots), []
    for at, slot in enumerate(busy):
        need = slot.waiting + len(slot.proposal.ids)
        for other in (*sorted(idle, key=lambda slot: slot.used), *reversed(busy[at + 1 :])):
            if need > free and other.past:
                free += other.past
                other.put_off()
        if need <= free:
            ready.append(slot)
            free -= need
    return [slot for slot in slots if slot in ready]


def slots_alike(slots: Sequence[Slot]) -> list[Slot]:
    """Return the slots that one batch can compute: llama.cpp has one set of adapters at a time.

    Those whose turn it is go with the slot that was in no batch for longest.
    """
    if len({slot.scales for slot in slots}) <= 1:
        return list(slots)
    ready = [slot for slot in slots if slot.waiting]
    first = min(ready or slots, key=lambda slot: slot.turn)
    return [slot for slot in slots if slot.scales == first.scales]


def slots_in_turn(slots: Sequence[Slot], room: int) -> list[Slot]:
    """Return the slots of the next batch: beside plain answers, others find room for so many rows.

    Those whose turn it is were in no batch for longest; one of them always goes.
    """
    running = [slot for slot in slots if slot.waiting == 1]
    costly = [slot for slot in running if slot.is_costly]
    if len(costly) in (0, len(running)):
        return list(slots)
    later = sorted(costly, key=lambda slot: slot.turn)[max(room, 1) :]
    return [slot for slot in slots if slot not in later]


class BatchTimes:
    """How long batches take, and what has room beside answers without holding them up.

    On a processor a row takes nearly as long as a batch of one: 4 rows take 2.7 times as long, 128
    rows of a prompt 35 to 58 times (models of 4 MB to 0.5B, 4 bits, 1 thread).
    """

    most = 2.5
    """How many times as long as without them a batch may take because of prompts and others."""

    def __init__(self) -> None:
        self._alone = self._row = 0.0

    def add(self, rows: int, seconds: float, *, is_plain: bool = True) -> None:
        """Count a batch, which may be of plain answers alone."""
        if is_plain and rows == 1:
            self._alone = _mean(self._alone, seconds)
        elif is_plain and self._row:
            times = _mean(1.0, seconds / (self._alone + (rows - 1) * self._row))
            self._alone, self._row = times * self._alone, times * self._row
        elif self._alone and rows > 1:
            self._row = _mean(self._row, max(seconds - self._alone, 0) / (rows - 1))

    def room(self, rows: int) -> int:
        """Return how many rows have room beside so many."""
        if not self._alone or not self._row:
            return PROMPT_ROWS
        seconds = self._alone + (rows - 1) * self._row
        return min(int((self.most - 1) * seconds / self._row), PROMPT_ROWS)


def _mean(mean: float, value: float) -> float:
    """Return the mean with one more value, of which the system may have taken a part."""
    return mean + (min(value, 4 * mean) - mean) / 8 if mean else value


PROMPT_ROWS, _LEAST_PROMPT_ROWS = 128, 4
"""Rows of a batch for prompts while answers run, so that a long one does not hold up their text."""
_WAIT_PART, _LOOK_SECONDS = 0.1, 0.02
"""How long others wait for a token of a grammar, as a part of the time of a batch; and in seconds,
where there is nothing else to do, before looking for new work."""
_LEAST_ALIKE = 0.1
"""The part of a prompt that a slot has to remember to be preferred: llama-server's own."""


def _let_answers_go_first() -> None:
    """Have this thread, and those that it starts, wait for others that compute."""
    with suppress(OSError, AttributeError):  # on Linux alone a thread has a priority of its own
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICENESS)


_NICENESS = 10


class Scheduler:
    """Answers jobs; ``start`` it, ``close`` it.

    Attributes:
        on_events: Called once jobs have had events, those of tokens once a round: waking another
            thread for each would let it interrupt this one before all slots have chosen theirs.
    """

    def __init__(
        self,
        context: SlotContext,
        queue: int = 64,
        drafting: SharedDrafting | None = None,
        projector: Projector | None = None,
        *,
        shifts: bool = False,
    ) -> None:
        """Serve a context, in which only the scheduler's thread may compute from now on.

        Args:
            drafting: Drafts for its slots; None: there are none.
            projector: Computes pictures and sounds; None: there are none.
        """
        if context.n_batch <= context.n_slots:
            what = f"{format_count(context.n_slots, 'slot')} need batches of more tokens"
            raise UsageError(what, field="--batch")
        if shifts and not context.can_shift:
            raise UnsupportedError(
                "its memory cannot be shifted", source=context.model.path, field="--context-shift"
            )
        self.context, self.shifts = context, shifts
        self.projector = projector
        self._encodings = ThreadPoolExecutor(1, "mtkit-media", initializer=_let_answers_go_first)
        self.n_slot = context.n_slot
        seats = drafting.seats if drafting else [None] * context.n_slots
        # for grammars; a thread begins with the first token that one chooses
        self._executor = ThreadPoolExecutor(context.n_slots, "mtkit-grammar")
        self.slots = [
            Slot(context, number, seat, self._executor) for number, seat in enumerate(seats)
        ]
        self._drafting = drafting
        self.computed = self.rounds = self.parts = 0
        self.on_events: Callable[[], None] = lambda: None
        self._queue = JobQueue(self.slots, queue)
        self._change = self._queue.change
        self._count = 0
        self._closing = self._stopping = False
        self._mean_seconds, self._pace, self._times = 1.0, Pace(1), BatchTimes()
        self._thread = threading.Thread(target=self._run, name="mtkit-scheduler", daemon=True)

    @property
    def threads(self) -> int | None:
        """Threads that compute."""
        return self.context.settings.threads

    # -- called from any thread

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    @property
    def queued(self) -> int:
        """How many jobs wait."""
        return len(self._queue.jobs)

    @property
    def drafts(self) -> bool:
        """Whether anything drafts."""
        return self._drafting is not None

    @property
    def is_open(self) -> bool:
        """Whether jobs are taken."""
        return not self._closing and self._thread.is_alive()

    def room(self, n_prompt: int) -> int:
        """Return how many tokens can follow a prompt."""
        if not n_prompt:
            raise UsageError("the prompt is empty", hint="this model adds no BOS")
        if n_prompt >= self.n_slot:
            raise PromptTooLong(n_prompt, self.n_slot)
        return self.n_slot - n_prompt

    def check(self, count: int, field: str = "n") -> None:
        """See that so many jobs may come together now; ``field`` asks for them.

        Raises:
            UsageError: They would not fit an idle server.
            QueueFull: They do not fit.
        """
        self._queue.check(count, self._mean_seconds, field)

    def submit(self, jobs: Sequence[Job]) -> None:
        """Queue jobs, all or none."""
        last = None
        for job in jobs:
            if last is None or last.terms is not job.terms or last.ids != job.ids:
                terms = (job.terms.sampler, job.limit)
                job.work = work_number(self.context.model.path, job.ids, terms)
            else:
                job.work = last.work
            last = job
        with self._change:
            self._check_open()
            self._queue.add(jobs, self._mean_seconds)

    def check_slot(self, number: int) -> None:
        """See that there is such a slot."""
        self._queue.slot(number)

    def run_on_slot(self, number: int, work: Callable[[Slot], T]) -> Future[T]:
        """Run something in the scheduler's thread once a slot is free."""
        with self._change:
            self._check_open()
            return self._queue.add_work(number, work)

    def run_between(self, work: Callable[[], T]) -> Future[T]:
        """Run something in the scheduler's thread between two batches."""
        with self._change:
            self._check_open()
            return self._queue.add_work(None, lambda _: work())

    def scale_adapters(self, scales: Mapping[int, float]) -> Future[None]:
        """Set the scales of the model's adapters; those that are not named get 0.

        What answers have computed with others is computed again.
        """

        def work() -> None:
            model = self.context.model
            before = model.adapter_scales
            model.scale_adapters(scales)
            after = model.adapter_scales
            for slot in self.slots if after != before else ():
                if slot.job is not None and slot.job.terms.adapters is None:
                    slot.put_off()
                    slot.scales = tuple(after)

        return self.run_between(work)

    def _check_open(self) -> None:
        if not self.is_open:
            raise ServerClosed("the server is ending")

    def drain(self) -> None:
        """Take no more jobs; those that wait fail, those that run go on."""
        with self._change:
            self._closing = True
            waiting = list(self._queue.jobs)
            self._queue.jobs.clear()
            self._change.notify()
        for job in waiting:
            job.emit(JobFailure(ServerClosed("the server is ending")))
        self.on_events()

    def close(self) -> None:
        """End all jobs, wait for the thread, and leave the context to the caller."""
        self.drain()
        self._stopping = True
        self.context.interrupt()
        with self._change:
            self._change.notify()
        if self._thread.is_alive():
            self._thread.join()
        self._executor.shutdown()
        self._encodings.shutdown(cancel_futures=True)

    # -- the scheduler's thread

    def _run(self) -> None:
        while self._admit():
            try:
                self._round()
            except Exception as error:  # noqa: BLE001  a thread that ends would leave all waiting
                self._fail(error)
            self.on_events()
        self._fail(ServerClosed("the server is ending"))
        self._queue.run_work(ending=True)
        self.on_events()

    def _admit(self) -> bool:
        """Give waiting jobs to free slots; waits where there is nothing to do.

        Returns:
            False once everything shall end.
        """
        for slot in self.slots:
            if slot.job is not None and slot.job.cancelled:
                slot.free()
        is_waited_for = self._stopping or self._queue.jobs or self._queue.has_work
        if not is_waited_for and any(slot.job is not None for slot in self.slots):
            return True  # without the lock
        while not self._stopping:
            self._run_work()
            with self._change:
                free = [slot for slot in self.slots if slot.job is None]
                job = self._queue.next(free)
                if job is None:
                    if len(free) < len(self.slots):
                        return True
                    if self._closing:
                        return False
                    if not self._queue.has_work:
                        self._change.wait()
                    continue
            slot = self._choose_slot(job, free)
            self._count += 1
            try:
                slot.begin(job, self._count)
            except Exception as error:  # noqa: BLE001  one bad job does not end the others
                slot.free() if slot.job is None else slot.forget()
                job.emit(JobFailure(error))
            self.on_events()  # what begins an answer is written while its prompt is computed
        return False

    def _run_work(self) -> None:
        """Do one piece of other work; where answers run, in no more than half of the time."""
        is_busy, start = any(slot.job is not None for slot in self.slots), time.monotonic()
        if not is_busy or self._pace.start() <= start:
            self._queue.run_work(1)
            self._pace.end(start, time.monotonic() - start)

    def _choose_slot(self, job: Job, free: Sequence[Slot]) -> Slot:
        """Return the slot that remembers most of a prompt, or the one not used for longest."""
        terms = job.terms
        if terms.slot is not None:
            return self.slots[terms.slot]
        if terms.cached:
            slot = max(free, key=lambda slot: (slot.common(job), -slot.used))
            if slot.common(job) > _LEAST_ALIKE * len(job.ids):
                return slot
        return min(free, key=lambda slot: slot.used)

    def _round(self) -> None:
        """Compute a batch, and choose the tokens that it leads to."""
        for slot in self.slots:
            if slot.pending is not None and slot.pending.is_ready():
                self._choose(slot, 0, 0.0)
        batch = self._plan_batch()
        if batch:
            self._compute(batch)
        if self._compute_media(is_alone=not batch) or batch:
            return
        pending = next((slot.pending for slot in self.slots if slot.pending is not None), None)
        if pending is not None:  # nothing else to do
            pending.is_ready(_LOOK_SECONDS)

    def _plan_batch(self) -> list[tuple[Slot, int]]:
        """Return the slots of the next batch, and how many waiting tokens of each it computes."""
        busy = [slot for slot in self.slots if slot.job is not None]
        running = [slot for slot in busy if slot.waiting == 1]
        if self.shifts:
            for slot in running:
                slot.shorten()
        if self._drafting is not None:
            self._draft([slot for slot in running if slot.may_draft > 0], len(running))
        if self.context.settings.kv_unified:  # may put off slots that have no cells left
            busy = slots_with_cells(self.slots, self.context.n_cells)
        busy = slots_alike(busy)
        plain = [slot for slot in busy if slot.most_rows == 1 and not slot.is_costly]
        if len(plain) == len(busy):
            return [(slot, 1) for slot in busy]
        own = sum(1 + len(slot.proposal.ids) for slot in plain)
        busy = slots_in_turn(busy, self._times.room(own))
        rows = sum(1 + len(slot.proposal.ids) for slot in busy if slot.most_rows == 1)
        left = self.context.n_batch - rows
        if rows or any(slot.waiting <= _LEAST_PROMPT_ROWS for slot in busy):
            own = own or max(rows, 1)
            left = min(left, max(self._times.room(own) - (rows - own), _LEAST_PROMPT_ROWS))
        shares = batch_rows([slot.most_rows for slot in busy], left)
        return [(slot, share) for slot, share in zip(busy, shares, strict=True) if share]

    def _compute(self, batch: Sequence[tuple[Slot, int]]) -> None:
        start = time.monotonic()
        self.context.use_adapters(batch[0][0].scales)
        parts = [slot.part(share) for slot, share in batch]
        is_plain = all(share == 1 and not slot.is_costly for slot, share in batch)
        ends = self.context.compute(parts)
        self.rounds += 1
        self.parts += len(batch)
        now = time.monotonic()
        until = now + (_WAIT_PART * (now - start) if len(batch) > 1 else _LOOK_SECONDS)
        for (slot, share), row in zip(batch, ends, strict=True):
            slot.turn = self.rounds
            slot.computed(share, row)
            self.computed += share + len(slot.proposal.ids)
            if slot.job is not None and not slot.waiting:
                self._choose(slot, row, until)
        rows = sum(len(ids) for _, _, ids, _ in parts)
        self._times.add(rows, time.monotonic() - start, is_plain=is_plain)

    def _compute_media(self, *, is_alone: bool) -> bool:
        """Compute rows of one picture or sound, at most a batch; returns whether there were any.

        They are encoded in another thread: that takes seconds, in which others are answered.
        """
        if self.projector is None:
            return False
        slots = [slot for slot in self.slots if slot.job is not None and slot.chunk is not None]
        for slot in sorted(slots, key=lambda slot: slot.turn):
            if slot.encoding is None:
                assert slot.chunk is not None
                slot.encoding = self._encodings.submit(self.projector.encode, slot.chunk)
            wait((slot.encoding,), _LOOK_SECONDS if is_alone else 0.0)
            if slot.encoding.done():
                self._compute_chunk(slot, self.context.n_batch if is_alone else PROMPT_ROWS)
                return True
        return False

    def _compute_chunk(self, slot: Slot, most: int) -> None:
        job, start = slot.job, time.monotonic()
        assert job is not None
        assert self.projector is not None
        try:
            self.context.use_adapters(slot.scales)
            count = slot.compute_chunk(most, self.projector.sections)
        except Exception as error:  # noqa: BLE001  one bad picture does not end the others
            slot.forget()
            job.emit(JobFailure(error))
            return
        self.rounds += 1
        self.parts += 1
        slot.turn = self.rounds
        self.computed += count
        if not slot.waiting:
            self._choose(slot, 0, start + _LOOK_SECONDS)

    def _choose(self, slot: Slot, row: int, until: float) -> None:
        """Have a slot choose its next tokens, as ``Slot.choose`` says."""
        job, seconds = slot.job, time.perf_counter() - slot.started
        assert job is not None
        try:
            slot.choose(row, until)
        except Exception as error:  # noqa: BLE001  one bad job does not end the others
            slot.forget()
            job.emit(JobFailure(error))
        if slot.job is None:
            self._mean_seconds += (seconds - self._mean_seconds) / 8

    def _draft(self, slots: Sequence[Slot], running: int) -> None:
        if self._drafting is None or not slots:
            return
        texts = [(slot.seat, slot.ids, slot.may_draft) for slot in slots if slot.seat]
        proposals = self._drafting.proposals(texts, running - len(slots))
        for slot, proposal in zip(slots, proposals, strict=True):
            slot.proposal = proposal

    def _fail(self, error: Exception) -> None:
        """End all answers: nothing says how far a batch that failed was computed."""
        for slot in self.slots:
            job = slot.job
            slot.forget()
            if job is not None and not job.cancelled:
                job.emit(
                    JobFailure(ServerClosed("the server is ending") if self._stopping else error)
                )
