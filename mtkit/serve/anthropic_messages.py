"""Conversations of Anthropic's API in the form that chat templates know.

Source: the reference of Anthropic's API; ``anthropic.types``.
"""

from __future__ import annotations

import re

from mtkit.errors import UsageError
from mtkit.serve.messages import text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.serve.bodies.anthropic import Tool
    from mtkit.serve.bodies.unknown import Unknown

_BILLING = re.compile(r"\Ax-anthropic-billing-header:(?: ?[\w-]+=[^;\s]*;)*")
"""What Claude Code puts in front of its instructions. It holds a number that is another in each
request, so that nothing behind it could be remembered."""


def from_anthropic(messages: Sequence[dict[str, Any]], system: Any) -> list[dict[str, Any]]:
    """Return messages in OpenAI's form.

    Raises:
        UsageError: A message is not one, or holds what a model of texts cannot take.
    """
    made: list[dict[str, Any]] = []
    text = _BILLING.sub("", text_of(system, "system"))
    if text:
        made.append({"role": "system", "content": text})
    for place, message in enumerate(messages or [{"role": "user"}]):
        field = f"messages[{place}]"
        role = message.get("role")
        if role not in ("user", "assistant", "system"):
            raise UsageError("is not user, assistant or system", field=f"{field}.role")
        made += _blocks(role, message.get("content", ""), f"{field}.content")
    return made


def _blocks(role: str, content: Any, field: str) -> list[dict[str, Any]]:
    """Return the messages of one of Anthropic's, whose blocks may be calls and their results."""
    if isinstance(content, str):
        return [{"role": role, "content": content}]
    if not isinstance(content, list) or not all(isinstance(block, dict) for block in content):
        raise UsageError("is not a text or a list of blocks", field=field)
    plain, thoughts, calls, results = [], [], [], []
    for block in content:
        kind = block.get("type")
        if kind == "tool_use":
            function = {"name": str(block.get("name")), "arguments": block.get("input", {})}
            calls.append({"id": block.get("id"), "type": "function", "function": function})
        elif kind == "tool_result":
            text = text_of(_plain(block.get("content") or ""), field)
            name = block.get("tool_use_id")
            results.append({"role": "tool", "content": text, "tool_call_id": name})
        elif kind == "thinking":
            thoughts.append(str(block.get("thinking", "")))
        elif kind != "redacted_thinking":  # which only its server can read
            plain.append(block)
    made = results
    if plain or thoughts or calls or not results:
        message = {"role": role, "content": text_of(_plain(plain), field)}
        if thoughts:
            message["reasoning_content"] = "\n\n".join(thoughts)
        made = [*results, {**message, "tool_calls": calls} if calls else message]
    return made


def _plain(content: Any) -> Any:
    """Return content whose documents are their texts, where they hold texts."""
    if not isinstance(content, list):
        return content
    return [part for block in content for part in _texts_of(block)]


def _texts_of(block: Any) -> list[Any]:
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "search_result" and isinstance(block.get("content"), list):
        title = "\n".join(str(block[name]) for name in ("title", "source") if block.get(name))
        return [{"type": "text", "text": f"{title}\n"}, *block["content"]]
    source = block.get("source") if kind == "document" else None
    if isinstance(source, dict) and source.get("type") == "text":
        return [{"type": "text", "text": source.get("data")}]
    if isinstance(source, dict) and source.get("type") == "content":
        inner = source.get("content")
        return inner if isinstance(inner, list) else [{"type": "text", "text": inner}]
    return [block]


def tools_from_anthropic(tools: Sequence[Tool], unknown: Unknown) -> list[dict[str, Any]]:
    """Return definitions of tools in OpenAI's form.

    Those without a schema, which only Anthropic's own models and servers know, are left out.

    Args:
        tools: Of a request.
        unknown: Sees to those that are left out.

    Raises:
        UsageError: One has no name, or no schema though it is the client's own.
    """
    made = []
    for place, tool in enumerate(tools):
        if tool.type not in (None, "custom"):
            unknown.leave_out(tool.type)
            continue
        field = f"tools[{place}]"
        if not tool.name:
            raise UsageError("is missing", field=f"{field}.name")
        if tool.input_schema is None:
            raise UsageError("is missing", field=f"{field}.input_schema")
        function = {
            "name": tool.name,
            "description": tool.description,
            "parameters": tool.input_schema,
        }
        made.append({"type": "function", "function": function})
    return made
