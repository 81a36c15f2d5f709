"""The queue of jobs that wait for a slot, of bounded length, and of other work, with its pace."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from concurrent.futures import Future

from mtkit.errors import UsageError, format_count
from mtkit.serve.job import QueueFull, ServerClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, TypeVar

    from mtkit.serve.job import Job
    from mtkit.serve.slot import Slot

    T = TypeVar("T")


_LATE_ROUNDS = 2
"""How many requests for each slot go before a costly one that came earlier."""


class Pace:
    """Work beside the batches, most of which holds Python's lock, leaves most of the time to them.

    Attributes:
        pauses: How many times as long as a work took the pause behind it is, up to a second.
    """

    def __init__(self, pauses: int) -> None:
        self.pauses, self._until = pauses, 0.0

    def start(self) -> float:
        """Return when the next work may begin, on the monotonic clock."""
        return max(time.monotonic(), self._until)

    def end(self, start: float, seconds: float) -> None:
        """Count a work that takes or took so long."""
        self._until = start + seconds + min(self.pauses * seconds, 1.0)


class JobQueue:
    """Jobs and other work that wait for slots.

    Callers hold ``change``, but not for ``check`` and ``run_work``.
    """

    def __init__(self, slots: Sequence[Slot], most: int) -> None:
        self.change = threading.Condition()
        self.jobs: deque[Job] = deque()
        self._work: deque[tuple[Slot | None, Callable[[Any], Any], Future[Any]]] = deque()
        self._slots, self._most, self._requests = slots, most, 0

    def slot(self, number: int) -> Slot:
        """Return a slot."""
        if not 0 <= number < len(self._slots):
            what = f"no slot {number}: this server has {len(self._slots)}, from 0 on"
            raise UsageError(what, field="id_slot")
        return self._slots[number]

    def check(self, count: int, mean_seconds: float, field: str = "n") -> None:
        """See that so many jobs may come together now; ``field`` asks for them.

        Raises:
            UsageError: They would not fit an idle server.
            QueueFull: They do not fit.
        """
        most = len(self._slots) + self._most
        if count > most:
            what = f"asks for {count} answers, but this server accepts {most}, running and queued"
            raise UsageError(what, field=field)
        if count + len(self.jobs) <= self._most:
            return
        count += sum(not job.cancelled for job in tuple(self.jobs))
        if count > sum(slot.job is None for slot in self._slots) + self._most:
            seconds = min(max(round(count / len(self._slots) * mean_seconds), 1), 600)
            raise QueueFull(
                f"all {format_count(len(self._slots), 'slot')} and the queue are full", seconds
            )

    def add(self, jobs: Sequence[Job], mean_seconds: float) -> None:
        """Add jobs, all or none."""
        for job in jobs:
            self.slot(job.terms.slot or 0)
        self._drop_cancelled()
        self.check(len(jobs), mean_seconds)
        self._requests += 1
        for place, job in enumerate(jobs):
            job.request, job.is_costly = self._requests, job.is_costly or place > 0
        self.jobs.extend(jobs)
        self.change.notify()

    def next(self, free: Sequence[Slot]) -> Job | None:
        """Take a job whose slot is free, of the request with the fewest answers that run.

        So the many answers of one request do not hold up the others. Where several have as few,
        the first to come is taken, a costly one as if it had come some requests later; None where
        there is none.
        """
        if not self.jobs or not free:
            return None
        numbers = {None, *(slot.number for slot in free)}
        running = Counter(slot.job.request for slot in self._slots if slot.job is not None)
        self._drop_cancelled()
        ready = [job for job in self.jobs if job.terms.slot in numbers]
        if not ready:
            return None
        late = _LATE_ROUNDS * len(self._slots)
        job = min(ready, key=lambda job: (running[job.request], job.request + late * job.is_costly))
        self.jobs.remove(job)
        return job

    def _drop_cancelled(self) -> None:
        for job in [job for job in self.jobs if job.cancelled]:
            self.jobs.remove(job)

    def add_work(self, number: int | None, work: Callable[[Any], T]) -> Future[T]:
        """Add work for a slot, done once it is free, or, without a number, between two batches."""
        future: Future[T] = Future()
        slot = self.slot(number) if number is not None else None
        self._work.append((slot, work, future))
        self.change.notify()
        return future

    @property
    def has_work(self) -> bool:
        """Whether there is such work."""
        return bool(self._work)

    def run_work(self, most: int | None = None, *, ending: bool = False) -> None:
        """Do the work that can be done, or so many of it, in the scheduler's thread."""
        for _ in range(len(self._work)):
            if most == 0:
                return
            slot, work, future = self._work.popleft()
            if ending:
                if future.set_running_or_notify_cancel():  # or the client has left
                    future.set_exception(ServerClosed("the server is ending"))
            elif slot is not None and slot.job is not None:
                self._work.append((slot, work, future))
            else:
                self._run(slot, work, future)
                most = None if most is None else most - 1

    def _run(self, slot: Slot | None, work: Callable[[Any], Any], future: Future[Any]) -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            future.set_result(work(slot))
        except Exception as error:  # noqa: BLE001  the caller gets it
            future.set_exception(error)
        if slot is not None and slot.past:
            slot.used = max(other.used for other in self._slots)
