"""A process of ours: the command line of a new one, its cache folder, resources, progress."""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    C = TypeVar("C", bound="Closeable")


def command_line(module: str, arguments: tuple[str, ...]) -> list[str]:
    """Return the command line of a new process, with this one's interpreter and modules.

    It runs ``main`` of a module.
    """
    isolated = ["-I"] * sys.flags.isolated
    paths = [path for path in sys.path if isinstance(path, str)]
    end = len(arguments) + 1
    script = (
        f"import sys; sys.path[:] = sys.argv[{end}:]; "
        f"from {module} import main; main(*sys.argv[1:{end}])"
    )
    return [sys.executable, *isolated, "-c", script, *arguments, *paths]


def cache_folder(name: str) -> str:
    """Return the path of a folder for what mtkit can make again; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    if not base and sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    return os.path.join(base or os.path.join(os.path.expanduser("~"), ".cache"), "mtkit", name)


def release_memory() -> None:
    """Give what is free back to the system, which glibc keeps.

    Closed connections and failed requests are cycles, which Python finds late: 3.5 MB of a body
    stay with each of them until then. Takes some 10 ms.
    """
    import ctypes
    import gc
    from contextlib import suppress

    gc.collect()
    with suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).malloc_trim(0)


def return_memory() -> None:
    """Have glibc give large blocks back once they are free, and keep all others in one place.

    It would keep up to 64 MB for each thread: what is at the end of a thread's own part is given
    back by no ``malloc_trim``.
    """
    import ctypes
    from contextlib import suppress

    with suppress(OSError, AttributeError, TypeError):  # another C library
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_ARENA_MAX, 1)
        mallopt(_MMAP_THRESHOLD, 1 << 20)
        mallopt(_TRIM_THRESHOLD, 1 << 20)


_TRIM_THRESHOLD, _MMAP_THRESHOLD, _ARENA_MAX = -1, -3, -8
"""Numbers of malloc.h."""


class Closeable:
    """A resource; close it, or use it in ``with``."""

    def close(self) -> None:
        """Free it; once is enough, twice does no harm."""
        raise NotImplementedError

    def __enter__(self: C) -> C:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class ProgressCount:
    """A sum that is reported each time it grows.

    Attributes:
        total: What it will be; it may become known after the first report.
    """

    def __init__(self, report: Callable[[int, int], object] | None, total: int = 0) -> None:
        self.total, self._count = total, 0
        self._report = report

    def __call__(self, more: int) -> None:
        """Add a number, and report how much of how much is done."""
        self._count += more
        if self._report is not None:
            self._report(self._count, self.total)
