"""Breaking lines between words while text comes piece by piece."""

from __future__ import annotations

from rich.cells import cell_len

_FENCE = "```"


class Wrapping:
    """Moves the word that does not fit a line to the next one; code between fences stays.

    The last column stays free: a cursor there is in different places for different terminals.
    """

    def __init__(self, width: int) -> None:
        """Begin at the start of a line.

        Args:
            width: Columns of the terminal.
        """
        self._room = width - 1
        self._line = ""
        self._word = ""
        self._used = 0
        self._is_code = False

    def push(self, text: str) -> str:
        """Return a text with line breaks, and with what takes back a word that was begun."""
        return "".join(map(self._pushed, text))

    def _pushed(self, letter: str) -> str:
        if letter == "\n":
            self._is_code ^= self._line.lstrip().startswith(_FENCE)
            self._line = self._word = ""
            self._used = 0
            return letter
        self._line += letter
        width = cell_len(letter)
        if self._is_code or self._used + width <= self._room:
            self._used += width
            self._word = "" if letter.isspace() or width > 1 else self._word + letter
            return letter
        if letter.isspace():  # the line ends here anyway
            self._word, self._used = "", 0
            return "\n"
        moved = "" if width > 1 else self._word
        back = cell_len(moved)
        if back >= self._room:  # longer than a line
            moved, back = "", 0
        self._word = "" if width > 1 else moved + letter
        self._used = back + width
        return (f"\x1b[{back}D\x1b[K" if back else "") + f"\n{moved}{letter}"
