"""The units of a job on the processors of this machine, a process each."""

from __future__ import annotations

import os
import signal
import threading
from itertools import islice

from mtkit.corpus.unit_work import loaded, work
from mtkit.errors import ResourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.corpus.files import Unit
    from mtkit.corpus.job import Job, Tally
    from mtkit.corpus.parts import Parts
    from mtkit.tokenizer.tokenizer import Tokenizer

_AHEAD = 4
"""Units that wait for each process: no more are sent, so that a job of millions stays small."""


def run(job: Job, units: Sequence[tuple[int, Unit]], parts: Parts, jobs: int) -> Iterator[Tally]:
    """Do the units, and yield what each held, in the order in which they end.

    Args:
        job: What is done.
        units: Number and unit.
        parts: Where the parts go.
        jobs: Number of processes.

    Raises:
        MtkitError: A unit cannot be done; parts that are done stay.
    """
    if jobs == 1 or len(units) <= 1:
        tokenizer = loaded(job)
        for number, unit in units:
            yield work(job, tokenizer, unit, parts, number)
        return
    import multiprocessing
    from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
    from concurrent.futures.process import BrokenProcessPool

    others = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(jobs, len(units)), multiprocessing.get_context("spawn"), _Worker.begin, (job, parts)
    )
    left = iter(units)
    running = {pool.submit(_Worker.work, *unit) for unit in islice(left, _AHEAD * jobs)}
    try:
        while running:
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
                running |= {pool.submit(_Worker.work, *unit) for unit in islice(left, 1)}
    except BrokenProcessPool:
        raise ResourceError(
            "a process was killed, perhaps because it ran out of memory",
            hint="use fewer --jobs; the same command resumes the work",
        ) from None
    finally:
        if running:  # a unit may take hours
            for process in set(multiprocessing.active_children()) - others:
                process.kill()  # what ends as an exception lets the pool go on with the next unit
        pool.shutdown(cancel_futures=True)
        if running:
            parts.clear()


class _Worker:
    """What a process keeps between units."""

    job: Job
    parts: Parts
    tokenizer: Tokenizer

    @classmethod
    def begin(cls, job: Job, parts: Parts) -> None:
        """Load the tokenizer; the parent alone answers Ctrl-C, and its end is the worker's."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        cls.job, cls.parts, cls.tokenizer = job, parts, loaded(job)

    @classmethod
    def work(cls, number: int, unit: Unit) -> Tally:
        """Do a unit."""
        return work(cls.job, cls.tokenizer, unit, cls.parts, number)


def _end_with_parent() -> None:
    """End this process when its parent does: the queue of a parent that was killed stays open."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
