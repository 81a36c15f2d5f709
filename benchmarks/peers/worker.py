"""The process of one library, seen from inside: one JSON request a line, one answer a line.

Every measurement runs in a forked child, which loads the file itself: it has an empty cache, all of
its memory is its own, and it leaves nothing behind for the next one.
"""

from __future__ import annotations

import json
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from benchmarks.peers.libraries import Library

LIMIT_SECONDS = 120.0
"""For one measurement, loading included."""


class Worker:
    """Answers requests about one library and one file."""

    def __init__(self, library: Library, path: str) -> None:
        self.library = library
        self.path = path
        self.texts: dict[str, str] = {}

    def load(self) -> dict[str, Any]:
        """Load the file; say what that takes."""
        self.library.prepare()
        return self._child(self._first_load)

    def _first_load(self) -> dict[str, Any]:
        from importlib import import_module, metadata

        from benchmarks.peers.libraries import module_of
        from benchmarks.peers.scenarios import peak_bytes

        before = peak_bytes()
        self._open()
        memory = peak_bytes() - before
        try:
            version = metadata.version(self.library.name)
        except metadata.PackageNotFoundError:
            module = import_module(module_of(self.library))
            version = str(getattr(module, "__version__", ""))
        return {"version": version, "memory": memory}

    def _open(self) -> Any:
        """Return the loaded file, used once so that what is made lazily is there."""
        loaded = self.library.load(self.path)
        ids = self.library.listed(loaded, "Hello")
        if self.library.decode is not None:
            self.library.decode(loaded, ids)
        return loaded

    def take(self, texts: dict[str, str]) -> dict[str, Any]:
        """Keep texts by name."""
        self.texts |= texts
        return {}

    def digests(self, names: list[str]) -> dict[str, Any]:
        """Return what the ids of texts hash to, of a text and of its lines."""
        from hashlib import sha256

        def run() -> dict[str, Any]:
            loaded = self._open()
            found = ((name, repr(self._all_ids(loaded, name))) for name in names)
            return {name: sha256(ids.encode()).hexdigest() for name, ids in found}

        return self._child(run)

    def ids(self, name: str) -> dict[str, Any]:
        """Return the ids of a text and of its lines."""
        return self._child(lambda: {"ids": self._all_ids(self._open(), name)})

    def measure(self, scenario: str, text: str, path: str) -> dict[str, Any]:
        """Return the costs of a scenario, and the seconds that it took."""
        from benchmarks.peers.scenarios import SCENARIOS, Job

        def run() -> dict[str, Any]:
            job = Job(self.library, self._open(), path or self.path, self.texts.get(text, ""))
            start = time.monotonic()
            costs = SCENARIOS[scenario].run(job)
            return {"costs": costs, "seconds": time.monotonic() - start}

        return self._child(run)

    def _all_ids(self, loaded: Any, name: str) -> list[int]:
        text = self.texts[name]
        parts = [text, *text.splitlines(keepends=True)]
        return [int(number) for part in parts for number in self.library.listed(loaded, part)]

    def _child(self, run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        from select import select
        from signal import SIGKILL

        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            os.close(reading)
            with os.fdopen(writing, "w", encoding="utf-8") as file:
                json.dump(_answer(run), file)
            os._exit(0)
        os.close(writing)
        parts, end = [], time.monotonic() + LIMIT_SECONDS
        with os.fdopen(reading, "rb", buffering=0) as pipe:
            while True:
                if not select([pipe], [], [], max(end - time.monotonic(), 0))[0]:
                    os.kill(child, SIGKILL)
                    error = f"took longer than {LIMIT_SECONDS:g} s"
                    parts = [json.dumps({"error": error}).encode()]
                    break
                part = pipe.read(1 << 16)
                if not part:
                    break
                parts.append(part)
        _, status = os.waitpid(child, 0)
        if not parts:
            code = os.waitstatus_to_exitcode(status)
            return {
                "error": f"ended by signal {-code}" if code < 0 else f"ended with status {code}"
            }
        found: dict[str, Any] = json.loads(b"".join(parts))
        return found


def _answer(run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Run something; an error of any kind is an answer, too."""
    try:
        return run()
    except BaseException as error:  # noqa: BLE001  Rust's panics are no Exception
        return {"error": f"{type(error).__name__}: {error}"[:300]}


def serve() -> None:
    """Answer on what was stdout, which libraries may not write to."""
    name, module, path = sys.argv[1:4]
    from benchmarks.peers.libraries import named

    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    worker = Worker(named(name, module), path)
    for line in sys.stdin:
        request = json.loads(line)
        method = getattr(worker, request.pop("ask"))
        answers.write(json.dumps(_answer(lambda: method(**request))) + "\n")  # noqa: B023  runs now
        answers.flush()


def count() -> None:
    """Encode a text so many times, whole or as documents: what valgrind counts."""
    name, module, path, text_path, shape, passes = sys.argv[1:7]
    from benchmarks.peers.libraries import named
    from benchmarks.peers.scenarios import documents

    library = named(name, module)
    loaded = library.load(path)
    with open(text_path, encoding="utf-8", newline="") as file:
        text = file.read()
    shapes = {"whole": [text], "documents": documents(text)}
    library.ids(loaded, "Hello")
    for _ in range(int(passes)):
        for part in shapes[shape]:
            library.ids(loaded, part)
