"""The text of an answer, whose stop strings count behind its reasoning alone.

A client asks for the end of what it shows, and a reasoning may mention the same words: an answer
that ended there would be empty.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.llm.runner import TextStream

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence


class ReasoningSigns(Record):
    """What opens and closes the reasoning of an answer.

    Attributes:
        is_open: The prompt has opened it.
    """

    is_open: bool
    opening: str
    closings: tuple[str, ...]


CHANNEL_SIGNS = ReasoningSigns(False, "<|channel|>analysis<|message|>", ("<|end|>",))
"""Of gpt-oss, whose prompt opens no channel."""
_BEFORE, _INSIDE, _BEHIND = range(3)
_MOST_SIGN = 200
"""Characters in which a sign is looked for; none has as many."""


class AnswerText(TextStream):
    """Turns the bytes of tokens into text, as ``TextStream``."""

    def __init__(self, stops: Sequence[str], signs: ReasoningSigns | None) -> None:
        """Begin an answer; without ``signs`` all of it is searched."""
        super().__init__(stops)
        self._signs, self._phase, self._begin = signs, _BEHIND, ""
        if signs is not None and self._stops:
            self._phase = _INSIDE if signs.is_open else _BEFORE

    def push(self, piece: bytes) -> str:
        """Take a token and return the text that is settled now, often none."""
        if self._phase == _BEHIND:
            return super().push(piece)
        return self._follow(self._utf8.decode(piece))

    def _follow(self, text: str) -> str:
        signs = self._signs
        assert signs is not None
        self._begin += text
        if self._phase == _BEFORE:
            start = self._begin.lstrip()
            if start.startswith(signs.opening) and signs.opening:
                self._phase, text = _INSIDE, self._begin
            elif signs.opening.startswith(start):
                return ""  # it may still begin
            else:
                self._phase = _BEHIND
                return self._settle(self._begin)
        ends = [
            at + len(closing)
            for closing in signs.closings
            if (at := self._begin.find(closing)) >= 0
        ]
        if not ends:
            self._begin = self._begin[-_MOST_SIGN:]
            return text
        self._phase, behind = _BEHIND, self._begin[min(ends) :]
        return text[: len(text) - len(behind)] + self._settle(behind)

    def finish(self) -> str:
        """End the text and return what was held back."""
        if self._phase == _BEFORE:
            self._phase, self._held = _BEHIND, self._begin
        return super().finish()
