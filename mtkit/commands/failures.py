"""Errors on stderr: one line each, in color on a terminal."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import NoReturn

    from mtkit.errors import MtkitError


def write_error(error: MtkitError) -> None:
    """Print an error."""
    if sys.stderr.isatty():
        from mtkit.commands.terminal import Screen

        Screen(stderr=True).error(error)
    else:
        from mtkit.base.escape import printable

        sys.stderr.write(f"mtkit: {printable(' '.join(str(error).splitlines()))}\n")


def raise_last_error(errors: Sequence[MtkitError]) -> NoReturn:
    """Print all errors but the last, and raise that: a line for each file."""
    for error in errors[:-1]:
        write_error(error)
    raise errors[-1]
