"""The process of one library, seen from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SINGLE = {
    "RAYON_NUM_THREADS": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "PYTHONHASHSEED": "0",
}
START = (
    "import importlib, sys; sys.path[:] = eval(sys.argv.pop(1)); "
    "name, _, function = sys.argv.pop(1).partition(':'); "
    "getattr(importlib.import_module(name), function)()"
)


def command(function: str, *arguments: str) -> list[str]:
    """Return the command of an interpreter that imports what this one does."""
    path = [os.path.abspath(entry) for entry in sys.path]
    return [
        sys.executable,
        "-c",
        START,
        repr(path),
        f"benchmarks.peers.worker:{function}",
        *arguments,
    ]


def environment() -> dict[str, str]:
    """Return the environment in which libraries are measured: without threads of their own."""
    return {**os.environ, **_SINGLE}


class Process:
    """One library with one file.

    Attributes:
        name: Of the library.
        version: Of the library, once it is loaded.
        memory: Bytes that loading took at most.
    """

    def __init__(self, name: str, module: str, path: str) -> None:
        self.name = name
        self.version = ""
        self.memory = 0
        self._process = subprocess.Popen(
            command("serve", name, module, path),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=environment(),
        )

    def ask(self, what: str, **request: Any) -> dict[str, Any]:
        """Return the answer to a request; ``error`` says what went wrong."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps({"ask": what, **request}).encode() + b"\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = b""
        if not line:
            return {"error": f"its process ended with status {self._process.wait()}"}
        found: dict[str, Any] = json.loads(line)
        return found

    def load(self) -> str:
        """Load the file; returns what went wrong, or nothing."""
        found = self.ask("load")
        self.version, self.memory = found.get("version", ""), found.get("memory", 0)
        error: str = found.get("error", "")
        return error

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()
