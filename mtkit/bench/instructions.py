"""Instructions a byte of text, counted by valgrind: a figure free of the machine's mood.

A process of its own encodes the text not at all, once and three times; the differences are a text
that is new to it ("fresh") and one that it has seen ("again").
"""

from __future__ import annotations

import re
import shutil
import subprocess

from mtkit.bench.process import command, environment
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

_COUNTER = ("valgrind", "--tool=cachegrind", "--cache-sim=no", "--cachegrind-out-file=/dev/null")


def require() -> None:
    """Find valgrind before anything is measured.

    Raises:
        UnsupportedError: It is not installed.
    """
    if shutil.which(_COUNTER[0]) is None:
        raise UnsupportedError(
            "valgrind is not installed", field="--instructions",
            hint="Debian: apt-get install valgrind",
        )  # fmt: skip


def instructions(name: str, module: str, path: str, text_path: str, size: int) -> Sequence[float]:
    """Return instructions a byte of a text that is new and of one that was seen.

    Raises:
        UnsupportedError: The library does not run under valgrind.
    """
    none, once, thrice = (_count(name, module, path, text_path, passes) for passes in (0, 1, 3))
    return (once - none) / size, (thrice - once) / 2 / size


def _count(name: str, module: str, path: str, text_path: str, passes: int) -> int:
    arguments = (name, module, path, text_path, str(passes))
    done = subprocess.run(  # noqa: S603  this interpreter
        [*_COUNTER, *command("count", *arguments)],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode or not found:
        last = (done.stderr.strip().splitlines() or ["ended without a word"])[-1]
        raise UnsupportedError(f"does not run under valgrind: {last}", source=name)
    return int(found[1].replace(",", ""))
