"""What is measured, each time in a process of its own that has loaded the file and seen no text.

Times are CPU time of the process, so that a library which spreads over threads pays for them; with
several threads it is the clock. All figures are costs: less is better.
"""

from __future__ import annotations

import time

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from benchmarks.peers.libraries import Library

    Costs = dict[str, float]

LOADS = 5
SHORT_ROUNDS = 100
LONG_BYTES, LONG_ROUNDS = 5000, 20
DECODE_ROUNDS = 1000
DECODED = 21
"""How many tokens are decoded one by one; these and the rounds above are the article's."""
DOCUMENT_BYTES = 4096
PLACES_BYTES = 1 << 18
HARD_BYTES = 1 << 16
SHORT = (
    "The quick brown fox jumps over the lazy dog while 3 cats watch it.",
    "def add(a, b):\n    return a + b  # sum of both\n",
    "\u4eca\u5929\u5929\u6c14\u5f88\u597d\uff0c\u6211\u4eec\u53bb\u516c\u56ed\u6563\u6b65\u3002",
    '{"id": 42, "name": "tokenizer", "ok": true}',
)
SENTENCE = (
    "Tokenizers turn text into a sequence of integers, and back again, quickly and without any "
    "loss of data."
)
HARD = {
    "letters": "a", "spaces": " ", "digits": "7", "newlines": "\n", "dots": ".", "pairs": "ab",
    "accents": "e\u0301", "marks": "\u0301", "han": "\u7684", "mixed": "xk3_",
}  # fmt: skip
"""Name -> what is repeated."""


class Job(Record):
    """What a scenario is given.

    Attributes:
        library: Who is measured.
        loaded: What it made of the file.
        path: The file.
        text: The text; "" where none is needed.
    """

    library: Library
    loaded: Any
    path: str
    text: str

    def ids(self, text: str) -> Any:
        """Encode."""
        return self.library.ids(self.loaded, text)


class Scenario(Record):
    """One measurement.

    Attributes:
        run: Returns costs by the name of the part.
        unit: Of a cost.
        about: Whether it takes each "text", each "hard" one, or none ("file").
        needs: Method that a library must have.
    """

    run: Callable[[Job], Costs]
    unit: str = "ns/byte"
    about: str = "text"
    needs: str = "ids"


