"""Where what fills a gap in a program ends: after a time, or before a line that is indented less.

Source: llama.cpp, tools/server/server-context.cpp (``process_token``: n_indent, t_max_predict_ms).
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.serve.job import Terms

_BLANKS = " \t"


class Lines:
    """Follows the lines of an answer.

    Attributes:
        has_cut: Text of the answer was left out; what is still held back goes with it.
    """

    def __init__(self, seconds: float | None, indent: int) -> None:
        self._seconds, self._indent = seconds, indent
        self._line: str | None = None
        self.has_cut = False

    @classmethod
    def of(cls, terms: Terms) -> Lines | None:
        """Return what follows an answer; None where nothing is asked for."""
        if terms.seconds is None and not terms.indent:
            return None
        return cls(terms.seconds, terms.indent)

    def push(self, text: str, seconds: float) -> tuple[str, bool]:
        """Take further text; returns what is kept of it, and whether the answer ends.

        Args:
            text: The text.
            seconds: Since the first token.
        """
        kept = 0
        for place, part in enumerate(text.split("\n")):
            if place:
                self._line, kept = "", kept + 1
            if self._line is not None:
                self._line += part
                said = self._line.lstrip(_BLANKS)
                if said and len(self._line) - len(said) < self._indent:
                    self.has_cut = True
                    return text[: kept + max(len(part) - len(said), 0)], True
            kept += len(part)
        is_late = self._seconds is not None and seconds > self._seconds
        return text, is_late and self._line is not None
