"""JSON schemas as llguidance is given them; what it would not enforce is refused.

llguidance passes over keywords that it does not know and over values that do not concern the type,
reads patterns in a dialect of its own and follows ``$ref`` on the stack: a chain of 20,000 of them
is a segmentation fault. So it is given a schema that holds only what it enforces, with definitions
by names of our own, formats and patterns as patterns on which all dialects agree, and no remarks.

Where a schema names properties and says nothing of others, an answer has no others: models would
go on and on. Where schemas are joined (``allOf``) others stay allowed, as the parts need each
other's.

A schema may hold itself by ``$ref``, in a property that may be missing or an array that may be
empty. Where it has to hold itself, no value satisfies it, and a model would write for ever.

A ``oneOf`` whose schemas exclude each other is an ``anyOf``. They do by their types, by the values
that ``const`` and ``enum`` list, or by a property that has to be there and whose values do, as the
tags of pydantic's and zod's unions. (llguidance knows that of types and of texts in ``const``.)

Source: JSON Schema 2020-12, Core and Validation, and its earlier drafts; OpenAPI 3.0, Schema
Object; llguidance 1.9, parser/src/json/schema.rs (``IMPLEMENTED``).
"""

from __future__ import annotations

import json
import math
import re
from urllib.parse import unquote

from mtkit.errors import MtkitError, UnsupportedError, UsageError
from mtkit.llama.schema_pattern import FORMAT_PATTERNS, portable_pattern

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_ANNOTATIONS = frozenset({
    "$anchor", "$comment", "$defs", "contentEncoding", "contentMediaType", "contentSchema",
    "default", "definitions", "deprecated", "description", "discriminator", "example", "examples",
    "externalDocs", "id", "markdownDescription", "readOnly", "title", "writeOnly", "xml",
})  # fmt: skip
"""Remarks: no value is valid or not because of one. So are those that begin with ``x-``."""
_NO_CONDITION: dict[str, tuple[Any, ...]] = {
    "nullable": (False,), "uniqueItems": (False,), "propertyNames": (True, {}, {"type": "string"}),
    "unevaluatedProperties": (True, {}), "unevaluatedItems": (True, {}),
}  # fmt: skip
"""Values with which a keyword leaves all values valid."""
_IN_PLACE = frozenset({"$ref", "allOf", "anyOf", "const", "enum", "oneOf"})
_OF_OBJECTS = frozenset({
    "additionalProperties", "maxProperties", "minProperties", "patternProperties", "properties",
    "propertyNames", "required",
})  # fmt: skip
_CHOICES = ("allOf", "anyOf", "oneOf", "prefixItems")
_BY_NAME = ("properties", "patternProperties")
_NUMBERS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_COUNTS = {"minLength": "maxLength", "minItems": "maxItems", "minProperties": "maxProperties"}
_WHOLE = frozenset({*_COUNTS, *_COUNTS.values(), "multipleOf"})
_ENFORCED: dict[str, tuple[Any, str]] = {
    **dict.fromkeys(_BY_NAME, (dict, "an object")),
    **dict.fromkeys((*_CHOICES, "enum", "required"), (list, "an array")),
    **dict.fromkeys(("$ref", "pattern", "format"), (str, "a string")),
    **dict.fromkeys((*_OF_OBJECTS - {*_BY_NAME, "required"}, *_NUMBERS, *_WHOLE), (object, "")),
    **dict.fromkeys(("additionalItems", "const", "items", "type"), (object, "")),
}
"""Keywords that are enforced, and what the value of each has to be."""
_HINTS = {
    "nullable": "name null as a type: [\"string\", \"null\"]",
    "$id": "parts of a schema with addresses of their own are not told apart",
}  # fmt: skip
_TYPES = ("null", "boolean", "object", "array", "string", "integer", "number")
_DRAFT = re.compile(
    r"https?://json-schema\.org/(?:draft/(?:2020-12|2019-09)|draft-0[467])/schema#?"
)
_LARGEST = (1 << 53) - 1
"""Of numbers in a schema: llguidance reads them as floating-point numbers of 64 bits."""
_LARGEST_INTEGER = 9223372036854774784
"""Of 64 bits, as a floating-point number holds it: llguidance reads bounds as such."""
_LARGEST_DIVISOR = 1_000_000
_MOST_COUNT = 100_000
_FORMAT_BOUNDS = {
    "int32": (-(1 << 31), (1 << 31) - 1),
    "int64": (-_LARGEST_INTEGER, _LARGEST_INTEGER),
}
_FORMATS_BY_PATTERN = frozenset({
    "base64", "base64url", "cidrv4", "cidrv6", "cuid", "cuid2", "e164", "emoji", "ends_with",
    "guid", "hex", "includes", "ksuid", "lowercase", "nanoid", "starts_with", "ulid", "uppercase",
    "xid",
})  # fmt: skip
"""Formats of zod, which says in the pattern beside them what they are."""
_FORMATS = {*FORMAT_PATTERNS, *_FORMAT_BOUNDS, "double", "float", "password"}
"""The last three are remarks: any value of their type has them."""


