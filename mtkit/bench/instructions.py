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
    from collections.abc import Iterator

SHAPES = ("whole", "documents")
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
        once, thrice = count(shape, 1), count(shape, 3)
        yield f"{shape} fresh", (once - none) / size
        yield f"{shape} again", (thrice - once) / 2 / size


def _count(*arguments: str) -> int:
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
        raise UnsupportedError(f"does not run under valgrind: {last}", source=arguments[0])
    return int(found[1].replace(",", ""))
