"""A job: what is done with every document, and the folder of its parts.

An interrupted job resumes where it was: ``job.json`` describes the job that the parts belong to. A
part consists of files and a tally, which is written last: a part with a tally is complete.
"""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import suppress

from mtkit.base.binary import map_file
from mtkit.base.files import lock, write_files
from mtkit.base.process import Closeable
from mtkit.base.record import Record, fields
from mtkit.corpus.documents import Reading
from mtkit.errors import FormatError, ResourceError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.corpus.documents import Unit


class Job(Record):
    """What is done with every document.

    Attributes:
        tokenizer: Path of its file; each process loads it.
        overrides: What reading that file needs (``mtkit.load``).
        reader: Another way to read it (``mtkit.load``).
        end_id: Id appended to each document, or None.
        width: Bytes of an id in a part; 0 counts the ids instead of writing them.
        skip_bad: Leave out what is not a document, instead of raising.
    """

    tokenizer: str
    overrides: Mapping[str, object] | None = None
    reader: str | None = None
    reading: Reading = Reading()
    add_special: bool = False
    parse_special: bool | None = None
    end_id: int | None = None
    width: int = 0
    skip_bad: bool = False


class Tally(Record):
    """Counts of a unit."""

    documents: int = 0
    tokens: int = 0
    size: int = 0
    empty: int = 0
    bad: int = 0

    def __add__(self, other: Tally) -> Tally:
        own, others = (tuple(getattr(t, n) for n in t.__match_args__) for t in (self, other))
        return Tally(*(a + b for a, b in zip(own, others, strict=True)))


_PLAN, _LOCK = "job.json", "lock"
_TALLY = re.compile(r"\d{6,}\.json")


class Parts(Closeable):
    """The parts of a job, locked against other processes until closed."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._locked = -1

    def close(self) -> None:
        """Release the lock."""
        if self._locked >= 0:
            os.close(self._locked)
            self._locked = -1

    def begin(self, job: Job, units: Sequence[Unit], *, restart: bool) -> None:
        """Make the folder, or go on in it."""
        plan = _describe_job(job, units)
        path = os.path.join(self.folder, _PLAN)
        if restart and os.path.isfile(path):
            self._lock()
            self.remove()
        is_used = self._make_folder()
        self._lock()
        old_plan = _read_json(path) if os.path.isfile(path) else {}
        # Parts made without --skip-bad have no bad documents, so they are the same with it.
        is_other = old_plan not in (plan, {**plan, "skip_bad": False})
        if is_used and is_other and (not old_plan or self._has_parts()):
            raise UsageError(
                "has parts of a different job: files, tokenizer or options have changed",
                source=self.folder, hint="--restart starts over",
            )  # fmt: skip
        if old_plan != plan:
            write_files({path: json.dumps(plan).encode()}, force=True)

    def _lock(self) -> None:
        """Lock the folder, where files can be locked."""
        self.close()
        try:
            self._locked = os.open(os.path.join(self.folder, _LOCK), os.O_RDWR | os.O_CREAT, 0o666)
        except OSError as error:
            what = f"cannot be written: {error.strerror}"
            raise ResourceError(what, source=self.folder) from None
        if not lock(self._locked):
            self.close()
            raise UsageError("is being written by another process", source=self.folder)

    def _make_folder(self) -> bool:
        """Make the folder; returns whether it is there and not empty."""
        try:
            os.mkdir(self.folder)
        except FileExistsError:  # an empty one: the disk was full before the plan was written
            return not os.path.isdir(self.folder) or bool({*os.listdir(self.folder)} - {_LOCK})
        except FileNotFoundError:
            raise UsageError("no such folder", source=os.path.dirname(self.folder)) from None
        except OSError as error:
            raise ResourceError(f"cannot be made: {error.strerror}", source=self.folder) from None
        return False

    def _has_parts(self) -> bool:
        return any(_TALLY.fullmatch(name) for name in os.listdir(self.folder))

    def remove(self) -> None:
        """Remove the folder, if a job made it."""
        if os.path.isfile(os.path.join(self.folder, _PLAN)):
            shutil.rmtree(self.folder)

    def clear(self) -> None:
        """Remove unfinished files."""
        for name in os.listdir(self.folder):
            if name.endswith(".part"):
                with suppress(OSError):  # the next writer removes it
                    os.unlink(os.path.join(self.folder, name))

    def write(
        self, number: int, files: Mapping[str, Iterable[Buffer]], tally: Callable[[], Tally]
    ) -> None:
        """Write a part; ``tally`` is called once the files are written."""

        def tally_json() -> Iterator[bytes]:
            counts = tally()
            yield json.dumps({name: getattr(counts, name) for name in fields(counts)}).encode()

        part_files = {self._path(number, name): content for name, content in files.items()}
        write_files({**part_files, self._path(number, "json"): tally_json()}, force=True)

    def tally(self, number: int) -> Tally | None:
        """Return the tally of a unit; None if its part is not complete."""
        path = self._path(number, "json")
        if not os.path.exists(path):
            return None
        counts = _read_json(path)
        if {*counts} != {*fields(Tally)} or not all(type(n) is int for n in counts.values()):
            raise FormatError("is damaged", source=path, hint="--restart starts over")
        return Tally(**counts)

    def content(self, number: int, name: str) -> Buffer:
        """Return a file of a part, mapped."""
        path = self._path(number, name)
        return map_file(path) if os.path.getsize(path) else b""

    def _path(self, number: int, name: str) -> str:
        return os.path.join(self.folder, f"{number:06}.{name}")


def _read_json(path: str) -> dict[str, Any]:
    try:
        with open(path, "rb") as file:
            document = json.load(file)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FormatError("is damaged", source=path, hint="--restart starts over")
    return document


def _describe_job(job: Job, units: Sequence[Unit]) -> dict[str, Any]:
    """Return a job as JSON reads it back; with a changed file it is a different job."""
    tokenizer = os.stat(job.tokenizer)
    options = {name: getattr(job, name) for name in fields(job) if name != "reading"}
    return {
        "schema": "mtkit.corpus/1",
        **options,
        "overrides": dict(job.overrides or {}),
        "reading": _record_values(job.reading),
        "tokenizer_file": [tokenizer.st_size, tokenizer.st_mtime_ns],
        "units": [_record_values(unit) for unit in units],
    }


def _record_values(record: Any) -> list[Any]:
    return [getattr(record, name) for name in fields(record)]