def _has_no_condition(key: str, value: Any) -> bool:
    """Whether a keyword leaves all values valid."""
    return key in _ANNOTATIONS or key.startswith("x-") or value in _NO_CONDITION.get(key, ())


def _check_keywords(schema: Any, place: str) -> None:
    """Check that keywords have the values that they can have, and that none would be lost."""
    if not isinstance(schema, dict):
        raise schema_error(place, "is neither an object nor true or false")
    for key, value in schema.items():
        if _has_no_condition(key, value) or (key == "$id" and place == "#"):
            continue
        if key == "$schema":
            if not (isinstance(value, str) and _DRAFT.fullmatch(value)):
                raise not_enforced(f"{json.dumps(value)[:80]}, a dialect that is not known,", place)
            continue
        if key not in _ENFORCED:
            raise not_enforced(key, place, _HINTS.get(key, ""))
        kind, words = _ENFORCED[key]
        if not isinstance(value, kind):
            raise schema_error(place, f"{key} is not {words}")
        if kind is list and not value and key != "required":
            raise schema_error(place, f"{key} is empty")
        if key == "required" and not all(isinstance(name, str) for name in value):
            raise schema_error(place, "required is not an array of strings")
    for key in schema.keys() & {"const", "enum"}:
        _check_value(schema[key], f"{place}/{key}", 0)
    for key in _NUMBERS:
        if key in schema:
            _check_number(schema, key, schema[key], place)
    _check_counts(schema, place)
    if "additionalItems" in schema and (
        "prefixItems" in schema or not isinstance(schema.get("items"), list)
    ):
        raise not_enforced("additionalItems without an array of items", place)
    _check_type(schema, place)


def _check_type(schema: dict[str, Any], place: str) -> None:
    kinds = schema.get("type", "null")
    for kind in kinds if isinstance(kinds, list) and kinds else [kinds]:
        if kind not in _TYPES:
            what = f"type {json.dumps(kind)[:40]} is none of {', '.join(_TYPES)}"
            raise schema_error(place, what)
    name = schema.get("format")
    is_known = name in _FORMATS or ("pattern" in schema and name in _FORMATS_BY_PATTERN)
    if name is not None and not is_known:
        raise not_enforced(f"the format {json.dumps(name)[:60]}", place)


def _check_number(schema: dict[str, Any], key: str, value: Any, place: str) -> None:
    if isinstance(value, bool) and key in ("exclusiveMinimum", "exclusiveMaximum"):
        return  # of draft 4: about its neighbor
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise schema_error(place, f"{key} is not a number")
    from_below = key in ("minimum", "exclusiveMinimum")
    if value > _LARGEST if from_below else value < -_LARGEST:
        raise not_enforced(f"{key} beyond {_LARGEST}, which is not exact everywhere,", place)
    if key != "multipleOf":
        return
    if value <= 0:
        raise schema_error(place, "multipleOf is not above 0")
    if value > _LARGEST_DIVISOR or value != int(value):
        what = f"multipleOf {value}: other than whole numbers up to {_LARGEST_DIVISOR}"
        raise not_enforced(what, place)
    if _IN_PLACE & schema.keys():
        raise not_enforced(f"multipleOf beside {min(_IN_PLACE & schema.keys())}", place)
    # where null or a text is valid, too, llguidance takes the schema without a word
    low = max(_numbers(schema, "minimum", "exclusiveMinimum"), default=-math.inf)
    high = min(_numbers(schema, "maximum", "exclusiveMaximum"), default=math.inf)
    if -math.inf < low <= high < math.inf and high // value * value < low:
        raise schema_error(place, f"no multiple of {value} is within its bounds")


