"""Items of ``/v1/responses`` beyond messages and functions, in the form of these.

What OpenAI's own servers did (searches, code, MCP) has its result in the same item, or nowhere.
Calls of tools that a client runs have theirs in an item of its own.

Source: OpenAI's reference of the Responses API, ``openai.types.responses.response_input_item``.
"""

from __future__ import annotations

import msgspec

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.serve.request import UnknownFields
    from mtkit.serve.response_store import ResponseStore

    Item = Mapping[str, Any]


_CLIENT_CALLS = {
    "local_shell_call": ("local_shell", "action"),
    "shell_call": ("shell", "action"),
    "apply_patch_call": ("apply_patch", "operation"),
    "computer_call": ("computer", "action"),
}
"""Types of calls: the function's name, and the field of what are its arguments."""
_CLIENT_OUTPUTS = {
    "local_shell_call_output": "output",
    "shell_call_output": "output",
    "apply_patch_call_output": "output",
}
_SERVER_CALLS = {
    "mcp_call": ("", "arguments", ("output", "error")),
    "code_interpreter_call": ("code_interpreter", "code", ("outputs",)),
    "file_search_call": ("file_search", "queries", ("results",)),
    "web_search_call": ("web_search", "action", ("results",)),
}
"""Types of calls: the function's name, and the fields of its arguments and of its results."""
_UNREADABLE = frozenset((
    "compaction", "compaction_trigger", "context_compaction", "image_generation_call",
    "mcp_list_tools", "mcp_approval_request", "mcp_approval_response", "tool_search_call",
    "tool_search_output",
))  # fmt: skip
"""What only OpenAI's servers can read, or use."""


def plain_items(
    items: Sequence[Item], store: ResponseStore, unknown: UnknownFields
) -> Iterator[Item]:
    """Yield messages, reasoning, calls of functions and their outputs."""
    for place, item in enumerate(items):
        field = f"input[{place}]"
        kind = _kind_of(item)
        if kind == "item_reference":
            name = item.get("id")
            referred = store.item(name) if isinstance(name, str) else None
            if referred is None:
                hint = "responses are kept for a while, unless store is false"
                raise UsageError(f"there is no item {name!r}"[:120], field=field, hint=hint)
            item, kind = referred, _kind_of(referred)
        if kind in _CLIENT_CALLS:
            yield _call(item, *_CLIENT_CALLS[kind])
        elif kind in _CLIENT_OUTPUTS:
            yield _output(item, item.get(_CLIENT_OUTPUTS[kind]) or item.get("status"))
        elif kind == "computer_call_output":
            raise UsageError("image input is not supported; this model takes text", field=field)
        elif kind in _SERVER_CALLS:
            name, arguments, results = _SERVER_CALLS[kind]
            result = next((item[name] for name in results if item.get(name)), None)
            if result is None:
                unknown.leave_out(kind, "items")
                continue
            yield _call(item, name or str(item.get("name")), arguments)
            yield _output(item, result)
        elif kind in _UNREADABLE:
            unknown.leave_out(kind, "items")
        else:
            yield item


def _kind_of(item: Item) -> str:
    kind = item.get("type")
    if kind is None:
        return "message" if "role" in item or "id" not in item else "item_reference"
    return str(kind)


def _call(item: Item, name: str, field: str) -> Item:
    """Return a call of a function, whose arguments are an object, or its JSON text."""
    value = item.get(field)
    arguments = value if isinstance(value, dict) or field == "arguments" else {field: value}
    return {
        "type": "function_call", "call_id": _call_id(item), "name": name, "arguments": arguments,
    }  # fmt: skip


def _output(item: Item, output: Any) -> Item:
    text = output if isinstance(output, str) else msgspec.json.encode(output).decode()
    return {"type": "function_call_output", "call_id": _call_id(item), "output": text}


def _call_id(item: Item) -> Any:
    return item.get("call_id") or item.get("id")
