"""Definitions of tools with what a template needs, or told as a text: changes for ``rewriting``.

OpenAI's API requires only the name of a function. Templates write descriptions and parameters
without a look at whether they are there, and walk through schemas that they expect to be simple.
"""

from __future__ import annotations

import json

from mtkit.base.record import replace
from mtkit.chat.conversation import Chat, text_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DEPTH = 40
"""Nesting to which schemas are changed; templates recurse."""


def _change_functions(change: Callable[[dict[str, Any]], dict[str, Any]]) -> Callable[[Chat], Chat]:
    def change_tool(tool: Any) -> Any:
        if isinstance(tool, dict) and isinstance(tool.get("function"), dict):
            return {**tool, "function": change(tool["function"])}
        return change(tool) if isinstance(tool, dict) and "name" in tool else tool

    def change_all(chat: Chat) -> Chat:
        return replace(chat, tools=chat.tools and [change_tool(tool) for tool in chat.tools])

    return change_all


def empty_tools(chat: Chat) -> Chat:
    """Give a list without tools where there is none."""
    return replace(chat, tools=chat.tools or [])


def add_missing(**fields: Any) -> Callable[[Chat], Chat]:
    """Return the change that adds fields that a function lacks, or has without a value."""

    def change(function: dict[str, Any]) -> dict[str, Any]:
        missing = {name: value for name, value in fields.items() if function.get(name) is None}
        return {**function, **missing} if missing else function

    return _change_functions(change)


def _whole_parameters(function: dict[str, Any]) -> dict[str, Any]:
    parameters = function.get("parameters")
    if not isinstance(parameters, dict):
        return function
    return {**function, "parameters": {"type": "object", "properties": {}, **parameters}}


add_properties = _change_functions(_whole_parameters)
"""Give parameters a type and properties, where they have none."""


def change_parameters(
    change: Callable[[dict[str, Any]], dict[str, Any]],
) -> Callable[[Chat], Chat]:
    """Return the change of each schema in the parameters of functions, the inner ones first."""

    def walk(schema: Any, depth: int, *, is_whole: bool = False) -> Any:
        if isinstance(schema, list):
            return [walk(part, depth + 1) for part in schema]
        if not isinstance(schema, dict) or depth > _DEPTH:
            return schema
        inner: dict[str, Any] = {}
        for name, value in schema.items():
            if name in ("properties", "$defs", "definitions") and isinstance(value, dict):
                value = {key: walk(part, depth + 1) for key, part in value.items()}
            elif name in ("items", "anyOf", "oneOf", "allOf", "additionalProperties"):
                value = walk(value, depth + 1)
            inner[name] = value
        return inner if is_whole else change(inner)

    def change_function(function: dict[str, Any]) -> dict[str, Any]:
        parameters = function.get("parameters")
        if not isinstance(parameters, dict):
            return function
        return {**function, "parameters": walk(parameters, 0, is_whole=True)}

    return _change_functions(change_function)


def add_to_schemas(**fields: Any) -> Callable[[Chat], Chat]:
    """Return the change that adds fields that a parameter's schema lacks."""
    return change_parameters(lambda schema: {**fields, **schema})


def _split_types(schema: dict[str, Any]) -> dict[str, Any]:
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return schema
    rest = {name: value for name, value in schema.items() if name != "type"}
    if len(kinds) < 2:
        return {**rest, **({"type": kinds[0]} if kinds else {})}
    return {**rest, "anyOf": [{"type": kind} for kind in kinds]}


split_types = change_parameters(_split_types)
"""Write a list of types as ``anyOf``."""
_TYPES = ("string", "number", "integer", "boolean", "array", "object")


def _leave_out_types(schema: dict[str, Any]) -> dict[str, Any]:
    kind = schema.get("type")
    is_known = kind is None or isinstance(kind, list) or kind in _TYPES
    return schema if is_known else {name: schema[name] for name in schema if name != "type"}


leave_out_types = change_parameters(_leave_out_types)
"""Leave out types of which templates know nothing, such as null."""
add_values = change_parameters(
    lambda schema: (
        {"additionalProperties": {}, **schema} if schema.get("type") == "object" else schema
    )
)
"""Say of objects that their values are of any type."""


def bare_tools(chat: Chat) -> Chat:
    """Give functions without the object around them that has their type."""
    return replace(chat, tools=chat.tools and [tool.get("function", tool) for tool in chat.tools])


_INTRODUCTION = """You can call functions. These are their definitions, one a line:
<tools>
{tools}
</tools>

To call a function, write its name and its arguments as JSON between tags, and nothing else:
<tool_call>
{{"name": "...", "arguments": {{...}}}}
</tool_call>

You will be given the result between <tool_response> tags. Call a function only if it helps; if \
not, answer as usual."""


def introduce_tools(chat: Chat) -> Chat:
    """Tell the model of the tools in the message of the system."""
    if not chat.tools:
        return chat
    lines = [json.dumps(tool.get("function", tool), ensure_ascii=False) for tool in chat.tools]
    text = _INTRODUCTION.format(tools="\n".join(lines))
    first = chat.messages[0] if chat.messages else {}
    if first.get("role") != "system":
        return Chat([{"role": "system", "content": text}, *chat.messages], None)
    content = f"{first['content']}\n\n{text}" if text_of(first) else text
    return Chat([{**first, "content": content}, *chat.messages[1:]], None)