def _numbers(schema: dict[str, Any], *keys: str) -> list[float]:
    return [schema[key] for key in keys if type(schema.get(key)) in (int, float)]


def _check_counts(schema: dict[str, Any], place: str) -> None:
    for low, high in _COUNTS.items():
        for key in (low, high):
            count = schema.get(key, 0)
            is_whole = type(count) is int or (type(count) is float and count.is_integer())
            if not is_whole or not 0 <= count <= _MOST_COUNT:
                raise schema_error(place, f"{key} is not a number of 0 to {_MOST_COUNT}")
        if schema.get(low, 0) > schema.get(high, _MOST_COUNT):
            raise schema_error(place, f"{low} {schema[low]} is more than {high} {schema[high]}")
    if schema.get("minProperties", 0) > len(set(schema.get("required", ()))) + 1:
        raise not_enforced("minProperties above the properties that are required and one", place)


def _check_value(value: Any, place: str, depth: int) -> None:
    """Check that an answer can hold a value of ``const`` or ``enum`` as it is."""
    if depth > 30:
        raise schema_error(place, "is nested too deeply")
    if isinstance(value, str):
        _check_text(value, place)
        if re.search("[\x00-\x07\x0b\x0e-\x1f\x7f]", value):
            raise not_enforced("a control character that JSON has only a number for", place)
    elif isinstance(value, dict):
        for name, member in value.items():
            _check_text(name, place)
            _check_value(member, f"{place}/{_reference_step(name)}", depth + 1)
    elif isinstance(value, list):
        for number, item in enumerate(value):
            _check_value(item, f"{place}/{number}", depth + 1)
    elif isinstance(value, (int, float)) and not abs(value) <= _LARGEST:
        raise not_enforced(f"a number beyond {_LARGEST}, which is not exact everywhere,", place)


def _check_text(text: str, place: str) -> None:
    if re.search(r"[\ud800-\udfff]", text):
        raise schema_error(place, "holds half a character")


def _reference_step(name: str) -> str:
    """Return a name as a ``$ref`` writes it."""
    return name.replace("~", "~0").replace("/", "~1")


def field_name(place: str) -> str:
    """Return what an error calls a place."""
    return "JSON schema" if place == "#" else f"JSON schema at {place[:200]}"


def schema_error(place: str, what: str) -> UsageError:
    """Return the error about something that no schema has."""
    return UsageError(what, field=field_name(place))


def not_enforced(what: str, place: str, hint: str = "") -> UnsupportedError:
    """Return the error about something that answers would not be held to."""
    return UnsupportedError(f"{what} cannot be enforced", field=field_name(place), hint=hint)


# -- whether values end


def _check_ends(schema: Any, definitions: dict[str, Any], places: dict[str, str]) -> None:
    """Check that values of a schema and its definitions, by name, can come to an end."""
    ending: set[str] = set()
    size = -1
    while size < len(ending):
        size = len(ending)
        ending |= {name for name, definition in definitions.items() if _ends(definition, ending)}
    for name, definition in definitions.items():
        if name not in ending and definition is not False:
            raise schema_error(places[name], "leads back to itself without an end")
    if not _ends(schema, ending):
        raise schema_error("#", "no finite value satisfies it")


def _ends(schema: Any, ending: set[str]) -> bool:
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema and schema["$ref"].rpartition("/")[2] not in ending:
        return False
    if not all(_ends(part, ending) for part in schema.get("allOf", ())):
        return False
    for key in ("anyOf", "oneOf"):
        if key in schema and not any(_ends(choice, ending) for choice in schema[key]):
            return False
    if "const" in schema or "enum" in schema:
        return True
    kinds = schema.get("type", _TYPES)
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if kinds - {"object", "array"}:
        return True
    if "object" in kinds and _object_ends(schema, ending):
        return True
    return "array" in kinds and _array_ends(schema, ending)


