"""Split patterns: parsed, compiled to an automaton, matched; the errors of compiling one."""

from __future__ import annotations

from mtkit.base.escape import printable
from mtkit.errors import UnsupportedError


def refuse(what: str) -> UnsupportedError:
    """Make the error for a construct that cannot be run exactly."""
    return UnsupportedError(f"{printable(what)} is not supported", field="split pattern")


def malformed(what: str) -> UnsupportedError:
    """Make the error for what is no pattern at all."""
    return UnsupportedError(f"is not a valid pattern: {printable(what)}", field="split pattern")
