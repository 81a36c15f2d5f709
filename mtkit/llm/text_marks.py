"""Marks in the texts of a conversation, so that none of them makes a control token.

A mark is drawn anew for each conversation and occurs nowhere in it. It goes into each spelling of
a control token before its last character, where a template that sorts names hardly sees it. What
begins or ends like a part of a spelling gets one there, too: a template that writes ``<parameter=``
and ``>`` around a name, or nothing between two texts, would complete it.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

_WORDS = frozenset((
    "system", "user", "assistant", "tool", "developer", "text", "function", "object", "string",
    "number", "integer", "boolean", "array", "null", "role", "content", "type", "name",
    "tool_calls", "tool_call_id", "id", "arguments", "parameters", "properties", "required",
    "description", "enum", "items", "reasoning_content", "reasoning", "thinking",
))  # fmt: skip
"""What the protocol says, and templates look at: the same in each conversation."""

_SIGNS = ("!01234", "#56789")
"""What a mark begins with, which sorts before all that names have, and its digits: nothing of it
changes in JSON, as Python shows it, or in another case."""
_DIGITS = 20


class TextMarks:
    """Marks the texts of one conversation."""

    def __init__(self, controls: Iterable[str], used: str, *, other: bool = False) -> None:
        """Draw a mark.

        Args:
            controls: The spellings of control tokens.
            used: All texts that it may not occur in.
            other: A mark that shares no character with those that are drawn otherwise.
        """
        self._controls = sorted(controls, key=len, reverse=True)
        self._heads = tuple({one[n:] for one in self._controls for n in range(1, len(one))})
        self._tails = tuple({one[:n] for one in self._controls for n in range(1, len(one))})
        self.mark = _drawn(used, _SIGNS[other])

    def given(self, value: Any) -> Any:
        """Return a JSON value with marks in its texts and names."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, dict):
            return {self.given(name): self.given(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.given(part) for part in value]
        return value

    def removed(self, text: str) -> str:
        """Return a text without marks."""
        return text.replace(self.mark, "")

    def _text(self, text: str) -> str:
        for one in self._controls:
            while len(one) > 1 and one in text:
                text = text.replace(one, one[:-1] + self.mark + one[-1])
        core = text.strip()
        if not core or core in _WORDS:
            return text
        if core.endswith(self._tails) or any(core in one for one in self._controls):
            end = len(text.rstrip())
            text = text[:end] + self.mark + text[end:]
        if core.startswith(self._heads):
            start = len(text) - len(text.lstrip())
            text = text[:start] + self.mark + text[start:]
        return text


def strings(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield str(name)
            yield from strings(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from strings(part)


def _drawn(used: str, signs: str) -> str:
    import os

    mark = ""
    while not mark or mark in used:
        mark = signs[0] + "".join(signs[1 + byte % 5] for byte in os.urandom(_DIGITS))
    return mark
