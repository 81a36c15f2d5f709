"""The content of an answer: Anthropic's blocks, Responses' items, and their events.

Source: the reference of Anthropic's API, and what the ``anthropic`` package reads; OpenAI's
reference of the Responses API, and the records in ``openai.types.responses``.
"""

from __future__ import annotations

import base64
import secrets

import msgspec

from mtkit.chat.answer import CallStart, CallText, Thought

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from mtkit.chat.answer import Part
    from mtkit.serve.tool import ToolOrigin


_SIGNATURE = "mtkit"
"""Of a reasoning: clients send it back, and nothing here asks for it."""


class AnthropicContent:
    """The blocks of an answer."""

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
            block["input"] = _parse_arguments(text)
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


def _parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; none of a call that was cut."""
    try:
        found = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return found if isinstance(found, dict) else {}


class ResponsesOutput:
    """The items of an answer."""

    def __init__(self, origins: Mapping[str, ToolOrigin], *, keeps_thoughts: bool) -> None:
        """Begin.

        Args:
            origins: What each function that the model was given stands for.
            keeps_thoughts: Items of reasoning have ``encrypted_content``.
        """
        self._origins, self._keeps_thoughts = origins, keeps_thoughts
        self.items: list[dict[str, Any]] = []
        self._open: dict[str, Any] = {}
        self._text: list[str] = []

    def add(self, part: Part) -> Iterator[dict[str, Any]]:
        """Take a part; yields the events that tell of it."""
        if isinstance(part, CallStart):
            yield from self.close()
            yield from self._begin(self._call(part))
            return
        if isinstance(part, CallText):
            told = part.text
        elif isinstance(part, Thought):
            told = part.text
            if self._open.get("type") != "reasoning":
                yield from self._begin_text("reasoning", "rs_", {"summary": []})
        else:
            told = part
            if self._open.get("type") != "message":
                yield from self._begin_text("message", "msg_", {"role": "assistant"})
        self._text.append(told)
        if self._open["type"] != "custom_tool_call":  # its input is known at its end
            yield self._told("delta", delta=told)

    def close(self, status: str = "completed") -> Iterator[dict[str, Any]]:
        """End the item that is open; yields the events that tell of it.

        Args:
            status: Of the item: "completed", or "incomplete" where the answer was cut in it.
        """
        if not self._open:
            return
        item, text = self._open, "".join(self._text)
        kind, field = _ITEM_KINDS[item["type"]][:2]
        if item["type"] == "custom_tool_call":
            text = _parse_input(text)
            yield self._told("delta", delta=text)
        yield self._told("done", **{field: text})
        if item["type"] in ("function_call", "custom_tool_call"):
            item[field] = text
        else:
            part = _content_part(kind, text)
            item["content"] = [part]
            yield self._at("response.content_part.done", content_index=0, part=part)
        if item["type"] != "custom_tool_call":
            item["status"] = status
        if item["type"] == "reasoning" and self._keeps_thoughts:
            item["encrypted_content"] = seal_reasoning(text)
        yield {"type": "response.output_item.done", "output_index": self._place, "item": item}
        self._open = {}

    @property
    def _place(self) -> int:
        return len(self.items) - 1

    def _call(self, part: CallStart) -> dict[str, Any]:
        origin = self._origins.get(part.name)
        kind = "custom_tool_call" if origin and origin.is_custom else "function_call"
        item = {
            "type": kind,
            "id": _new_id("ctc_" if kind == "custom_tool_call" else "fc_"),
            "call_id": part.id,
            "name": origin.name if origin else part.name,
            _ITEM_KINDS[kind][1]: "",
        }
        if origin and origin.namespace:
            item["namespace"] = origin.namespace
        return item if kind == "custom_tool_call" else {**item, "status": "in_progress"}

    def _begin(self, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.items.append(item)
        self._open, self._text = item, []
        yield {
            "type": "response.output_item.added",
            "output_index": self._place,
            "item": dict(item),
        }

    def _begin_text(
        self, kind: str, prefix: str, fields: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        yield from self.close()
        item = {
            "type": kind,
            "id": _new_id(prefix),
            "status": "in_progress",
            "content": [],
            **fields,
        }
        yield from self._begin(item)
        part = _content_part(_ITEM_KINDS[kind][0], "")
        yield self._at("response.content_part.added", content_index=0, part=part)

    def _told(self, what: str, **fields: Any) -> dict[str, Any]:
        kind, _, more = _ITEM_KINDS[self._open["type"]]
        return self._at(f"response.{kind}.{what}", **more, **fields)

    def _at(self, kind: str, **fields: Any) -> dict[str, Any]:
        place = {"item_id": self._open["id"], "output_index": self._place}
        return {"type": kind, **place, **fields}


_ITEM_KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "message": ("output_text", "text", {"content_index": 0, "logprobs": []}),
    "reasoning": ("reasoning_text", "text", {"content_index": 0}),
    "function_call": ("function_call_arguments", "arguments", {}),
    "custom_tool_call": ("custom_tool_call_input", "input", {}),
}
"""Of each item: what its events are called, the field of its text, what else they have."""


def _content_part(kind: str, text: str) -> dict[str, Any]:
    if kind == "output_text":
        return {"type": kind, "text": text, "annotations": [], "logprobs": []}
    return {"type": kind, "text": text}


def _new_id(prefix: str) -> str:
    return prefix + secrets.token_hex(16)


def _parse_input(arguments: str) -> str:
    """Return the input of a tool that takes a text; without one, the arguments as they are."""
    try:
        found = msgspec.json.decode(arguments)["input"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return arguments
    return found if isinstance(found, str) else arguments


def seal_reasoning(text: str) -> str:
    """Return a reasoning as ``encrypted_content``.

    Clients that keep no reasoning in the clear, as Codex, send this back with the next request, and
    templates that want the reasoning between two calls get it. Nothing is hidden by it.
    """
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def unseal_reasoning(content: str) -> str:
    """Return the reasoning in what ``seal_reasoning`` made; nothing of what another server made."""
    try:
        return base64.b64decode(content, validate=True).decode()
    except ValueError:
        return ""