def _object_ends(schema: dict[str, Any], ending: set[str]) -> bool:
    properties, required = schema.get("properties", {}), schema.get("required", ())
    others = [
        *schema.get("patternProperties", {}).values(),
        schema.get("additionalProperties", True),
    ]
    for name in required:
        choices = [properties[name]] if name in properties else others
        if not any(_ends(choice, ending) for choice in choices):
            return False
    if schema.get("minProperties", 0) > len(required):
        return any(_ends(choice, ending) for choice in [*properties.values(), *others])
    return True


def _array_ends(schema: dict[str, Any], ending: set[str]) -> bool:
    first, least = schema.get("prefixItems", []), int(schema.get("minItems", 0))
    items = first[:least] + [schema.get("items", True)] * (least > len(first))
    return all(_ends(item, ending) for item in items)


# -- whether schemas exclude each other

_MOST_CHOICES = 100
"""Choices, each of which is compared with each."""
_DEEPEST_CHOICES = 20


def _are_exclusive(choices: list[Any], definitions: dict[str, Any]) -> bool:
    """Whether at most one of some schemas takes any value, as far as can be told."""
    if len(choices) > _MOST_CHOICES:
        return False
    schemas = [_resolve(choice, definitions) for choice in choices]
    return all(
        _exclude(schema, other, definitions, 0)
        for place, schema in enumerate(schemas)
        for other in schemas[place + 1 :]
    )


def _resolve(schema: Any, definitions: dict[str, Any]) -> Any:
    for _ in range(_DEEPEST_CHOICES):
        if not isinstance(schema, dict) or schema.keys() != {"$ref"}:
            break
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return schema


def _exclude(schema: Any, other: Any, definitions: dict[str, Any], depth: int) -> bool:
    if schema is False or other is False:
        return True
    if schema is True or other is True or depth > _DEEPEST_CHOICES:
        return False
    values, other_values = _listed_values(schema), _listed_values(other)
    if values is not None and other_values is not None:
        return not set(map(_value_text, values)) & set(map(_value_text, other_values))
    shared = _possible_types(schema) & _possible_types(other)
    if shared != {"object"}:
        return not shared
    mine, theirs = schema.get("properties", {}), other.get("properties", {})
    return any(
        _exclude(
            _resolve(mine[name], definitions), _resolve(theirs[name], definitions),
            definitions, depth + 1,
        )
        for name in {*schema.get("required", ()), *other.get("required", ())}
        if name in mine and name in theirs
    )  # fmt: skip


def _listed_values(schema: dict[str, Any]) -> list[Any] | None:
    if "const" in schema:
        return [schema["const"]]
    values: list[Any] | None = schema.get("enum")
    return values


