"""A process of ours: the command line of a new one, its cache, what it frees, how far its work is.

``command_line`` is that of a process with this one's interpreter and modules. ``cache_folder`` is
where mtkit keeps what it can make again. A ``Closeable`` has to be freed: ``close`` does it, and so
does the end of a ``with``. ``ProgressCount`` adds numbers up that come one by one, for whoever is
told how far the work is.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypeVar

    C = TypeVar("C", bound="Closeable")


def command_line(module: str, arguments: tuple[str, ...]) -> list[str]:
    """Return the command line of a new process that runs ``main`` of a module."""
    isolated = ["-I"] * sys.flags.isolated
    paths = [path for path in sys.path if isinstance(path, str)]
    end = len(arguments) + 1
    script = (
        f"import sys; sys.path[:] = sys.argv[{end}:]; "
        f"from {module} import main; main(*sys.argv[1:{end}])"
    )
    return [sys.executable, *isolated, "-c", script, *arguments, *paths]


def cache_folder(name: str) -> str:
    """Return the path of a folder of the user's cache; it may not exist yet."""
    base = os.environ.get("XDG_CACHE_HOME")
    if not base and sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
    return os.path.join(base or os.path.join(os.path.expanduser("~"), ".cache"), "mtkit", name)


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
    """What is done so far.

    Attributes:
        total: All that there is to do; it may be known later than who is told.
    """

    def __init__(self, told: Callable[[int, int], object] | None, total: int = 0) -> None:
        self.total, self.done = total, 0
        self._told = told

    def __call__(self, more: int) -> None:
        """Add a number, and tell how much of how much is done."""
        self.done += more
        if self._told is not None:
            self._told(self.done, self.total)
