"""The command line of a process of our own: this interpreter, with this one's modules."""

from __future__ import annotations

import sys


def command(module: str, arguments: tuple[str, ...]) -> list[str]:
    """Return the command line of a new process that runs ``main`` of a module."""
    isolated = ["-I"] * sys.flags.isolated
    paths = [path for path in sys.path if isinstance(path, str)]
    end = len(arguments) + 1
    script = (
        f"import sys; sys.path[:] = sys.argv[{end}:]; "
        f"from {module} import main; main(*sys.argv[1:{end}])"
    )
    return [sys.executable, *isolated, "-c", script, *arguments, *paths]