def hard_text(name: str) -> str:
    """Return a text of one thing repeated."""
    unit = HARD[name]
    return unit * (HARD_BYTES // len(unit.encode()))


def documents(text: str) -> list[str]:
    """Cut a text between lines into parts of about 4 KB."""
    found, begun, size = [], [], 0
    for line in text.splitlines(keepends=True):
        begun.append(line)
        size += len(line.encode())
        if size >= DOCUMENT_BYTES:
            found.append("".join(begun))
            begun, size = [], 0
    return [*found, "".join(begun)] if begun else found


def _timed(run: Callable[[], object]) -> float:
    """Return nanoseconds of CPU time; what was made is freed outside."""
    start = time.process_time_ns()
    kept = run()
    seconds = time.process_time_ns() - start
    del kept
    return float(seconds)


def _twice(job: Job, run: Callable[[], object]) -> Costs:
    """Encode a text that is new to the process, and the same again: nanoseconds a byte."""
    import gc

    gc.disable()
    size = len(job.text.encode())
    return {name: _timed(run) / size for name in ("fresh", "again")}


def _each(job: Job, texts: list[str]) -> Callable[[], object]:
    def run() -> None:
        ids, loaded = job.library.ids, job.loaded
        for text in texts:
            ids(loaded, text)

    return run


def _load(job: Job) -> Costs:
    def run() -> None:
        for _ in range(LOADS):
            job.library.ids(job.library.load(job.path), "Hello")

    return {"": _timed(run) / LOADS / 1e6}


def _short(job: Job) -> Costs:
    run = _each(job, list(SHORT))
    run()
    return {"": _timed(lambda: [run() for _ in range(SHORT_ROUNDS)]) / SHORT_ROUNDS / 1e3}


def _long(job: Job) -> Costs:
    run = _each(job, [job.text.encode()[:LONG_BYTES].decode(errors="ignore")])
    run()
    return {"": _timed(lambda: [run() for _ in range(LONG_ROUNDS)]) / LONG_ROUNDS / 1e3}


def _decode(job: Job) -> Costs:
    decode = job.library.decode
    assert decode is not None
    ids = job.library.listed(job.loaded, SENTENCE)[:DECODED]
    single = [[int(number)] for number in ids]

    def run() -> None:
        for _ in range(DECODE_ROUNDS):
            for one in single:
                decode(job.loaded, one)

    decode(job.loaded, ids)
    return {"": _timed(run) / DECODE_ROUNDS / len(single) / 1e3}


def _decode_whole(job: Job) -> Costs:
    decode = job.library.decode
    assert decode is not None
    ids = job.library.listed(job.loaded, job.text)
    return _twice(job, lambda: decode(job.loaded, ids))


def _batch(job: Job) -> Costs:
    """Encode all lines in one call; what the first call imports is not measured."""
    lines = job.text.splitlines(keepends=True)
    job.library.batch(job.loaded, ["Hello"], 1)
    return _twice(job, lambda: job.library.batch(job.loaded, lines, 1))


def _offsets(job: Job) -> Costs:
    offsets = job.library.offsets
    assert offsets is not None
    offsets(job.loaded, "Hello")  # so that the import of numpy is not measured
    text = job.text.encode()[:PLACES_BYTES].decode(errors="ignore")
    return _twice(Job(job.library, job.loaded, job.path, text), lambda: offsets(job.loaded, text))


def _threads(job: Job, count: int) -> Costs:
    """Encode documents that were seen before with so many threads: the clock."""
    import os

    is_many = "true" if count > 1 else "false"
    os.environ |= {"RAYON_NUM_THREADS": str(count), "TOKENIZERS_PARALLELISM": is_many}
    texts = documents(job.text)
    job.library.batch(job.loaded, texts, count)
    start = time.perf_counter_ns()
    job.library.batch(job.loaded, texts, count)
    return {"": (time.perf_counter_ns() - start) / len(job.text.encode())}


def peak_bytes() -> int:
    """Return the most memory that this process had.

    What ``getrusage`` says begins with the peak of the process that started this one.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            return next(int(line.split()[1]) << 10 for line in file if line.startswith("VmHWM"))
    except OSError:
        import resource

        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # bytes on macOS


def _forget_peak() -> None:
    """Let the most memory be what is in use now, where the system can: loading had more."""
    from ctypes import CDLL

    trim = getattr(CDLL(None), "malloc_trim", None)  # of glibc: what was freed goes back
    if trim is not None:
        trim(0)
    try:
        with open("/proc/self/clear_refs", "w", encoding="ascii") as file:
            file.write("5")  # as proc(5) has it
    except OSError:
        pass


def _memory(job: Job) -> Costs:
    """Return the bytes beyond the loaded tokenizer that a byte of text costs at most."""
    _forget_peak()
    before = peak_bytes()
    job.ids(job.text)
    return {"": (peak_bytes() - before) / len(job.text.encode())}


QUICK = ("load", "short", "decode", "5 KB", "whole", "documents", "lines")
"""Scenarios of a short run."""
SCENARIOS = {
    "load": Scenario(_load, "ms", "file"),
    "short": Scenario(_short, "µs", "file"),
    "decode": Scenario(_decode, "µs", "file", "decode"),
    "5 KB": Scenario(_long, "µs"),
    "whole": Scenario(lambda job: _twice(job, lambda: job.ids(job.text))),
    "list": Scenario(lambda job: _twice(job, lambda: job.library.listed(job.loaded, job.text))),
    "documents": Scenario(lambda job: _twice(job, _each(job, documents(job.text)))),
    "lines": Scenario(lambda job: _twice(job, _each(job, job.text.splitlines(keepends=True)))),
    "batch": Scenario(_batch),
    "offsets": Scenario(_offsets, needs="offsets"),
    "decode all": Scenario(_decode_whole, needs="decode"),
    "1 thread": Scenario(lambda job: _threads(job, 1)),
    "2 threads": Scenario(lambda job: _threads(job, 2)),
    "memory": Scenario(_memory, "bytes/byte"),
    "hard": Scenario(lambda job: _twice(job, lambda: job.ids(job.text)), about="hard"),
}
"""Name -> scenario, in the order of a round."""
