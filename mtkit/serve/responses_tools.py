"""Tools of ``/v1/responses`` as functions, which is what chat templates know.

A tool that takes a text (``custom``) becomes a function with the parameter ``input``; those of a
namespace go by their own names, with the namespace's in front where two would be alike. What only
OpenAI's own servers can do (``web_search`` and others) is left out.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.serve.bodies.unknown import Unknown


class Origin(Record):
    """What a function that the model is given stands for.

    Attributes:
        name: The tool's.
        namespace: Of the tool.
        is_custom: It takes a text.
    """

    name: str
    namespace: str = ""
    is_custom: bool = False


def functions_of(
    tools: Sequence[Mapping[str, Any]], unknown: Unknown
) -> tuple[list[dict[str, Any]], dict[str, Origin]]:
    """Return definitions in the form of chat completions, and what each of them stands for.

    Args:
        tools: Of a request.
        unknown: Sees to those that are left out.
    """
    made: list[dict[str, Any]] = []
    origins: dict[str, Origin] = {}
    # those of no namespace keep their names
    for tool, field, namespace in sorted(_flat(tools), key=lambda one: bool(one[2])):
        kind = tool.get("type", "function")
        if kind not in ("function", "custom"):
            unknown.leave_out(str(kind))
            continue
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            raise UsageError("is missing", field=f"{field}.name")
        called = f"{namespace}.{name}" if namespace and name in origins else name
        origins[called] = Origin(name, namespace, kind == "custom")
        function = {"name": called, "description": _described(tool), **_parameters(tool)}
        made.append({"type": "function", "function": function})
    return made, origins


def _flat(
    tools: Sequence[Mapping[str, Any]],
) -> Iterator[tuple[Mapping[str, Any], str, str]]:
    for place, tool in enumerate(tools):
        if tool.get("type") != "namespace":
            yield tool, f"tools[{place}]", ""
            continue
        inner = tool.get("tools")
        if not isinstance(inner, list) or not all(isinstance(one, dict) for one in inner):
            raise UsageError("is not a list of tools", field=f"tools[{place}].tools")
        for at, one in enumerate(inner):
            yield one, f"tools[{place}].tools[{at}]", str(tool.get("name") or "")


def _described(tool: Mapping[str, Any]) -> Any:
    text = tool.get("description") or ""
    form = tool.get("format")
    if tool.get("type") == "custom" and isinstance(form, dict) and form.get("definition"):
        return f"{text}\n\nThe input follows this {form.get('syntax', '')} grammar:\n" + str(
            form["definition"]
        )
    return text


def _parameters(tool: Mapping[str, Any]) -> dict[str, Any]:
    if tool.get("type") == "custom":
        text = {"type": "string"}
        return {
            "parameters": {"type": "object", "properties": {"input": text}, "required": ["input"]}
        }
    given = tool.get("parameters")
    return {} if given is None else {"parameters": given}


def choice_of(
    choice: str | Mapping[str, Any],
    functions: Sequence[dict[str, Any]],
    origins: Mapping[str, Origin],
) -> tuple[list[dict[str, Any]], str | dict[str, Any]]:
    """Return the functions that may be called, and ``tool_choice`` as chat completions have it.

    Raises:
        UsageError: It is a tool that was left out, or no choice.
    """
    if isinstance(choice, str):
        return list(functions), choice
    kind = choice.get("type")
    if kind == "allowed_tools":
        allowed = choice.get("tools")
        listed = allowed if isinstance(allowed, list) else []
        names = [one.get("name") for one in listed if isinstance(one, dict)]
        kept = [one for one in functions if origins[one["function"]["name"]].name in names]
        return kept, str(choice.get("mode", "auto"))
    if kind not in ("function", "custom"):
        raise UsageError(f"is {kind}, which cannot be had here", field="tool_choice.type")
    wanted = choice.get("name")
    called = next((name for name, origin in origins.items() if origin.name == wanted), wanted)
    return list(functions), {"type": "function", "function": {"name": called}}
