"""JSON schemas as llguidance is given them; what it would not enforce is refused.

llguidance passes over what it does not know, reads patterns in a dialect of its own and follows
``$ref`` on the stack; so it is given a schema that holds only what it enforces, with definitions by
names of our own, formats and patterns as patterns on which all dialects agree, and no remarks.

Where a schema names properties and says nothing of others, an answer has no others: models would
go on and on. Where schemas are joined (``allOf``) others stay allowed, as the parts need each
other's.

Whether values that a schema describes can come to an end:

A schema may hold itself by ``$ref``: in a property that may be missing, in an array that may be
empty. Where it has to hold itself, no value follows it, and a model would write for ever.

Whether no value is valid by two of the schemas of a ``oneOf``: then it is an ``anyOf``.

Schemas exclude each other by their types, by the values that ``const`` and ``enum`` list, or by a
property that has to be there and whose values do, as the tags of pydantic's and zod's unions.
"""

from __future__ import annotations

import json
import math
from urllib.parse import unquote

from mtkit.errors import MtkitError, UsageError
from mtkit.llama.schema_keywords import (
    FORMAT_BOUNDS,
    FORMAT_PATTERNS,
    IN_PLACE,
    LARGEST,
    LARGEST_INTEGER,
    OF_OBJECTS,
    TYPES,
    WHOLE,
    check_keywords,
    check_text,
    field_name,
    not_enforced,
    portable_pattern,
    reference_step,
    says_nothing,
    schema_error,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


def check_ends(schema: Any, definitions: dict[str, Any], places: dict[str, str]) -> None:
    """See that all values of a schema and its definitions end.

    Args:
        definitions: By name, what its ``$ref`` name.
    """
    ending: set[str] = set()
    found = True
    while found:
        found = False
        for name, one in definitions.items():
            if name not in ending and _ends(one, ending):
                ending.add(name)
                found = True
    for name, one in definitions.items():
        if name not in ending and one is not False:
            raise schema_error(places[name], "leads back to itself without an end")
    if not _ends(schema, ending):
        raise schema_error("#", "no finite value satisfies it")


def _ends(schema: Any, ending: set[str]) -> bool:
    if isinstance(schema, bool):
        return schema
    if "$ref" in schema and schema["$ref"].rpartition("/")[2] not in ending:
        return False
    if not all(_ends(one, ending) for one in schema.get("allOf", ())):
        return False
    for key in ("anyOf", "oneOf"):
        if key in schema and not any(_ends(one, ending) for one in schema[key]):
            return False
    if "const" in schema or "enum" in schema:
        return True
    kinds = schema.get("type", TYPES)
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if kinds - {"object", "array"}:
        return True
    if "object" in kinds and _object_ends(schema, ending):
        return True
    return "array" in kinds and _array_ends(schema, ending)


def _object_ends(schema: dict[str, Any], ending: set[str]) -> bool:
    others = schema.get("additionalProperties", True)
    named = schema.get("properties", {})
    patterns = list(schema.get("patternProperties", {}).values())
    for name in schema.get("required", ()):
        choices = [named[name]] if name in named else [others, *patterns]
        if not any(_ends(one, ending) for one in choices):
            return False
    if schema.get("minProperties", 0) > len(schema.get("required", ())):
        return any(_ends(one, ending) for one in [*named.values(), *patterns, others])
    return True


def _array_ends(schema: dict[str, Any], ending: set[str]) -> bool:
    first = schema.get("prefixItems", [])
    least = int(schema.get("minItems", 0))
    needed = first[:least] + [schema.get("items", True)] * (least > len(first))
    return all(_ends(one, ending) for one in needed)


_MOST_CHOICES = 100
"""Choices, each of which is compared with each."""
_DEEPEST_CHOICES = 20


def are_exclusive(choices: list[Any], definitions: dict[str, Any]) -> bool:
    """Whether at most one of some schemas takes any value, as far as can be told.

    Args:
        choices: Schemas as they are given to llguidance.
        definitions: By name, what their ``$ref`` name.
    """
    if len(choices) > _MOST_CHOICES:
        return False
    found = [_resolve(one, definitions) for one in choices]
    return all(
        _exclude(one, other, definitions, 0)
        for place, one in enumerate(found)
        for other in found[place + 1 :]
    )


def _resolve(schema: Any, definitions: dict[str, Any]) -> Any:
    for _ in range(_DEEPEST_CHOICES):
        if not isinstance(schema, dict) or schema.keys() != {"$ref"}:
            break
        schema = definitions[schema["$ref"].rpartition("/")[2]]
    return schema


def _exclude(one: Any, other: Any, definitions: dict[str, Any], depth: int) -> bool:
    if one is False or other is False:
        return True
    if one is True or other is True or depth > _DEEPEST_CHOICES:
        return False
    values, others = _listed_values(one), _listed_values(other)
    if values is not None and others is not None:
        return not values & others
    kinds, other_kinds = _possible_types(one), _possible_types(other)
    if not kinds & other_kinds:
        return True
    if kinds & other_kinds != {"object"}:
        return False
    mine, theirs = one.get("properties", {}), other.get("properties", {})
    return any(
        _exclude(
            _resolve(mine[name], definitions), _resolve(theirs[name], definitions),
            definitions, depth + 1,
        )
        for name in {*one.get("required", ()), *other.get("required", ())}
        if name in mine and name in theirs
    )  # fmt: skip


def _listed_values(schema: dict[str, Any]) -> set[str] | None:
    """Return the values that a schema lists, equal numbers as equal texts; None: it does not."""
    if "const" in schema:
        return {_value_text(schema["const"])}
    return {_value_text(value) for value in schema["enum"]} if "enum" in schema else None


def _value_text(value: Any) -> str:
    """Return a value as a text that is the same for values that are equal in JSON Schema."""
    if isinstance(value, dict):
        return (
            "{" + ",".join(f"{json.dumps(k)}:{_value_text(value[k])}" for k in sorted(value)) + "}"
        )
    if isinstance(value, list):
        return "[" + ",".join(map(_value_text, value)) + "]"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return json.dumps(value)


def _possible_types(schema: dict[str, Any]) -> set[str]:
    """Return the types that a schema may allow, "integer" as "number"."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is not None:
        return {_type_name(value) for value in values}
    kinds = schema.get("type", ["null", "boolean", "object", "array", "string", "number"])
    named = {kinds} if isinstance(kinds, str) else set(kinds)
    return {"number" if kind == "integer" else kind for kind in named}


def _type_name(value: Any) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, (int, float)):
        return "number"
    names = {type(None): "null", str: "string", list: "array", dict: "object"}
    return names[type(value)]


_DEEPEST = 40
"""Schemas in each other; llguidance reads JSON 128 levels deep."""
_DEEPEST_REFERENCES = 150
"""The same through ``$ref``: llguidance follows them on the stack."""
_MOST_PARTS = 20_000
_EXCLUSIVE_STEP = 1e-9
"""From a number that is excluded to the next that may be written."""
_BY_NAME = ("properties", "patternProperties")
_OTHERS = ("additionalProperties", "patternProperties")


class PreparedSchema:
    """A schema for llguidance."""

    def __init__(self, schema: Any) -> None:
        """Read a schema."""
        if schema is False:
            raise schema_error("#", "nothing follows false")
        self.parts: dict[str, dict[str, Any]] = {}
        self._schema = schema
        self._names: dict[str, str] = {}
        self._joined = False
        self._open: list[dict[str, Any]] = []
        self._choices: list[tuple[str, dict[str, Any]]] = []
        self.definitions: dict[str, Any] = {}
        made = self._part(schema, "#", 0, 0)
        self.schema: dict[str, Any] = {} if made is True else made
        for place, one in self._choices:
            if are_exclusive(one["oneOf"], self.definitions):
                if "anyOf" in one:
                    raise not_enforced("oneOf beside anyOf", place)
                one["anyOf"] = one.pop("oneOf")
        if not self._joined:
            for one in self._open:
                one["additionalProperties"] = False
        places = {name: place for place, name in self._names.items()}
        check_ends(self.schema, self.definitions, places)
        if self.definitions:
            self.schema = {**self.schema, "$defs": self.definitions}

    def _part(self, schema: Any, place: str, depth: int, references: int) -> Any:
        if schema == {"not": {}}:
            return False
        if isinstance(schema, bool):
            return schema
        if not isinstance(schema, dict):
            raise schema_error(place, "is neither an object nor true or false")
        if depth > _DEEPEST or references > _DEEPEST_REFERENCES:
            raise schema_error(place, "is nested too deeply")
        if len(self.parts) >= _MOST_PARTS:
            raise schema_error(place, f"has more than {_MOST_PARTS} parts")
        check_keywords(schema, place)
        schema = _with_name_patterns(schema, place)
        made: dict[str, Any] = {}
        self.parts[place] = made
        patterns: list[str] = []
        more: list[dict[str, Any]] = []

        def part(inner: Any, *steps: object) -> Any:
            where = "/".join([place, *(reference_step(str(step)) for step in steps)])
            return self._part(inner, where, depth + 1, references + 1)

        for key, value in schema.items():
            if says_nothing(key, value) or key in ("$schema", "$id"):
                continue
            if key in _BY_NAME:
                made[key] = self._by_name(key, value, place, part)
            elif key in ("allOf", "anyOf", "oneOf", "prefixItems"):
                made[key] = [part(one, key, n) for n, one in enumerate(value)]
            elif key == "items" and isinstance(value, list):
                made["prefixItems"] = [part(one, key, n) for n, one in enumerate(value)]
            elif key in ("items", "additionalProperties"):
                made[key] = part(value, key)
            elif key == "$ref":
                made[key] = self._reference(value, place, references)
            elif key == "pattern":
                patterns.append(_portable_at(value, place))
            elif key == "format":
                self._format(value, patterns, more)
            elif key == "additionalItems":
                self._additional(schema, made, part, place)
            elif key not in ("exclusiveMinimum", "exclusiveMaximum") or value is not False:
                is_number = type(value) in (int, float)
                made[key] = int(value) if key in WHOLE else value + 0 if is_number else value
        if patterns:
            made["pattern"] = patterns.pop(0)
        more += [{"pattern": one} for one in patterns]
        if more:
            made["allOf"] = [*made.get("allOf", ()), *more]
        return self._joined_up(schema, made, place)

    def _by_name(
        self, key: str, value: dict[str, Any], place: str, part: Callable[..., Any]
    ) -> dict[str, Any]:
        made = {}
        for name, inner in value.items():
            check_text(name, place)
            written = _portable_at(name, place) if key == "patternProperties" else name
            made[written] = part(inner, key, name)
        return made

    def _joined_up(self, schema: dict[str, Any], made: dict[str, Any], place: str) -> Any:
        """Say what keywords mean together: draft 4's bounds, choices, joined and open objects."""
        for bound, neighbor in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if made.get(bound) is True:
                if neighbor not in made:
                    raise schema_error(place, f"{bound} is true, and there is no {neighbor}")
                made[bound] = made.pop(neighbor)
        _bound_numbers(made)
        if "oneOf" in made:
            self._choices.append((place, made))
        if "required" in made:
            for name in made["required"]:
                check_text(name, place)
        beside = {key for key in schema if key in IN_PLACE}
        if beside and (OF_OBJECTS & made.keys() or beside != {min(beside)}):
            self._joined = True
        if len(schema.get("allOf", ())) > 1:
            self._joined = True
        if "properties" in made and not any(key in made for key in _OTHERS) and (
            made["properties"].keys() >= set(made.get("required", ()))
        ):  # fmt: skip
            self._open.append(made)
        return made

    def _format(self, name: str, patterns: list[str], more: list[dict[str, Any]]) -> None:
        if name in FORMAT_PATTERNS:
            patterns.append(portable_pattern(FORMAT_PATTERNS[name]))
        elif name in FORMAT_BOUNDS:
            least, most = FORMAT_BOUNDS[name]
            more.append({"minimum": least, "maximum": most})

    def _additional(
        self, schema: dict[str, Any], made: dict[str, Any], part: Callable[..., Any], place: str
    ) -> None:
        if not isinstance(schema.get("items"), list) or "prefixItems" in schema:
            raise not_enforced("additionalItems without an array of items", place)
        made["items"] = part(schema["additionalItems"], "additionalItems")

    def _reference(self, reference: str, place: str, references: int) -> str:
        """Return what names the schema that a ``$ref`` names, reading that first."""
        if reference != "#" and not reference.startswith("#/"):
            raise not_enforced(
                f"the $ref {reference[:100]}, which is not a path within the schema,", place
            )
        if reference not in self._names:
            target: Any = self._schema
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


def _bound_numbers(made: dict[str, Any]) -> None:
    """Bound numbers by what llguidance can tell apart, integers also where a schema does not.

    A small model may not find the end of an integer.
    """
    kinds = made.get("type", ())
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    whole = "integer" in kinds and "number" not in kinds
    end = LARGEST_INTEGER if whole else LARGEST
    for sign, names in (
        (-1, ("minimum", "exclusiveMinimum")),
        (1, ("maximum", "exclusiveMaximum")),
    ):
        for name in names:
            if name in made and made[name] * sign > LARGEST:
                made[name] = sign * (end if made[name] * sign > end else LARGEST)
        if whole and not made.keys() & names:
            made[names[0]] = sign * end
        if not whole and names[1] in made:
            # llguidance lets a whole number pass that is excluded, if the other bound is near.
            excluded = made.pop(names[1])
            beside = max(
                sign * -excluded + _EXCLUSIVE_STEP, math.nextafter(sign * -excluded, math.inf)
            )
            bound = -sign * beside
            made[names[0]] = sign * min(sign * bound, sign * made.get(names[0], bound))


def _with_name_patterns(schema: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a schema that says by properties what it says of the names of properties."""
    names = schema.get("propertyNames", True)
    if says_nothing("propertyNames", names):
        return schema
    kind = names if isinstance(names, dict) else {}
    kind = {k: v for k, v in kind.items() if k != "type" and not says_nothing(k, v)}
    if len(kind) != 1 or {"properties", "patternProperties"} & schema.keys():
        raise not_enforced("propertyNames", place)
    (key, value), others = kind.popitem(), schema.get("additionalProperties", True)
    made = {**schema, "additionalProperties": False}
    del made["propertyNames"]
    if key == "pattern" and isinstance(value, str):
        return {**made, "patternProperties": {value: others}}
    if key != "enum" or not isinstance(value, list) or not all(isinstance(n, str) for n in value):
        raise not_enforced("propertyNames", place)
    return {**made, "properties": dict.fromkeys(value, others)}


def _portable_at(pattern: str, place: str) -> str:
    check_text(pattern, place)
    try:
        return portable_pattern(pattern)
    except MtkitError as error:
        error.field = f"{field_name(place)}: {error.field}"
        raise


def parse_schema(text: str) -> Any:
    """Read the JSON of a schema."""

    def constant(name: str) -> None:
        raise UsageError(f"{name} is not JSON", field="JSON schema")

    try:
        return json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        what = "is nested too deeply" if deep else f"is not JSON: {error}"
        raise UsageError(what, field="JSON schema") from None
