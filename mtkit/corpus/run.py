"""A job from beginning to end: its parts, then the output made of them."""

from __future__ import annotations

import json
import os

from mtkit.base.files import check_target, write_files
from mtkit.base.record import Record
from mtkit.corpus import outputs
from mtkit.corpus.documents import is_url
from mtkit.corpus.job import Parts, Tally
from mtkit.corpus.workers import load_tokenizer, run_local, run_on_ray
from mtkit.errors import UsageError
from mtkit.spec.codec import fingerprint

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtkit.corpus.documents import Unit
    from mtkit.corpus.job import Job

    OnProgress = Callable[[int, int], None]
    """Called with the bytes done and the bytes of all."""


class JobResult(Record):
    """The counts of a finished job."""

    tally: Tally
    resumed: int


class JobSettings(Record):
    """How a job is run; the output does not depend on it.

    Attributes:
        ray_address: Of the cluster; None takes RAY_ADDRESS, or starts one on this machine.
    """

    jobs: int = 1
    ray: bool = False
    ray_address: str | None = None
    force: bool = False
    restart: bool = False


def count(
    job: Job, units: Sequence[Unit], path: str, settings: JobSettings, on_progress: OnProgress
) -> JobResult:
    """Count the ids of a corpus into a JSON file of schema ``mtkit.frequencies/1``."""
    parts, force = _open_parts(job, units, path, [path], settings)
    with parts:
        finished = _run_units(job, units, parts, settings, on_progress)
        counts = _add_counts(parts, range(len(units)))
        tokenizer = load_tokenizer(job)
        document = {
            "schema": "mtkit.frequencies/1",
            "tokenizer": os.path.basename(job.tokenizer),
            "tokenizer_hash": fingerprint(tokenizer.spec),
            "vocab_size": tokenizer.vocab_size,
            "documents": finished.tally.documents,
            "tokens": finished.tally.tokens,
            "counts": {str(i): int(counts[i]) for i in counts.nonzero()[0].tolist()},
        }
        write_files({path: json.dumps(document).encode() + b"\n"}, force=force)
        parts.remove()
        return finished


def encode(
    job: Job, units: Sequence[Unit], path: str, settings: JobSettings, on_progress: OnProgress
) -> JobResult:
    """Encode a corpus into a file of the format that its suffix names (``outputs.assemble``).

    The same call resumes an interrupted run; the output depends neither on where that ended nor on
    the number of processes.
    """
    parts, force = _open_parts(job, units, path, outputs.paths_of(path), settings)
    with parts:
        finished = _run_units(job, units, parts, settings, on_progress)
        files = outputs.assemble(path, parts, range(len(units)), job.width)
        write_files(files, force=force)
        parts.remove()
        return finished


def _open_parts(
    job: Job, units: Sequence[Unit], path: str, targets: Sequence[str], settings: JobSettings
) -> tuple[Parts, bool]:
    """Return the parts of an output, and whether its files may be replaced.

    Where there are parts, an earlier run was allowed to write there, and may have ended between
    the first file and the second.
    """
    parts = Parts(f"{path}.parts")
    force = settings.force or os.path.isdir(parts.folder)
    for target in targets:
        check_target(target, force=force)
        sources = {job.tokenizer, *(unit.path for unit in units)} if os.path.exists(target) else ()
        for source in sources:
            if not is_url(source) and os.path.samefile(source, target):
                raise UsageError(
                    "is an input file and would be overwritten", source=target,
                    hint="use -o to choose another file",
                )  # fmt: skip
    return parts, force


def _run_units(
    job: Job, units: Sequence[Unit], parts: Parts, settings: JobSettings, on_progress: OnProgress
) -> JobResult:
    """Run the units that have no complete part yet."""
    parts.begin(job, units, restart=settings.restart)
    total = sum(unit.size for unit in units)
    tally = Tally()
    left = []
    for number, unit in enumerate(units):
        unit_tally = parts.tally(number)
        if unit_tally is None:
            left.append((number, unit))
        else:
            tally += unit_tally
    tallies = (
        run_on_ray(job, left, parts, settings.ray_address)
        if settings.ray
        else run_local(job, left, parts, settings.jobs)
    )
    on_progress(tally.size, total)
    for unit_tally in tallies:
        tally += unit_tally
        on_progress(tally.size, total)
    if tally.size != total:
        raise UsageError("a unit is missing", source=parts.folder, hint="--restart starts over")
    return JobResult(tally, len(units) - len(left))


def _add_counts(parts: Parts, numbers: range) -> NDArray[np.int64]:
    import numpy as np

    part_counts = [np.frombuffer(parts.content(number, "counts"), np.int64) for number in numbers]
    total = np.zeros(max(map(len, part_counts)), np.int64)
    for counts in part_counts:
        total[: len(counts)] += counts
    return total
