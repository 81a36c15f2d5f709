"""The input of ``/v1/responses`` in the form that chat templates know.

Source: OpenAI's reference of the Responses API; ``openai.types.responses.response_input_item``.
"""

from __future__ import annotations

from mtkit.errors import UsageError
from mtkit.serve.messages import arguments_of, role_of, text_of
from mtkit.serve.responses_output import unsealed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.serve.responses_tools import Origin


def messages_of(
    given: str | Sequence[Mapping[str, Any]],
    instructions: str,
    origins: Mapping[str, Origin],
) -> list[dict[str, Any]]:
    """Return the messages of an input.

    Args:
        given: A text of the user's, or items.
        instructions: Of the system.
        origins: What the functions that the model is given stand for.

    Raises:
        UsageError: An item is none, or holds what cannot be had.
    """
    made: list[dict[str, Any]] = []
    if instructions:
        made.append({"role": "system", "content": instructions})
    if isinstance(given, str):
        return [*made, {"role": "user", "content": given}]
    for place, item in enumerate(given):
        _add(made, item, f"input[{place}]", origins)
    return made


def _add(
    made: list[dict[str, Any]], item: Mapping[str, Any], field: str, origins: Mapping[str, Origin]
) -> None:
    kind = item.get("type", "message")
    if kind == "message":
        role = role_of(item.get("role"), f"{field}.role")
        text = text_of(item.get("content") or "", f"{field}.content")
        if role == "assistant":
            _answer(made, "content")["content"] += text
        else:
            made.append({"role": role, "content": text})
    elif kind == "reasoning":
        if text := _reasoning_in(item):
            _answer(made, "reasoning_content", "")["reasoning_content"] += text
    elif kind in ("function_call", "custom_tool_call"):
        called = _called(item, origins)
        arguments: Any = {"input": item.get("input", "")}
        if kind == "function_call":
            arguments = arguments_of(item.get("arguments"))
        function = {"name": called, "arguments": arguments}
        call = {"id": item.get("call_id"), "type": "function", "function": function}
        _answer(made, "tool_calls", [])["tool_calls"].append(call)
    elif kind in ("function_call_output", "custom_tool_call_output"):
        text = text_of(item.get("output") or "", f"{field}.output")
        made.append({"role": "tool", "tool_call_id": item.get("call_id"), "content": text})
    else:
        raise UsageError(f"is {kind}, which cannot be had here", field=f"{field}.type")


def _answer(made: list[dict[str, Any]], name: str, empty: Any = "") -> dict[str, Any]:
    """Return the assistant's message that an item belongs to: the last, or a new one.

    An answer has its reasoning first, then its text, then its calls; what would come before is the
    next answer's.
    """
    order = ("reasoning_content", "content", "tool_calls")
    last = made[-1] if made and made[-1]["role"] == "assistant" else None
    if last is not None:
        later = order[order.index(name) + (name == "tool_calls") :]
        if any(last.get(one) for one in later):
            last = None
    if last is None:
        last = {"role": "assistant", "content": ""}
        made.append(last)
    last.setdefault(name, empty)
    return last


def _reasoning_in(item: Mapping[str, Any]) -> str:
    """Return the reasoning of an item: in the clear, or as it was sent, or its summary."""
    sealed = item.get("encrypted_content")
    found = _texts(item.get("content")) or (unsealed(sealed) if isinstance(sealed, str) else "")
    return found or _texts(item.get("summary"))


def _texts(parts: Any) -> str:
    if not isinstance(parts, list):
        return ""
    return "\n".join(
        str(part["text"]) for part in parts if isinstance(part, dict) and "text" in part
    )


def _called(item: Mapping[str, Any], origins: Mapping[str, Origin]) -> str:
    """Return the name of the function that a call in a history is of."""
    name, namespace = str(item.get("name")), item.get("namespace") or ""
    for called, origin in origins.items():
        if (origin.name, origin.namespace) == (name, namespace):
            return called
    return name
