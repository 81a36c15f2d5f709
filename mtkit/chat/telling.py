"""The parts of an answer, as a reader tells them."""

from __future__ import annotations

from mtkit.chat.answer_parts import CallText, Thought

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.chat.answer_parts import CallStart, Part


class Telling:
    """What was told and not yet taken.

    Attributes:
        parts: The parts.
        is_open: They end in a text.
        called: How many calls have begun.
    """

    def __init__(self, *, several: bool) -> None:
        """Begin; without ``several`` the calls beyond the first are left out."""
        self._several = several
        self.parts: list[Part] = []
        self._blank, self.is_open = "", False
        self.called = 0

    def say(self, text: str) -> None:
        """Tell text; white space alone waits for more."""
        if not text:
            return
        if not self.is_open and text.isspace():
            self._blank += text
            return
        self.parts.append(self._blank + text)
        self._blank, self.is_open = "", True

    def start_call(self, part: CallStart, text: str) -> int:
        """Tell that a call begins, and the text before it; return its place among the parts."""
        if text.strip() or self.is_open:
            self.say(text)
        self._blank, self.is_open = "", False
        self.called += 1
        place = len(self.parts)
        self.tell(part)
        return place

    def tell(self, part: Part) -> None:
        """Tell a reasoning, or a part of a call."""
        if isinstance(part, Thought) or self._several or self.called <= 1:
            self.parts.append(part)

    def end(self) -> None:
        """Tell white space that was all there was."""
        if self._blank and not self.called:
            self.parts.append(self._blank)

    def taken(self) -> list[Part]:
        """Return what was told, and forget it."""
        told, self.parts = self.parts, []
        return joined(told)


def joined(parts: list[Part]) -> list[Part]:
    """Return parts of which no two of the same kind follow each other."""
    made: list[Part] = []
    for part in parts:
        last = made[-1] if made else None
        if isinstance(part, str) and isinstance(last, str):
            made[-1] = last + part
        elif isinstance(part, Thought) and isinstance(last, Thought):
            made[-1] = Thought(last.text + part.text)
        elif isinstance(part, CallText) and isinstance(last, CallText):
            made[-1] = CallText(last.text + part.text)
        elif part != "":
            made.append(part)
    return made


def schemas_of(tools: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Return the schemas of the arguments of each tool."""
    found = {}
    for tool in tools:
        function = tool.get("function", tool)
        if isinstance(function, dict) and isinstance(function.get("name"), str):
            given = function.get("parameters", function.get("input_schema"))
            found[function["name"]] = given if isinstance(given, dict) else {"type": "object"}
    return found
