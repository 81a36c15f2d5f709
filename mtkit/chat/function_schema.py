"""Functions as tools: the JSON schema of a Python function, from its type hints and docstring.

The docstring is Google's style: what the function does, ``Args:`` with every parameter (at its end
``(choices: ["a", "b"])`` for those that it can be), ``Returns:``.

Source: huggingface/transformers 5, utils/chat_template_utils.py (``get_json_schema``).
"""

from __future__ import annotations

import re
from contextlib import suppress
from enum import Enum
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

_SCALARS = {
    int: "integer", float: "number", str: "string", bool: "boolean", type(None): "null",
}  # fmt: skip
_TYPES = {**_SCALARS, list: "array", tuple: "array", dict: "object"}
_SECTION = r"(?:Args:|Returns:|Raises:|\Z)"
_NAME = r"[ \t]*\w+(?:[ \t]*\([^()\n]*\))?:"
_ENTRY = re.compile(
    rf"(?:^|\n)([ \t]*)(\w+)(?:[ \t]*\([^()\n]*\))?:\s*(.*?)\s*(?=\n(?!\1[ \t]){_NAME}|\Z)",
    re.DOTALL,
)
_CHOICES = re.compile(r"\(choices:\s*(.*?)\)\s*$", re.IGNORECASE)


def function_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """Return a function as the tool that a chat template gets."""
    import inspect

    name = getattr(function, "__name__", "operation")
    text = (inspect.getdoc(function) or "").strip()
    if not text:
        raise UsageError("has no docstring", field=f"tools: {name}")
    about, described, returned = _sections(text)
    parameters, result = _parameters(function, name)
    for parameter, schema in parameters["properties"].items():
        if parameter not in described:
            what = f"its docstring does not describe {parameter!r}"
            raise UsageError(what, field=f"tools: {name}", hint="Args: has a line for each")
        description = described[parameter]
        choices = _CHOICES.search(description)
        if choices:
            schema["enum"] = _parse_choices(choices[1], name, parameter)
            description = description[: choices.start()].strip()
        schema["description"] = description
    entry = {"name": name, "description": about, "parameters": parameters}
    if result is not None:
        entry["return"] = result if returned is None else {**result, "description": returned}
    return {"type": "function", "function": entry}


def _parse_choices(choices: str, name: str, parameter: str) -> list[Any]:
    import json

    try:
        values = json.loads(choices)
    except ValueError:
        what = f"the choices of {parameter!r} are not a list in JSON: {choices}"
        raise UsageError(what, field=f"tools: {name}") from None
    return [value.strip() if isinstance(value, str) else value for value in values]


def _sections(text: str) -> tuple[str, dict[str, str], str | None]:
    """Return what a docstring says of the function, of its parameters and of what it returns."""
    about = re.match(rf"(.*?)[\n\s]*{_SECTION}", text, re.DOTALL)
    listed = re.search(r"\n\s*Args:\n(.*?)[\n\s]*(?:Returns:|Raises:|\Z)", text, re.DOTALL)
    returned = re.search(r"\n\s*Returns:\n\s*(.*?)[\n\s]*(?:Raises:|\Z)", text, re.DOTALL)
    lines = [line for line in listed[1].split("\n") if line.strip()] if listed else []
    entries = _ENTRY.findall("\n".join(lines))
    described = {
        name: re.sub(r"\s*\n+\s*", " ", description.strip()) for _, name, description in entries
    }
    return about[1].strip() if about else "", described, returned[1].strip() if returned else None


def _parameters(
    function: Callable[..., Any], name: str
) -> tuple[dict[str, Any], dict[str, Any] | None]:
    """Return the schema of the parameters, and that of the result where JSON has it."""
    import inspect

    parameters = dict(inspect.signature(function).parameters)
    hints = get_type_hints(function)
    first = next(iter(parameters), "")
    if first in ("self", "cls") and parameters[first].annotation is inspect.Parameter.empty:
        del parameters[first]
        hints.pop(first, None)
    for parameter in parameters.values():
        if parameter.annotation is inspect.Parameter.empty:
            raise UsageError(f"{parameter.name!r} has no type hint", field=f"tools: {name}")
    result = None
    if "return" in hints:
        with suppress(UsageError):  # a model never writes it
            result = _schema(hints.pop("return"), name)
    schema = {"type": "object", "properties": {key: _schema(hints[key], name) for key in hints}}
    required = [
        key for key, parameter in parameters.items() if parameter.default is inspect.Parameter.empty
    ]
    return {**schema, "required": required} if required else schema, result


def _schema(hint: Any, name: str) -> dict[str, Any]:
    origin, args = get_origin(hint), get_args(hint)
    if hint is Any:
        return {}
    if isinstance(hint, type) and issubclass(hint, Enum):
        return _values([member.value for member in hint], hint, name)
    if origin is Literal:
        return _values(list(args), hint, name)
    if origin in (Union, UnionType):
        return _union(args, name)
    if hint in _TYPES:
        return {"type": _TYPES[hint]}
    if origin is list:
        return {"type": "array", "items": _schema(args[0], name)} if args else {"type": "array"}
    if origin is tuple and len(args) > 1 and ... not in args:
        return {"type": "array", "prefixItems": [_schema(arg, name) for arg in args]}
    if origin is dict:
        more = {"additionalProperties": _schema(args[1], name)} if len(args) == 2 else {}
        return {"type": "object", **more}
    raise UsageError(
        f"the type hint {getattr(hint, '__name__', hint)} has no JSON schema",
        field=f"tools: {name}",
        hint="hand over a JSON schema instead of the function",
    )


def _values(values: list[Any], hint: Any, name: str) -> dict[str, Any]:
    if not values or any(type(value) not in _SCALARS for value in values):
        what = f"{getattr(hint, '__name__', hint)} has values that are not JSON's, or none"
        raise UsageError(what, field=f"tools: {name}")
    kinds = list(dict.fromkeys(_SCALARS[type(value)] for value in values))
    return {"type": kinds[0] if len(kinds) == 1 else kinds, "enum": values}


def _union(args: tuple[Any, ...], name: str) -> dict[str, Any]:
    """Return the schema of one of several types."""
    none = type(None)
    schemas = [_schema(schema, name) for schema in args if schema is not none]
    if len(schemas) == 1:
        union = schemas[0]
    elif all(schema.keys() == {"type"} and isinstance(schema["type"], str) for schema in schemas):
        kinds = sorted({schema["type"] for schema in schemas})
        union = {"type": kinds[0] if len(kinds) == 1 else kinds}
    else:
        union = {"anyOf": schemas}
    return {**union, "nullable": True} if none in args else union
