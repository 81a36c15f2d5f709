"""A job from beginning to end: parts, then what they give together."""

from __future__ import annotations

import json
import os

from mtkit.base.record import Record
from mtkit.base.whole_files import check_target, write_files
from mtkit.corpus import outputs
from mtkit.corpus.files import is_url
from mtkit.corpus.job import Tally
from mtkit.corpus.parts import Parts
from mtkit.corpus.unit_work import loaded
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from mtkit.corpus.files import Unit
    from mtkit.corpus.job import Job

    OnProgress = Callable[[int, int], None]
    """Takes the bytes done and the bytes of all."""


class Finished(Record):
    """A job that is done.

    Attributes:
        tally: What the corpus held.
        resumed: Units that an earlier run had done.
    """

    tally: Tally
    resumed: int


class Settings(Record):
    """How a job is run; none of it changes what comes out.

    Attributes:
        jobs: Processes.
        ray: Run on a Ray cluster.
        ray_address: Of the cluster; None takes RAY_ADDRESS, or starts one on this machine.
        force: Replace an output that exists.
        restart: Forget parts that an earlier run left.
    """

    jobs: int = 1
    ray: bool = False
    ray_address: str | None = None
    force: bool = False
    restart: bool = False


def count(
    job: Job, units: Sequence[Unit], path: str, settings: Settings, on_progress: OnProgress
) -> Finished:
    """Count the ids of a corpus into a JSON file of schema ``mtkit.frequencies/1``.

    Raises:
        MtkitError: As ``encode``.
    """
    parts, force = _begun(job, units, path, [path], settings)
    with parts:
        finished = _parts_done(job, units, parts, settings, on_progress)
        counts = _summed(parts, range(len(units)))
        document = {
            "schema": "mtkit.frequencies/1",
            "tokenizer": os.path.basename(job.tokenizer),
            "vocab_size": loaded(job).vocab_size,
            "documents": finished.tally.documents,
            "tokens": finished.tally.tokens,
            "counts": {str(i): int(counts[i]) for i in counts.nonzero()[0].tolist()},
        }
        write_files({path: json.dumps(document).encode() + b"\n"}, force=force)
        parts.remove()
        return finished


def encode(
    job: Job, units: Sequence[Unit], path: str, settings: Settings, on_progress: OnProgress
) -> Finished:
    """Encode a corpus into the file that the suffix of a path names (``outputs.assembled``).

    The same call after a run that was ended goes on behind the parts that are done, and what it
    writes does not depend on where that was, nor on the number of processes.

    Raises:
        UsageError: The output exists, its suffix is unknown, or parts of another job are there.
        FormatError: A file is damaged, or a document bad.
        ResourceError: A disk is full, or a process was ended.
    """
    parts, force = _begun(job, units, path, outputs.paths_of(path), settings)
    with parts:
        finished = _parts_done(job, units, parts, settings, on_progress)
        made = outputs.assembled(path, parts, range(len(units)), job.width)
        write_files(made, force=force)
        parts.remove()
        return finished


def _begun(
    job: Job, units: Sequence[Unit], path: str, targets: Sequence[str], settings: Settings
) -> tuple[Parts, bool]:
    """Return the parts of an output, and whether its files may be replaced.

    Where parts lie, an earlier run was allowed to write there, and may have been ended between the
    first file and the second.
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


def _parts_done(
    job: Job, units: Sequence[Unit], parts: Parts, settings: Settings, on_progress: OnProgress
) -> Finished:
    """Do what is not done yet."""
    parts.begin(job, units, restart=settings.restart)
    total = sum(unit.size for unit in units)
    tally = Tally()
    left = []
    for number, unit in enumerate(units):
        done = parts.tally(number)
        if done is None:
            left.append((number, unit))
        else:
            tally += done
    if settings.ray:
        from mtkit.corpus import on_ray

        tallies: Iterable[Tally] = on_ray.run(job, left, parts, settings.ray_address)
    else:
        from mtkit.corpus import local

        tallies = local.run(job, left, parts, settings.jobs)
    on_progress(tally.size, total)
    for done in tallies:
        tally += done
        on_progress(tally.size, total)
    if tally.size != total:
        raise UsageError("a unit is missing", source=parts.folder, hint="--restart starts over")
    return Finished(tally, len(units) - len(left))


def _summed(parts: Parts, numbers: range) -> NDArray[np.int64]:
    import numpy as np

    found = [np.frombuffer(parts.content(number, "counts"), np.int64) for number in numbers]
    total = np.zeros(max(map(len, found)), np.int64)
    for counts in found:
        total[: len(counts)] += counts
    return total
