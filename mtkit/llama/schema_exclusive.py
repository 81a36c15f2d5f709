"""Whether no value is valid by two of the schemas of a ``oneOf``: then it is an ``anyOf``.

Schemas exclude each other by their types, by the values that ``const`` and ``enum`` list, or by a
property that has to be there and whose values do, as the tags of pydantic's and zod's unions.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST = 100
"""Choices, each of which is compared with each."""
_DEEPEST = 20


def are_exclusive(choices: list[Any], definitions: dict[str, Any]) -> bool:
    """Whether at most one of some schemas takes any value, as far as can be told.

    Args:
        choices: Schemas as they are given to llguidance.
        definitions: By name, what their ``$ref`` name.
    """
    if len(choices) > _MOST:
        return False
    found = [_resolved(one, definitions) for one in choices]
    return all(
        _exclude(one, other, definitions, 0)
        for place, one in enumerate(found)
        for other in found[place + 1 :]
    )


def _resolved(schema: Any, definitions: dict[str, Any]) -> Any:
    for _ in range(_DEEPEST):
        if not isinstance(schema, dict) or schema.keys() != {"$ref"}:
            break
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return schema


def _exclude(one: Any, other: Any, definitions: dict[str, Any], depth: int) -> bool:
    if one is False or other is False:
        return True
    if one is True or other is True or depth > _DEEPEST:
        return False
    values, others = _values(one), _values(other)
    if values is not None and others is not None:
        return not values & others
    kinds, other_kinds = _kinds(one), _kinds(other)
    if not kinds & other_kinds:
        return True
    if kinds & other_kinds != {"object"}:
        return False
    mine, theirs = one.get("properties", {}), other.get("properties", {})
    return any(
        _exclude(
            _resolved(mine[name], definitions), _resolved(theirs[name], definitions),
            definitions, depth + 1,
        )
        for name in {*one.get("required", ()), *other.get("required", ())}
        if name in mine and name in theirs
    )  # fmt: skip


def _values(schema: dict[str, Any]) -> set[str] | None:
    """Return the values that a schema lists, equal numbers as equal texts; None: it does not."""
    if "const" in schema:
        return {_text(schema["const"])}
    return {_text(value) for value in schema["enum"]} if "enum" in schema else None


def _text(value: Any) -> str:
    """Return a value as a text that is the same for values that are equal in JSON Schema."""
    if isinstance(value, dict):
        return "{" + ",".join(f"{json.dumps(k)}:{_text(value[k])}" for k in sorted(value)) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_text, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


def _kinds(schema: dict[str, Any]) -> set[str]:
    """Return the types that a schema may allow, "integer" as "number"."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return {_kind(value) for value in values}
    kinds = schema.get("type", ["null", "boolean", "object", "array", "string", "number"])
    named = {kinds} if isinstance(kinds, str) else set(kinds)
    return {"number" if kind == "integer" else kind for kind in named}


def _kind(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    names = {type(None): "null", str: "string", list: "array", dict: "object"}
    return names[type(value)]
