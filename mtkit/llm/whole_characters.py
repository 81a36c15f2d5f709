"""From generated tokens to text: whole characters, and an end where a stop string begins."""

from __future__ import annotations

from codecs import getincrementaldecoder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class TextStream:
    """Takes the bytes of tokens, gives text that cannot change any more.

    The bytes of a character that is not complete wait for the next token, text that may be the
    beginning of a stop string for what follows it. Only the end of the text is searched, so a
    token costs the same however long the text is.

    Attributes:
        stopped: The stop string that was found; None before.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped: str | None = None

    def push(self, piece: bytes) -> str:
        """Take a token and return the text that is settled now, often none."""
        text = self._utf8.decode(piece)
        return self._settle(text) if self._stops else text

    def finish(self) -> str:
        """End the text and return what was held back."""
        if self.stopped is not None:
            return ""
        text = self._utf8.decode(b"", True)
        if self._stops:
            text = self._settle(text)
            if self.stopped is None:
                text, self._held = text + self._held, ""
        return text

    def _settle(self, new: str) -> str:
        if self.stopped is not None:
            return ""
        text = self._held + new
        found = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if found:
            at, self.stopped = min(found)
            self._held = ""
            return text[:at]
        cut = len(text) - max(_overlap(text, stop) for stop in self._stops)
        self._held = text[cut:]
        return text[:cut]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of a text that a stop string begins with."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0
