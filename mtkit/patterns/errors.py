"""The one error of compiling a split pattern."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.errors import UnsupportedError


def refuse(what: str) -> UnsupportedError:
    """Make the error for a construct that cannot be run exactly."""
    return UnsupportedError(f"{printable(what)} cannot be run exactly", field="split pattern")
