"""What llama.cpp makes of model files, each in a process of its own, forked from one that is ready.

A file that does not fit the loader can end its process; loading llama.cpp anew for each of a
thousand files would take minutes. Run as a program it reads a path a line and answers with a line:
nothing, or why llama.cpp cannot run the model.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

_SHOWN = 300


class Loading:
    """A process that tries model files; use it in ``with``."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Loading:
        self._process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        process = self._process
        assert process is not None
        assert process.stdin is not None
        process.stdin.close()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()

    def refusal(self, path: str | Path) -> str:
        """Return why llama.cpp cannot load a model and compute a token; empty where it can."""
        process = self._process
        assert process is not None
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{path}\n")
        process.stdin.flush()
        line = process.stdout.readline()
        assert line, "the process ended"
        return line.strip()


def _tried(trial: Any, path: str) -> str:
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.dup2(writing, 2)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        code = 1
        try:
            trial._try(path, None, threads=1, weights=True)
            code = 0
        except Exception as error:  # noqa: BLE001  it is the answer
            os.write(2, str(error).encode("utf-8", "replace"))
        finally:
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        said = file.read().decode("utf-8", "replace")
    _, status = os.waitpid(child, 0)
    return f"{status}: {' '.join(said.split())[-_SHOWN:]}" if status else ""


def _main() -> None:
    from mtkit.llama import trial
    from mtkit.llama.shared_library import library

    library()
    for line in sys.stdin:
        sys.stdout.write(_tried(trial, line.rstrip("\n")) + "\n")
        sys.stdout.flush()


if __name__ == "__main__":
    _main()
