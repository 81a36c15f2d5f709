"""Units encoded and written as parts, by processes of this machine or a Ray cluster.

On Ray (Ray Data) each unit is a task; Ray runs the tasks of a lost node again, and writing a part
twice does no harm. The output's folder and the files have to be reachable from every node.
"""

from __future__ import annotations

import os
import signal
import threading
from bisect import bisect
from functools import lru_cache
from itertools import islice

from mtkit.corpus.documents import Block, describe_place, read_documents
from mtkit.corpus.job import Job, Tally
from mtkit.errors import FormatError, MissingExtra, MtkitError, NoToken, ResourceError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from mtkit.corpus.documents import Unit
    from mtkit.corpus.job import Parts
    from mtkit.tokenizer.tokenizer import Tokenizer


_COUNTED_AT_ONCE = 1 << 18
"""Ids counted at once: numpy copies them to 64 bits, which should stay in the cache."""


def load_tokenizer(job: Job) -> Tokenizer:
    """Load the job's tokenizer."""
    from mtkit.tokenizer.load import load

    return load(job.tokenizer, overrides=job.overrides, reader=job.reader)


def encode_unit(job: Job, tokenizer: Tokenizer, unit: Unit, parts: Parts, number: int) -> Tally:
    """Encode a unit and write its part, which appears whole or not at all."""
    ids = _UnitIds(job, tokenizer, unit)
    files = _id_files(ids, job.width) if job.width else {"counts": _count_ids(ids)}
    parts.write(number, files, lambda: ids.tally)
    return ids.tally


class _UnitIds:
    """Iterates the ids of a unit, many documents at a time; ``tally`` is valid at the end."""

    def __init__(self, job: Job, tokenizer: Tokenizer, unit: Unit) -> None:
        self._job, self._tokenizer, self._unit = job, tokenizer, unit
        self._bad = 0
        self.tally = Tally()

    def __iter__(self) -> Iterator[tuple[NDArray[np.int32], NDArray[np.int64]]]:
        """Yield the ids of some documents, and how many each has; documents without ids are out."""
        import numpy as np

        end_id = self._job.end_id
        n_documents = n_tokens = n_empty = 0
        for block in self._blocks():
            ids, lengths = self._encoded(block.places, block.texts)
            n_empty += len(lengths)
            lengths = lengths[lengths > 0]
            n_empty -= len(lengths)
            if end_id is not None:
                ids = np.insert(ids, np.cumsum(lengths), end_id)
                lengths += 1
            n_documents += len(lengths)
            n_tokens += len(ids)
            yield ids, lengths
        self.tally = Tally(n_documents, n_tokens, self._unit.size, n_empty, self._bad)

    def _blocks(self) -> Iterator[Block]:
        """Yield the documents that can be read; others are counted, or raise."""
        for block in read_documents(self._unit, self._job.reading):
            if block.bad and not self._job.skip_bad:
                at, why = block.bad[0]
                before = bisect(block.places, at)  # encoding may refuse one of them first
                yield Block(block.places[:before], block.texts[:before])
                self._refuse(at, why)
            self._bad += len(block.bad)
            yield block

    def _encoded(
        self, places: Sequence[int], texts: Sequence[str | bytes]
    ) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """Return the ids of documents and how many each has; bad ones have none, and count."""
        import numpy as np

        job = self._job
        try:
            ids, starts = self._tokenizer.encode_batch_arrays(
                texts, add_special_tokens=job.add_special, parse_special=job.parse_special
            )
        except (FormatError, NoToken, UsageError) as error:
            if len(texts) > 1:
                alone = [
                    self._encoded([at], [text]) for at, text in zip(places, texts, strict=True)
                ]
                every_id, every_length = zip(*alone, strict=True)
                return np.concatenate(every_id), np.concatenate(every_length)
            self._refuse(places[0], error.what)
            return np.zeros(0, np.int32), np.zeros(0, np.int64)
        return ids, np.diff(starts)

    def _refuse(self, at: int, why: str) -> None:
        """Count a bad document, or raise."""
        if not self._job.skip_bad:
            hint = "--skip-bad leaves such documents out"
            raise FormatError(
                why, source=self._unit.path, field=describe_place(self._unit, at), hint=hint
            ) from None
        self._bad += 1


def _count_ids(unit_ids: _UnitIds) -> Iterator[memoryview]:
    import numpy as np

    total = np.zeros(0, np.int64)
    for ids in _join_ids(unit_ids):
        counts = np.bincount(ids)
        if len(counts) < len(total):
            total[: len(counts)] += counts
        else:
            counts[: len(total)] += total
            total = counts
    yield total.data


