"""Mutants of small files of every format, used as people use files, until stopped or done.

Each mutant (tests/support/mutants) is read, inspected, listed, encoded, decoded, traced or
converted (tests/support/file_uses.py), in a worker with limits on memory and time; ``--kind`` takes
what the GGUF workbench reads instead (tests/support/workbench). Whatever is not an error of mtkit's
own is printed on one line whose ``--seed`` and ``--only`` make it again, then with its traceback.
Exit status 1 if there was any.

    python -m tools.fuzz_files --cases 100000 --seed 7
    python -m tools.fuzz_files --kind gguf --cases 200000 --seed 7
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import importlib
import mmap
import os
import resource
import signal
import struct
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING

sys.path.append(str(Path(__file__).parents[1] / "tests" / "support"))

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any, BinaryIO

BATCH = 1000
"""Cases of one worker: what caches keep does not add up."""
CPU_SECONDS = 3
WALL_SECONDS = 180
"""For what only another process can stop."""
MEMORY_BYTES = 400_000_000
"""Address space that a worker may take for a case, beyond what it has before the first."""
_PLACE = struct.Struct("<qdq")
"""What a worker says: the case, when it began, how many files were read so far."""


class TookTooLong(BaseException):
    """A case used up its time."""


def main() -> int:
    """Run cases and print; 1 where something was found."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--from", type=int, default=0, dest="first", help="number of the first case"
    )
    parser.add_argument("--only", type=int, help="number of one case, shown with its traceback")
    parser.add_argument(
        "--file", help="name of the file that is changed (see tests/support/mutants)"
    )
    kinds = "gguf, safetensors, folders, manifests, records or answers, not tokenizers"
    parser.add_argument("--kind", help=kinds)
    parser.add_argument("--shared", action="store_true", help="change the shared folder's files")
    asked = parser.parse_args()
    if asked.only is not None:
        asked.first, asked.cases = asked.only, 1
    return Fuzzer(asked).run()


class Fuzzer:
    """Starts workers one after the other and counts what they find."""

    def __init__(self, asked: Any) -> None:
        self.asked = asked
        self.stop = asked.first + asked.cases
        self.place = mmap.mmap(-1, _PLACE.size)
        self.found: Counter[str] = Counter()
        self.read = 0
        self.began = time.monotonic()
        # Once for all workers.
        if asked.kind:
            importlib.import_module("workbench").drawn(asked.kind, 0, 0)
        else:
            importlib.import_module("mutants").wholes(shared=asked.shared)

    def run(self) -> int:
        """Run all cases; 1 where something was found."""
        following = self.asked.first
        while following < self.stop:
            following = self._worker(following, min(following + BATCH, self.stop))
            self._progress(following - self.asked.first)
        sys.stderr.write("\n")
        for what, count in self.found.most_common():
            sys.stdout.write(f"{count:6} {what}\n")
        total = following - self.asked.first
        sys.stdout.write(
            f"{total:6} cases, {self.read} files read, {self.found.total()} findings\n"
        )
        return int(self.found.total() > 0)

    def _worker(self, first: int, stop: int) -> int:
        """Run cases in a process of their own; return the first that is still to do."""
        self.place[:] = _PLACE.pack(first, time.monotonic(), 0)
        with tempfile.TemporaryFile() as findings, tempfile.TemporaryFile() as crash:
            sys.stdout.flush()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", DeprecationWarning)  # of threads that tests left
                child = os.fork()
            if child == 0:
                code = 1
                try:
                    Worker(self.asked, self.place, findings, crash).run(first, stop)
                    code = 0
                finally:
                    os._exit(code)
            ended = self._wait(child)
            findings.seek(0)
            for line in findings.read().decode().splitlines():
                what, _, shown = line.partition("\t")
                self._report(what, shown)
            case, _, read = _PLACE.unpack(self.place[:])
            self.read += read
            if not ended:
                return stop
            crash.seek(0)
            what = f"{ended} {_frames(crash.read().decode('utf-8', 'replace'))}".strip()
            self._report(what, f"--seed {self.asked.seed} --only {case}: {what}")
            return int(case) + 1

    def _wait(self, child: int) -> str:
        """Wait for a worker and return how it ended, nothing if well; one that hangs is ended."""
        while True:
            done, status = os.waitpid(child, os.WNOHANG)
            if done:
                code = os.waitstatus_to_exitcode(status)
                return f"process ended with {code}" if code else ""
            _, began, _ = _PLACE.unpack(self.place[:])
            if time.monotonic() - began > WALL_SECONDS:
                os.kill(child, signal.SIGABRT)  # the fault handler writes down where it is
                os.waitpid(child, 0)
                return "hang"
            time.sleep(0.02)

    def _report(self, what: str, shown: str) -> None:
        self.found[what] += 1
        sys.stdout.write(shown.replace("\x1f", "\n") + "\n")
        sys.stdout.flush()

    def _progress(self, done: int) -> None:
        seconds = time.monotonic() - self.began
        rate = f"{done / max(seconds, 1e-9):.0f} a second"
        sys.stderr.write(f"\r{done} cases, {rate}, {self.found.total()} findings ")
        sys.stderr.flush()


