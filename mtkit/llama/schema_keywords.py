"""The keywords of a JSON schema: which are enforced, and what they may be.

Source: JSON Schema 2020-12, Core and Validation, and its earlier drafts; OpenAPI 3.0, Schema
Object; llguidance, parser/src/json/schema.rs (``IMPLEMENTED``).
"""

from __future__ import annotations

import json
import math
import re

from mtkit.errors import UnsupportedError, UsageError
from mtkit.llama.formats import BOUNDS, BY_PATTERN, PATTERNS, REMARKS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

SAID = frozenset({
    "$anchor", "$comment", "$defs", "contentEncoding", "contentMediaType", "contentSchema",
    "default", "definitions", "deprecated", "description", "discriminator", "example", "examples",
    "externalDocs", "id", "markdownDescription", "readOnly", "title", "writeOnly", "xml",
})  # fmt: skip
"""Remarks: no value is valid or not because of one. So are those that begin with ``x-``."""
IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf"})
OF_OBJECTS = frozenset({
    "additionalProperties", "maxProperties", "minProperties", "patternProperties", "properties",
    "propertyNames", "required",
})  # fmt: skip
_LISTS = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_NUMBERS = frozenset({"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"})
_COUNTS = {"minLength": "maxLength", "minItems": "maxItems", "minProperties": "maxProperties"}
WHOLE = frozenset({*_COUNTS, *_COUNTS.values(), "multipleOf"})
_MOST_COUNT = 100_000
LARGEST = (1 << 53) - 1
"""Of numbers in a schema: llguidance reads them as floating-point numbers of 64 bits."""
_LARGEST_DIVISOR = 1_000_000
_ENFORCED = IN_PLACE | OF_OBJECTS | _LISTS | _NUMBERS | WHOLE | {
    "additionalItems", "format", "items", "pattern", "type",
}  # fmt: skip
_NOTHING: dict[str, tuple[Any, ...]] = {
    "nullable": (False,), "uniqueItems": (False,), "propertyNames": (True, {}, {"type": "string"}),
    "unevaluatedProperties": (True, {}), "unevaluatedItems": (True, {}),
}  # fmt: skip
"""Values with which a keyword says nothing."""
TYPES = ("null", "boolean", "object", "array", "string", "integer", "number")
_DRAFT = re.compile(
    r"https?://json-schema\.org/(?:draft/(?:2020-12|2019-09)|draft-0[467])/schema#?"
)
_HINTS = {
    "nullable": "name null as a type: [\"string\", \"null\"]",
    "$id": "parts of a schema with addresses of their own are not told apart",
}  # fmt: skip


def says_nothing(key: str, value: Any) -> bool:
    """Whether a keyword leaves all values valid."""
    return key in SAID or key.startswith("x-") or value in _NOTHING.get(key, ())


def check(schema: dict[str, Any], place: str) -> None:
    """See that keywords have the values that they can have, and that none would be lost.

    Raises:
        UnsupportedError: One would be.
        UsageError: One has a value that it cannot have.
    """
    for key, value in schema.items():
        if says_nothing(key, value):
            continue
        if key == "$schema" or (key == "$id" and place == "#"):
            if key == "$schema" and not (isinstance(value, str) and _DRAFT.fullmatch(value)):
                raise lost(f"{json.dumps(value)[:80]}, a dialect that is not known,", place)
            continue
        if key not in _ENFORCED:
            raise lost(key, place, _HINTS.get(key, ""))
        _check_shape(key, value, place)
        if key in _NUMBERS:
            _check_number(schema, key, value, place)
    _check_counts(schema, place)
    kinds = schema.get("type", "null")
    for kind in kinds if isinstance(kinds, list) and kinds else [kinds]:
        if kind not in TYPES:
            raise wrong(place, f"type {json.dumps(kind)[:40]} is none of {', '.join(TYPES)}")
    named = schema.get("format")
    known = {*PATTERNS, *BOUNDS, *REMARKS, *(BY_PATTERN if "pattern" in schema else ())}
    if named is not None and named not in known:
        raise lost(f"the format {json.dumps(named)[:60]}", place)
    if schema.get("minProperties", 0) > len(set(schema.get("required", ()))) + 1:
        raise lost("minProperties above the properties that are required and one", place)


