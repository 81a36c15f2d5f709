"""How far something is that takes long: one line on a terminal, gone at the end."""

from __future__ import annotations

import sys
import time
from shutil import get_terminal_size

_SHOW_AFTER_SECONDS = 0.5
_BAR = 24
_AROUND = 10
"""Characters around the bar and its name; one is left free at the end."""


class Progress:
    """One line on a terminal for what takes longer than half a second.

    Args:
        what: What takes long.
        after: Seconds until it is shown; 0 where even the first part of it takes long.
    """

    def __init__(self, what: str, after: float = _SHOW_AFTER_SECONDS) -> None:
        self._what, self._after = what, after
        self._start = 0.0
        self._is_shown = False
        self._wanted = sys.stderr.isatty()

    def show(self, part: float, note: str = "") -> None:
        """Show how much is done, 0 to 1, and a note; the clock starts with the first call."""
        now = time.perf_counter()
        self._start = self._start or now
        if part >= 1:
            self._end()
            return
        if not self._wanted or now - self._start < self._after:
            return
        columns = get_terminal_size().columns - len(self._what) - _AROUND
        note = f"  {note}" if note and len(note) + 2 < columns else ""
        room = min(_BAR, columns - len(note))
        done = round(part * room)
        bar = f" [{'#' * done}{'.' * (room - done)}]" if room > 0 else ""
        sys.stderr.write(f"\r{self._what}{bar} {part:4.0%}{note}\x1b[K")
        sys.stderr.flush()
        self._is_shown = True

    def _end(self) -> None:
        if self._is_shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
            self._is_shown = False