def _value_text(value: Any) -> str:
    """Return a value as a text that is the same for values that are equal in JSON Schema."""
    if isinstance(value, dict):
        members = (f"{json.dumps(name)}:{_value_text(value[name])}" for name in sorted(value))
        return "{" + ",".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(map(_value_text, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


_JSON_TYPES = {
    bool: "boolean", int: "number", float: "number", type(None): "null", str: "string",
    list: "array", dict: "object",
}  # fmt: skip


def _possible_types(schema: dict[str, Any]) -> set[str]:
    """Return the types that a schema may allow, "integer" as "number"."""
    values = _listed_values(schema)
    if values is not None:
        return {_JSON_TYPES[type(value)] for value in values}
    kinds = schema.get("type", _TYPES)
    names = {kinds} if isinstance(kinds, str) else set(kinds)
    return {"number" if name == "integer" else name for name in names}


# -- the schema for llguidance

_DEEPEST = 40
"""Schemas in each other; llguidance reads JSON 128 levels deep."""
_DEEPEST_REFERENCES = 150
"""The same through ``$ref``: llguidance follows them on the stack."""
_MOST_PARTS = 20_000


class PreparedSchema:
    """A schema for llguidance.

    Attributes:
        definitions: By name, what its ``$ref`` name.
    """

    def __init__(self, schema: Any) -> None:
        if schema is False:
            raise schema_error("#", "nothing follows false")
        self.parts: dict[str, dict[str, Any]] = {}
        self.definitions: dict[str, Any] = {}
        self._source = schema
        self._names: dict[str, str] = {}  # of definitions, by place
        self._has_joined = False
        self._open: list[dict[str, Any]] = []
        self._choices: list[tuple[str, dict[str, Any]]] = []  # not of parts: a $ref reads one twice
        part = self._part(schema, "#", 0, 0)
        self.schema: dict[str, Any] = {} if part is True else part
        for place, part in self._choices:
            if _are_exclusive(part["oneOf"], self.definitions):
                if "anyOf" in part:
                    raise not_enforced("oneOf beside anyOf", place)
                part["anyOf"] = part.pop("oneOf")
        if not self._has_joined:
            for part in self._open:
                part["additionalProperties"] = False
        places = {name: place for place, name in self._names.items()}
        _check_ends(self.schema, self.definitions, places)
        if self.definitions:
            self.schema = {**self.schema, "$defs": self.definitions}

    def _part(self, schema: Any, place: str, depth: int, references: int) -> Any:
        if schema == {"not": {}}:
            return False
        if isinstance(schema, bool):
            return schema
        if depth > _DEEPEST or references > _DEEPEST_REFERENCES:
            raise schema_error(place, "is nested too deeply")
        if len(self.parts) >= _MOST_PARTS:
            raise schema_error(place, f"has more than {_MOST_PARTS} parts")
        _check_keywords(schema, place)
        schema = _with_name_patterns(schema, place)
        part: dict[str, Any] = {}
        self.parts[place] = part

        def inner(value: Any, *steps: object) -> Any:
            where = "/".join([place, *(_reference_step(str(step)) for step in steps)])
            return self._part(value, where, depth + 1, references + 1)

        for key, value in schema.items():
            if _has_no_condition(key, value) or key in ("$schema", "$id", "pattern", "format"):
                continue
            if key in _BY_NAME:
                part[key] = {
                    _name_key(key, name, place): inner(member, key, name)
                    for name, member in value.items()
                }
            elif key in _CHOICES or (key == "items" and isinstance(value, list)):
                name = "prefixItems" if key == "items" else key
                part[name] = [inner(choice, key, n) for n, choice in enumerate(value)]
            elif key in ("items", "additionalItems", "additionalProperties"):
                part["items" if key == "additionalItems" else key] = inner(value, key)
            elif key == "$ref":
                part[key] = self._reference(value, place, references)
            elif key in _WHOLE:
                part[key] = int(value)
            else:
                part[key] = value + 0 if type(value) in (int, float) else value  # 0.0 for -0.0
        if "oneOf" in part:
            self._choices.append((place, part))
        _add_patterns(part, schema, place)
        _bound_numbers(part, place)
        self._join(part, schema, place)
        return part

    def _join(self, part: dict[str, Any], schema: dict[str, Any], place: str) -> None:
        """See whether objects are joined, and whether this one says nothing of other properties."""
        for name in part.get("required", ()):
            _check_text(name, place)
        beside = _IN_PLACE & schema.keys()
        if beside and (len(beside) > 1 or _OF_OBJECTS & part.keys()):
            self._has_joined = True
        if len(schema.get("allOf", ())) > 1:
            self._has_joined = True
        says_others = not {"additionalProperties", "patternProperties"}.isdisjoint(part)
        required = set(part.get("required", ()))
        if "properties" in part and not says_others and part["properties"].keys() >= required:
            self._open.append(part)

    def _reference(self, reference: str, place: str, references: int) -> str:
        """Return what names the schema that a ``$ref`` names, reading that first."""
        if reference != "#" and not reference.startswith("#/"):
            raise not_enforced(
                f"the $ref {reference[:100]}, which is not a path within the schema,", place
            )
        if reference not in self._names:
            target: Any = self._source
            for step in unquote(reference).split("/")[1:]:
                name = step.replace("~1", "/").replace("~0", "~")
                try:
                    target = target[int(name) if isinstance(target, list) else name]
                except (KeyError, ValueError, IndexError, TypeError):
                    raise schema_error(place, f"$ref {reference[:100]} names nothing") from None
            self._names[reference] = name = f"d{len(self._names)}"
            self.definitions[name] = {}
            self.definitions[name] = self._part(target, reference, 0, references + 1)
        return f"#/$defs/{self._names[reference]}"


def _name_key(key: str, name: str, place: str) -> str:
    _check_text(name, place)
    return _portable_at(name, place) if key == "patternProperties" else name


def _add_patterns(part: dict[str, Any], schema: dict[str, Any], place: str) -> None:
    """Add pattern and format; llguidance takes one pattern, so that others go into ``allOf``."""
    patterns = [_portable_at(schema["pattern"], place)] if "pattern" in schema else []
    name = schema.get("format")
    if name in FORMAT_PATTERNS:
        patterns.append(portable_pattern(FORMAT_PATTERNS[name]))
    more: list[dict[str, Any]] = [{"pattern": pattern} for pattern in patterns[1:]]
    if patterns:
        part["pattern"] = patterns[0]
    if name in _FORMAT_BOUNDS:
        low, high = _FORMAT_BOUNDS[name]
        more.append({"minimum": low, "maximum": high})
    if more:
        part["allOf"] = [*part.get("allOf", ()), *more]


def _bound_numbers(part: dict[str, Any], place: str) -> None:
    """Bound numbers by what llguidance can tell apart, integers also where a schema does not.

    A small model may not find the end of an integer.
    """
    for bound, neighbor in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
        if part.get(bound) is False:
            del part[bound]
        elif part.get(bound) is True:  # draft 4
            if neighbor not in part:
                raise schema_error(place, f"{bound} is true, and there is no {neighbor}")
            part[bound] = part.pop(neighbor)
    kinds = part.get("type", ())
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    whole = "integer" in kinds and "number" not in kinds
    end = _LARGEST_INTEGER if whole else _LARGEST
    for sign, names in (
        (-1, ("minimum", "exclusiveMinimum")),
        (1, ("maximum", "exclusiveMaximum")),
    ):
        for name in names:
            if name in part and part[name] * sign > _LARGEST:
                part[name] = sign * (end if part[name] * sign > end else _LARGEST)
        if whole and not part.keys() & names:
            part[names[0]] = sign * end
        if not whole and names[1] in part:
            # llguidance lets a whole number pass that is excluded, if the other bound is near: so
            # the bound is the next number that may be written, of nine decimals.
            excluded = sign * part.pop(names[1])
            bound = min(excluded - 1e-9, math.nextafter(excluded, -math.inf))
            part[names[0]] = sign * min(bound, sign * part.get(names[0], sign * bound))


def _with_name_patterns(schema: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a schema that says by properties what it says of the names of properties."""
    names = schema.get("propertyNames", True)
    if _has_no_condition("propertyNames", names):
        return schema
    kind = names if isinstance(names, dict) else {}
    kind = {k: v for k, v in kind.items() if k != "type" and not _has_no_condition(k, v)}
    if len(kind) != 1 or {"properties", "patternProperties"} & schema.keys():
        raise not_enforced("propertyNames", place)
    (key, value), others = kind.popitem(), schema.get("additionalProperties", True)
    replaced = {**schema, "additionalProperties": False}
    del replaced["propertyNames"]
    if key == "pattern" and isinstance(value, str):
        return {**replaced, "patternProperties": {value: others}}
    if key != "enum" or not isinstance(value, list) or not all(isinstance(n, str) for n in value):
        raise not_enforced("propertyNames", place)
    return {**replaced, "properties": dict.fromkeys(value, others)}


def _portable_at(pattern: str, place: str) -> str:
    _check_text(pattern, place)
    try:
        return portable_pattern(pattern)
    except MtkitError as error:
        error.field = f"{field_name(place)}: {error.field}"
        raise


def parse_schema(text: str) -> Any:
    """Parse the JSON of a schema."""

    def refuse_constant(name: str) -> None:
        raise UsageError(f"{name} is not JSON", field="JSON schema")

    try:
        return json.loads(text, parse_constant=refuse_constant)
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        what = "is nested too deeply" if deep else f"is not JSON: {error}"
        raise UsageError(what, field="JSON schema") from None