def _check_shape(key: str, value: Any, place: str) -> None:
    if key in ("properties", "patternProperties") and not isinstance(value, dict):
        raise wrong(place, f"{key} is not an object")
    is_list = key in _LISTS or key in ("enum", "required")
    if is_list and not isinstance(value, list):
        raise wrong(place, f"{key} is not an array")
    if is_list and not value and key != "required":
        raise wrong(place, f"{key} is empty")
    if key == "required" and not all(isinstance(name, str) for name in value):
        raise wrong(place, "required is not an array of strings")
    if key in ("$ref", "pattern", "format") and not isinstance(value, str):
        raise wrong(place, f"{key} is not a string")
    if key in ("const", "enum"):
        _check_value(value, f"{place}/{key}", 0)


def _check_number(schema: dict[str, Any], key: str, value: Any, place: str) -> None:
    if isinstance(value, bool) and key in ("exclusiveMinimum", "exclusiveMaximum"):
        return  # of draft 4: about its neighbor
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise wrong(place, f"{key} is not a number")
    from_below = key in ("minimum", "exclusiveMinimum")
    if math.isnan(value) or (value > LARGEST if from_below else value < -LARGEST):
        raise lost(f"{key} beyond {LARGEST}, which is not exact everywhere,", place)
    if key != "multipleOf":
        return
    if value <= 0:
        raise wrong(place, "multipleOf is not above 0")
    if value != int(value) or value > _LARGEST_DIVISOR:
        what = f"multipleOf {value}: other than whole numbers up to {_LARGEST_DIVISOR}"
        raise lost(what, place)
    if IN_PLACE & set(schema):
        raise lost(f"multipleOf beside {min(IN_PLACE & set(schema))}", place)
    low, high = _bounds(schema)
    if low <= high < math.inf and low > -math.inf and high // value * value < low:
        raise wrong(place, f"no multiple of {value} is within its bounds")


def _bounds(schema: dict[str, Any]) -> tuple[float, float]:
    low = [schema[key] for key in ("minimum", "exclusiveMinimum") if key in schema]
    high = [schema[key] for key in ("maximum", "exclusiveMaximum") if key in schema]
    numbers = [n for n in (*low, *high) if isinstance(n, (int, float))]
    if len(numbers) < len(low) + len(high):
        return -math.inf, math.inf
    return max(low, default=-math.inf), min(high, default=math.inf)


def _check_counts(schema: dict[str, Any], place: str) -> None:
    for low, high in _COUNTS.items():
        for key in (low, high):
            count = schema.get(key, 0)
            is_whole = type(count) is int or (type(count) is float and count.is_integer())
            if not is_whole or not 0 <= count <= _MOST_COUNT:
                raise wrong(place, f"{key} is not a number of 0 to {_MOST_COUNT}")
        if schema.get(low, 0) > schema.get(high, _MOST_COUNT):
            raise wrong(place, f"{low} {schema[low]} is more than {high} {schema[high]}")


def _check_value(value: Any, place: str, depth: int) -> None:
    """See that an answer can hold a value of ``const`` or ``enum`` as it is."""
    if depth > 30:
        raise wrong(place, "is nested too deeply")
    if isinstance(value, str):
        check_text(value, place)
        if re.search("[\x00-\x07\x0b\x0e-\x1f\x7f]", value):
            raise lost("a control character that JSON has only a number for", place)
    elif isinstance(value, dict):
        for name, part in value.items():
            check_text(name, place)
            _check_value(part, f"{place}/{step_of(name)}", depth + 1)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            _check_value(part, f"{place}/{number}", depth + 1)
    elif isinstance(value, (int, float)) and not abs(value) <= LARGEST:
        raise lost(f"a number beyond {LARGEST}, which is not exact everywhere,", place)


def check_text(text: str, place: str) -> None:
    """See that a text is characters.

    Raises:
        UsageError: It holds half a pair of surrogates.
    """
    if re.search(r"[\ud800-\udfff]", text):
        raise wrong(place, "holds half a character")


def step_of(name: str) -> str:
    """Return a name as a ``$ref`` writes it."""
    return name.replace("~", "~0").replace("/", "~1")


def field_of(place: str) -> str:
    """Return what an error calls a place."""
    return "JSON schema" if place == "#" else f"JSON schema at {place[:200]}"


def wrong(place: str, what: str) -> UsageError:
    """Return the error about something that no schema has."""
    return UsageError(what, field=field_of(place))


def lost(what: str, place: str, hint: str = "") -> UnsupportedError:
    """Return the error about something that answers would not be held to."""
    return UnsupportedError(f"{what} cannot be enforced", field=field_of(place), hint=hint)