def _join_ids(unit_ids: _UnitIds) -> Iterator[NDArray[np.int32]]:
    """Yield many ids at once: a table of 200,000 counts is not made for a few."""
    waiting: list[NDArray[np.int32]] = []
    size = 0
    for ids, _ in unit_ids:
        waiting.append(ids)
        size += len(ids)
        if size >= _COUNTED_AT_ONCE:
            yield from _split_ids(waiting)
            waiting, size = [], 0
    yield from _split_ids(waiting)


def _split_ids(parts: Sequence[NDArray[np.int32]]) -> Iterator[NDArray[np.int32]]:
    import numpy as np

    ids = np.concatenate(parts) if parts else np.zeros(0, np.int32)
    for at in range(0, len(ids), _COUNTED_AT_ONCE):
        yield ids[at : at + _COUNTED_AT_ONCE]


def _id_files(unit_ids: _UnitIds, width: int) -> dict[str, Iterator[memoryview]]:
    """Return the files of a part; the lengths are read behind the ids, which collect them."""
    import numpy as np

    lengths_by_block: list[NDArray[np.int64]] = []

    def ids() -> Iterator[memoryview]:
        for block, lengths in unit_ids:
            lengths_by_block.append(lengths)
            yield block.astype(np.uint16 if width == 2 else np.uint32).data

    def all_lengths() -> Iterator[memoryview]:
        lengths = np.concatenate([*lengths_by_block, np.zeros(0, np.int64)])
        yield lengths.astype(np.uint64).data

    return {"ids": ids(), "lengths": all_lengths()}


_AHEAD = 4
"""Units submitted ahead for each process: a job may have millions."""


def run_local(
    job: Job, units: Sequence[tuple[int, Unit]], parts: Parts, jobs: int
) -> Iterator[Tally]:
    """Run the units, and yield the tally of each as it ends."""
    if jobs == 1 or len(units) <= 1:
        tokenizer = load_tokenizer(job)
        for number, unit in units:
            yield encode_unit(job, tokenizer, unit, parts, number)
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
            finished, running = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                yield future.result()
                running |= {pool.submit(_Worker.work, *unit) for unit in islice(left, 1)}
    except BrokenProcessPool:
        raise ResourceError(
            "a process was killed, perhaps because it ran out of memory",
            hint="use fewer --jobs; the same command resumes the work",
        ) from None
    finally:
        if running:  # do not wait: a unit may take hours
            for process in set(multiprocessing.active_children()) - others:
                process.kill()  # after an exception alone the pool would go on with the next unit
        pool.shutdown(cancel_futures=True)
        if running:
            parts.clear()


class _Worker:
    """The state of a worker process."""

    job: Job
    parts: Parts
    tokenizer: Tokenizer

    @classmethod
    def begin(cls, job: Job, parts: Parts) -> None:
        """Load the tokenizer; Ctrl-C is left to the parent, whose end is the worker's."""
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        threading.Thread(target=_end_with_parent, daemon=True).start()
        cls.job, cls.parts, cls.tokenizer = job, parts, load_tokenizer(job)

    @classmethod
    def work(cls, number: int, unit: Unit) -> Tally:
        """Do a unit."""
        return encode_unit(cls.job, cls.tokenizer, unit, cls.parts, number)


def _end_with_parent() -> None:
    """End this process with its parent: the queue of a killed parent stays open."""
    from multiprocessing import parent_process

    parent = parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)


def run_on_ray(
    job: Job, units: Sequence[tuple[int, Unit]], parts: Parts, address: str | None
) -> Iterator[Tally]:
    """Run the units on a cluster; None takes RAY_ADDRESS, or starts one on this machine."""
    try:
        import ray
        import ray.data
    except ImportError:
        raise MissingExtra("needs Ray", hint='pip install "mtkit[ray]"') from None
    if not units:
        return
    try:
        if not ray.is_initialized():
            ray.init(address=address, log_to_driver=False)
    except ConnectionError as error:
        raise ResourceError(f"no Ray cluster: {error}", source=address or "RAY_ADDRESS") from None

    def encode_row(row: dict[str, Any]) -> dict[str, Any]:
        number, unit = units[row["item"]]
        try:
            tally = encode_unit(job, _cached_tokenizer(job), unit, parts, number)
        except MtkitError as error:
            return {"error": str(error), "tally": [0] * len(Tally.__match_args__)}
        return {"error": "", "tally": [getattr(tally, name) for name in Tally.__match_args__]}

    rows = ray.data.from_items(list(range(len(units))), override_num_blocks=len(units))
    try:
        for row in rows.map(encode_row).iter_rows():
            if row["error"]:
                raise ResourceError(row["error"])
            yield Tally(*map(int, row["tally"]))
    except ray.exceptions.RayError as error:
        what = str(error).strip().splitlines()[-1]
        raise ResourceError(
            f"Ray gave up: {what}", hint="the same command resumes the work"
        ) from None


@lru_cache(1)
def _cached_tokenizer(job: Job) -> Tokenizer:
    """Load the tokenizer once in each of Ray's processes."""
    return load_tokenizer(job)
