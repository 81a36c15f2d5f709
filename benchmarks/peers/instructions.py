"""Instructions a byte of text, counted by valgrind: a figure free of the machine's mood.

A process of its own encodes the text not at all, once and several times; the differences are a text
that is new to it ("fresh") and one that it has seen ("again"). What loading takes varies by some
million: the more often, the less of it is in the difference.
"""

from __future__ import annotations

import re
import shutil
import subprocess

from benchmarks.peers.process import command, environment
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

SHAPES = ("whole", "documents")
SLOW = 1000
"""Instructions a byte: what takes more is counted FEW times more, else MANY."""
FEW, MANY = 2, 10
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


def instructions(
    name: str, module: str, path: str, text_path: str, size: int
) -> Iterator[tuple[str, float]]:
    """Yield instructions a byte by what is encoded: "whole fresh", "documents again" ….

    Raises:
        UnsupportedError: The library does not run under valgrind.
    """

    def count(shape: str, passes: int) -> int:
        return _count(name, module, path, text_path, shape, str(passes))

    none = count(SHAPES[0], 0)
    for shape in SHAPES:
        once = count(shape, 1)
        fresh = (once - none) / size
        more = FEW if fresh > SLOW else MANY
        yield f"{shape} fresh", fresh
        yield f"{shape} again", (count(shape, 1 + more) - once) / more / size


def _count(*arguments: str) -> int:
    done = subprocess.run(
        [*_COUNTER, *command("count", *arguments)],
        check=False,
        capture_output=True,
        text=True,
        env=environment(),
    )
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    if done.returncode or not found:
        last = (done.stderr.strip().splitlines() or ["ended without a word"])[-1]
        raise UnsupportedError(f"does not run under valgrind: {last}", source=arguments[0])
    return int(found[1].replace(",", ""))
