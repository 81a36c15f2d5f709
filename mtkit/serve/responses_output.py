"""The output of ``/v1/responses``: its items, and the events that tell of them as they come.

Source: OpenAI's reference of the Responses API; the records in ``openai.types.responses``.
"""

from __future__ import annotations

import base64
import secrets

import msgspec

from mtkit.chat.answer_parts import CallStart, CallText, Thought

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from mtkit.chat.answer_parts import Part
    from mtkit.serve.responses_tools import Origin


class Output:
    """The items of an answer.

    Attributes:
        items: As far as they are known.
    """

    def __init__(self, origins: Mapping[str, Origin], *, keeps_thoughts: bool) -> None:
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
        kind, field = _KINDS[item["type"]][:2]
        if item["type"] == "custom_tool_call":
            text = _input_in(text)
            yield self._told("delta", delta=text)
        yield self._told("done", **{field: text})
        if item["type"] in ("function_call", "custom_tool_call"):
            item[field] = text
        else:
            part = _part(kind, text)
            item["content"] = [part]
            yield self._at("response.content_part.done", content_index=0, part=part)
        if item["type"] != "custom_tool_call":
            item["status"] = status
        if item["type"] == "reasoning" and self._keeps_thoughts:
            item["encrypted_content"] = sealed(text)
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
            "id": _drawn("ctc_" if kind == "custom_tool_call" else "fc_"),
            "call_id": part.id,
            "name": origin.name if origin else part.name,
            _KINDS[kind][1]: "",
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
            "id": _drawn(prefix),
            "status": "in_progress",
            "content": [],
            **fields,
        }
        yield from self._begin(item)
        part = _part(_KINDS[kind][0], "")
        yield self._at("response.content_part.added", content_index=0, part=part)

    def _told(self, what: str, **fields: Any) -> dict[str, Any]:
        kind, _, more = _KINDS[self._open["type"]]
        return self._at(f"response.{kind}.{what}", **more, **fields)

    def _at(self, kind: str, **fields: Any) -> dict[str, Any]:
        place = {"item_id": self._open["id"], "output_index": self._place}
        return {"type": kind, **place, **fields}


_KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "message": ("output_text", "text", {"content_index": 0, "logprobs": []}),
    "reasoning": ("reasoning_text", "text", {"content_index": 0}),
    "function_call": ("function_call_arguments", "arguments", {}),
    "custom_tool_call": ("custom_tool_call_input", "input", {}),
}
"""Of each item: what its events are called, the field of its text, what else they have."""


def _part(kind: str, text: str) -> dict[str, Any]:
    if kind == "output_text":
        return {"type": kind, "text": text, "annotations": [], "logprobs": []}
    return {"type": kind, "text": text}


def _drawn(prefix: str) -> str:
    return prefix + secrets.token_hex(16)


def _input_in(arguments: str) -> str:
    """Return the input of a tool that takes a text; without one, the arguments as they are."""
    try:
        found = msgspec.json.decode(arguments)["input"]
    except (msgspec.DecodeError, KeyError, TypeError):
        return arguments
    return found if isinstance(found, str) else arguments


def sealed(text: str) -> str:
    """Return a reasoning as ``encrypted_content``.

    Clients that keep no reasoning in the clear, as Codex, send this back with the next request, and
    templates that want the reasoning between two calls get it. Nothing is hidden by it.
    """
    return base64.b64encode(text.encode("utf-8", "replace")).decode()


def unsealed(content: str) -> str:
    """Return the reasoning in what ``sealed`` made; nothing of what another server made."""
    try:
        return base64.b64decode(content, validate=True).decode()
    except ValueError:
        return ""
