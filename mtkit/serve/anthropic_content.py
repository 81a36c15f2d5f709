"""The content of an answer of Anthropic's API: its blocks, and the events that tell of them.

Source: the reference of Anthropic's API, and what the ``anthropic`` package reads.
"""

from __future__ import annotations

import msgspec

from mtkit.chat.answer_parts import CallStart, CallText, Thought

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mtkit.chat.answer_parts import Part

_SIGNATURE = "mtkit"
"""Of a reasoning: clients send it back, and nothing here asks for it."""


class Content:
    """The blocks of an answer.

    Attributes:
        blocks: As far as they are known.
    """

    def __init__(self, *, shows_thoughts: bool = True) -> None:
        self._shows_thoughts = shows_thoughts
        self.blocks: list[dict[str, Any]] = []
        self._open, self._text = "", list[str]()

    def add(self, part: Part) -> Iterator[dict[str, Any]]:
        """Take a part of the answer; yields the events that tell of it."""
        if isinstance(part, CallStart):
            yield from self.close()
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
            yield from self._begin(block)
            return
        if isinstance(part, CallText):
            delta = {"type": "input_json_delta", "partial_json": part.text}
        elif isinstance(part, Thought):
            if not self._shows_thoughts:
                return
            if self._open != "thinking":
                yield from self.close()
                yield from self._begin({"type": "thinking", "thinking": "", "signature": ""})
            delta = {"type": "thinking_delta", "thinking": part.text}
        else:
            if self._open != "text":
                yield from self.close()
                yield from self._begin({"type": "text", "text": ""})
            delta = {"type": "text_delta", "text": part}
        self._text.append(part if isinstance(part, str) else part.text)
        yield self._event("delta", delta=delta)

    def close(self) -> Iterator[dict[str, Any]]:
        """End the block that is open; yields the events that tell of it."""
        if not self._open:
            return
        block, text = self.blocks[-1], "".join(self._text)
        if self._open == "tool_use":
            block["input"] = _object_in(text)
        else:
            block[self._open] = text
        if self._open == "thinking":
            block["signature"] = _SIGNATURE
            delta = {"type": "signature_delta", "signature": _SIGNATURE}
            yield self._event("delta", delta=delta)
        self._open = ""
        yield self._event("stop")

    def end(self) -> Iterator[dict[str, Any]]:
        """End the answer; one without a block has an empty text."""
        if not self.blocks:
            yield from self.add("")
        yield from self.close()

    def _begin(self, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.blocks.append(block)
        self._open, self._text = block["type"], []
        yield self._event("start", content_block=dict(block))

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": f"content_block_{kind}", "index": len(self.blocks) - 1, **fields}


def _object_in(text: str) -> dict[str, Any]:
    """Return the arguments of a call; none of a call that was cut."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}
