"""What Windows needs before a command writes: escape sequences on a console, UTF-8 in a pipe."""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_OUTPUT, _ERRORS = -11, -12
"""Handles of GetStdHandle."""
_ESCAPES = 4
"""ENABLE_VIRTUAL_TERMINAL_PROCESSING of SetConsoleMode, Windows 10 and later."""


def prepare(kernel: Any) -> None:
    """Let a console read escape sequences, and what is no console get UTF-8.

    Args:
        kernel: ``ctypes.windll.kernel32``.
    """
    from ctypes import byref, c_uint32, c_void_p

    kernel.GetStdHandle.restype = c_void_p
    for number, stream in ((_OUTPUT, sys.stdout), (_ERRORS, sys.stderr)):
        handle, mode = c_void_p(kernel.GetStdHandle(number)), c_uint32()
        if kernel.GetConsoleMode(handle, byref(mode)):
            kernel.SetConsoleMode(handle, mode.value | _ESCAPES)
        else:
            stream.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