def _address_space() -> int:
    """Return how many bytes of it this process takes."""
    return int(Path("/proc/self/statm").read_text().split()[0]) * mmap.PAGESIZE


class Worker:
    """Runs cases in this process, with limits."""

    def __init__(self, asked: Any, place: mmap.mmap, findings: BinaryIO, crash: BinaryIO) -> None:
        self.asked = asked
        self.place = place
        self.findings = findings
        self.read = 0
        faulthandler.enable(crash)
        signal.signal(signal.SIGPROF, _too_long)
        sys.setrecursionlimit(1000)
        self.size = _address_space()
        limit = self.size + MEMORY_BYTES
        resource.setrlimit(resource.RLIMIT_AS, (limit, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))

    def run(self, first: int, stop: int) -> None:
        """Run cases from ``first`` to before ``stop``."""
        for number in range(first, stop):
            self.place[:] = _PLACE.pack(number, time.monotonic(), self.read)
            if _address_space() > self.size + MEMORY_BYTES // 4:
                gc.collect()  # errors of cases before keep their mapped files
            name = "not made"
            signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
            try:
                name, use = self._drawn(number)
                self.read += use() == "read"
            except (Exception, TookTooLong) as error:  # noqa: BLE001  that is what is looked for
                self._finding(f"--seed {self.asked.seed} --only {number}: {name}", error)
            finally:
                signal.setitimer(signal.ITIMER_PROF, 0)
        self.place[:] = _PLACE.pack(stop, time.monotonic(), self.read)

    def _drawn(self, number: int) -> tuple[str, Callable[[], str]]:
        """Return what a case is, and what uses it."""
        asked = self.asked
        if asked.kind:
            workbench = importlib.import_module("workbench")
            name, made = workbench.drawn(asked.kind, asked.seed, number)
            return name, lambda: workbench.use(asked.kind, made, number)
        mutants, uses = (importlib.import_module(name) for name in ("mutants", "file_uses"))
        made = mutants.mutant(asked.seed, number, asked.file, shared=asked.shared)
        return made.name, lambda: uses.use(made.source, Random(number))

    def _finding(self, case: str, error: BaseException) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        frames = [
            f"{frame.filename.rpartition('mtkit/')[2]}:{frame.lineno} {frame.name}"
            for frame in traceback.extract_tb(error.__traceback__)
            if "mtkit/" in frame.filename
        ]
        text = str(error).replace("\n", " ")[:80].encode("ascii", "backslashreplace").decode()
        what = f"{type(error).__name__} {frames[-1] if frames else 'outside'}"
        shown = f"{case}: {what}: {text}"
        if self.asked.only is not None:
            shown += "\x1f" + "".join(traceback.format_exception(error)).replace("\n", "\x1f")
        self.findings.write(f"{what}\t{shown}\n".encode("utf-8", "backslashreplace"))
        self.findings.flush()


def _too_long(*_: object) -> None:
    raise TookTooLong


def _frames(text: str) -> str:
    """Return where a process ended, from what the fault handler wrote."""
    places = [line.strip() for line in text.splitlines() if "mtkit/" in line]
    return places[0].rpartition("mtkit/")[2].replace('", line ', ":") if places else ""


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        sys.exit(main())
