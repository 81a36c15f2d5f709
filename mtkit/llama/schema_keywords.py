"""The keywords of a JSON schema: what they may be, and which a grammar would leave out."""

from __future__ import annotations

import json
import re

from mtkit.errors import UnsupportedError, UsageError
from mtkit.llama.gbnf import MOST_REPEATS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_DROPPED = {
    "not", "if", "then", "else", "patternProperties", "propertyNames", "uniqueItems", "contains",
    "minContains", "maxContains", "minProperties", "maxProperties", "dependentRequired",
    "dependentSchemas", "dependencies", "additionalItems", "unevaluatedProperties",
    "unevaluatedItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
    "$dynamicRef", "$recursiveRef",
}  # fmt: skip
OF_ONE_TYPE = {
    "properties", "required", "additionalProperties", "items", "prefixItems", "minItems",
    "maxItems", "pattern", "minLength", "maxLength",
}  # fmt: skip
WHOLE = ("$ref", "anyOf", "oneOf", "allOf", "const", "enum")
_COUNTS = (("minLength", "maxLength"), ("minItems", "maxItems"))
_SHAPES = {
    "properties": dict, "required": list, "enum": list, "anyOf": list, "oneOf": list,
    "allOf": list, "prefixItems": list, "$ref": str, "pattern": str, "format": str,
}  # fmt: skip
_SHAPE_NAMES = {dict: "an object", list: "an array", str: "a string"}
FORMATS = {"date": "date", "time": "time", "date-time": 'date "T" time'} | {
    f"uuid{version}": "uuid" for version in ("", 1, 2, 3, 4, 5)
}
TYPES = {
    "null": type(None), "boolean": bool, "object": dict, "array": list, "string": str,
    "integer": int, "number": (int, float),
}  # fmt: skip


def check(schema: dict[str, Any], place: str) -> None:
    """See that keywords have the values that they can have, and that none would be lost."""
    for key, shape in _SHAPES.items():
        value: Any = schema.get(key)
        if key in schema and not isinstance(value, shape):
            raise wrong(place, f"{key} is not {_SHAPE_NAMES[shape]}")
        if value == [] and key != "required":
            raise wrong(place, f"{key} is empty")
    kinds = schema.get("type", "null")
    for kind in kinds if isinstance(kinds, list) and kinds else [kinds]:
        if not isinstance(kind, str) or kind not in TYPES:
            raise wrong(place, f"type {json.dumps(kind)[:40]} is none of {', '.join(TYPES)}")
    required = schema.get("required", [])
    if not all(isinstance(name, str) for name in required):
        raise wrong(place, "required is not an array of strings")
    keys = set(schema)
    lost = sorted(keys & _DROPPED)
    whole = [key for key in WHOLE if key in keys and keys & {*WHOLE} != {"const", "enum"}]
    if len(whole) > 1:
        lost.append(f"{whole[1]} beside {whole[0]}")
    if (whole and whole[0] != "allOf") or isinstance(schema.get("type"), list):
        lost += sorted(keys & OF_ONE_TYPE)
    elif "pattern" in keys or schema.get("format") in FORMATS:
        lost += sorted(keys & {"minLength", "maxLength"})
    if "pattern" in keys and "format" in keys:
        lost.append("format beside pattern")
    if not {"items", "prefixItems"} & keys:
        lost += sorted(keys & {"minItems", "maxItems"})
    if "allOf" not in keys and not set(required) <= set(schema.get("properties", ())):
        lost.append("required")
    if lost:
        raise lost_error(lost[0], place)
    for low, high in _COUNTS:
        for key in keys & {low, high}:
            if type(schema[key]) is not int or not 0 <= schema[key] <= MOST_REPEATS:
                raise wrong(place, f"{key} is not a number of 0 to {MOST_REPEATS}")
        if schema.get(low, 0) > schema.get(high, MOST_REPEATS):
            raise wrong(place, f"{low} {schema[low]} is more than {high} {schema[high]}")


def has_type(value: Any, kind: str) -> bool:
    """Whether a value has a type, as JSON Schema sees it."""
    if isinstance(value, bool):
        return kind == "boolean"
    if isinstance(value, float) and kind == "integer":
        return value.is_integer()
    return isinstance(value, TYPES[kind])  # type: ignore[arg-type]


def dumped(value: Any, place: str) -> str:
    """Return a value as an answer has to write it."""
    try:
        text = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise wrong(place, "has a number that JSON cannot write") from None
    return re.sub(r"[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)


def step_of(name: str) -> str:
    """Return a name as a ``$ref`` writes it."""
    return name.replace("~", "~0").replace("/", "~1")


def field_of(place: str) -> str:
    """Return what an error calls a place."""
    return "JSON schema" if place == "#" else f"JSON schema at {place[:200]}"


def wrong(place: str, what: str) -> UsageError:
    """Return the error about something that no schema has."""
    return UsageError(what, field=field_of(place))


def lost_error(what: str, place: str) -> UnsupportedError:
    """Return the error about something that a grammar would leave out."""
    what = f"{what} cannot be turned into a grammar here"
    return UnsupportedError(what, field=field_of(place))
