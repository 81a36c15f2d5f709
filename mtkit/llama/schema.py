"""JSON schemas as llguidance is given them; what it would not enforce is refused.

llguidance passes over what it does not know, reads patterns in a dialect of its own and follows
``$ref`` on the stack; so it is given a schema that holds only what it enforces, with definitions by
names of our own, formats and patterns as patterns on which all dialects agree, and no remarks.

Where a schema names properties and says nothing of others, an answer has no others: models would
go on and on. Where schemas are joined (``allOf``) others stay allowed, as the parts need each
other's.
"""

from __future__ import annotations

import json
import math
from urllib.parse import unquote

from mtkit.errors import MtkitError, UsageError
from mtkit.llama.formats import BOUNDS, LARGEST_INTEGER, PATTERNS
from mtkit.llama.pattern import portable
from mtkit.llama.schema_ends import check_ends
from mtkit.llama.schema_exclusive import are_exclusive
from mtkit.llama.schema_keywords import (
    IN_PLACE,
    LARGEST,
    OF_OBJECTS,
    WHOLE,
    check,
    check_text,
    field_of,
    lost,
    says_nothing,
    step_of,
    wrong,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_DEEPEST = 40
"""Schemas in each other; llguidance reads JSON 128 levels deep."""
_DEEPEST_REFERENCES = 150
"""The same through ``$ref``: llguidance follows them on the stack."""
_MOST_PARTS = 20_000
_STEP = 1e-9
"""From a number that is excluded to the next that may be written."""
_BY_NAME = ("properties", "patternProperties")
_OTHERS = ("additionalProperties", "patternProperties")


class Prepared:
    """A schema for llguidance.

    Attributes:
        schema: The schema.
        parts: Place to what is there in it, for finding the part that it cannot follow.
    """

    def __init__(self, schema: Any) -> None:
        """Read a schema.

        Raises:
            UnsupportedError: A part of it cannot be enforced.
            UsageError: It is no schema, or contradicts itself.
        """
        if schema is False:
            raise wrong("#", "nothing follows false")
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
                    raise lost("oneOf beside anyOf", place)
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
            raise wrong(place, "is neither an object nor true or false")
        if depth > _DEEPEST or references > _DEEPEST_REFERENCES:
            raise wrong(place, "is nested too deeply")
        if len(self.parts) >= _MOST_PARTS:
            raise wrong(place, f"has more than {_MOST_PARTS} parts")
        check(schema, place)
        schema = _with_names(schema, place)
        made: dict[str, Any] = {}
        self.parts[place] = made
        patterns: list[str] = []
        more: list[dict[str, Any]] = []

        def part(inner: Any, *steps: object) -> Any:
            where = "/".join([place, *(step_of(str(step)) for step in steps)])
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
                patterns.append(_portable(value, place))
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
            written = _portable(name, place) if key == "patternProperties" else name
            made[written] = part(inner, key, name)
        return made

    def _joined_up(self, schema: dict[str, Any], made: dict[str, Any], place: str) -> Any:
        """Say what keywords mean together: draft 4's bounds, choices, joined and open objects."""
        for bound, neighbor in (("exclusiveMinimum", "minimum"), ("exclusiveMaximum", "maximum")):
            if made.get(bound) is True:
                if neighbor not in made:
                    raise wrong(place, f"{bound} is true, and there is no {neighbor}")
                made[bound] = made.pop(neighbor)
        _bound(made)
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
        if name in PATTERNS:
            patterns.append(portable(PATTERNS[name]))
        elif name in BOUNDS:
            least, most = BOUNDS[name]
            more.append({"minimum": least, "maximum": most})

    def _additional(
        self, schema: dict[str, Any], made: dict[str, Any], part: Callable[..., Any], place: str
    ) -> None:
        if not isinstance(schema.get("items"), list) or "prefixItems" in schema:
            raise lost("additionalItems without an array of items", place)
        made["items"] = part(schema["additionalItems"], "additionalItems")

    def _reference(self, reference: str, place: str, references: int) -> str:
        """Return what names the schema that a ``$ref`` names, reading that first."""
        if reference != "#" and not reference.startswith("#/"):
            raise lost(f"the $ref {reference[:100]}, which is not a path within the schema,", place)
        if reference not in self._names:
            target: Any = self._schema
            for step in unquote(reference).split("/")[1:]:
                name = step.replace("~1", "/").replace("~0", "~")
                try:
                    target = target[int(name) if isinstance(target, list) else name]
                except (KeyError, ValueError, IndexError, TypeError):
                    raise wrong(place, f"$ref {reference[:100]} names nothing") from None
            self._names[reference] = name = f"d{len(self._names)}"
            self.definitions[name] = {}
            self.definitions[name] = self._part(target, reference, 0, references + 1)
        return f"#/$defs/{self._names[reference]}"


def _bound(made: dict[str, Any]) -> None:
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
            beside = max(sign * -excluded + _STEP, math.nextafter(sign * -excluded, math.inf))
            bound = -sign * beside
            made[names[0]] = sign * min(sign * bound, sign * made.get(names[0], bound))


def _with_names(schema: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a schema that says by properties what it says of the names of properties."""
    names = schema.get("propertyNames", True)
    if says_nothing("propertyNames", names):
        return schema
    kind = names if isinstance(names, dict) else {}
    kind = {k: v for k, v in kind.items() if k != "type" and not says_nothing(k, v)}
    if len(kind) != 1 or {"properties", "patternProperties"} & schema.keys():
        raise lost("propertyNames", place)
    (key, value), others = kind.popitem(), schema.get("additionalProperties", True)
    made = {**schema, "additionalProperties": False}
    del made["propertyNames"]
    if key == "pattern" and isinstance(value, str):
        return {**made, "patternProperties": {value: others}}
    if key != "enum" or not isinstance(value, list) or not all(isinstance(n, str) for n in value):
        raise lost("propertyNames", place)
    return {**made, "properties": dict.fromkeys(value, others)}


def _portable(pattern: str, place: str) -> str:
    check_text(pattern, place)
    try:
        return portable(pattern)
    except MtkitError as error:
        error.field = f"{field_of(place)}: {error.field}"
        raise


def read_schema(text: str) -> Any:
    """Read the JSON of a schema.

    Raises:
        UsageError: It is none.
    """

    def constant(name: str) -> None:
        raise UsageError(f"{name} is not JSON", field="JSON schema")

    try:
        return json.loads(text, parse_constant=constant)
    except (ValueError, RecursionError) as error:
        deep = isinstance(error, RecursionError)
        what = "is nested too deeply" if deep else f"is not JSON: {error}"
        raise UsageError(what, field="JSON schema") from None
