"""What the bodies of all APIs share, and how one is read."""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from mtkit.serve.replies import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.serve.bodies.unknown import Unknown

MOST_BODY = 4 << 20
MOST_GRAMMAR = 64 << 10
"""Bytes of a grammar or a schema."""

Stop = Annotated[str, Meta(max_length=1000)]
Stops = Annotated[list[Stop], Meta(max_length=256)]
Count = Annotated[int, Meta(ge=1, le=1 << 31)]
Limit = Annotated[int, Meta(ge=-1, le=1 << 31)]
"""Of tokens; -1: as many as fit."""
Id = Annotated[int, Meta(ge=0, lt=1 << 31)]


def entry(*required: str, **properties: Any) -> dict[str, Any]:
    """Return what /openapi.json says of an object that is read when it is used."""
    return {"type": "object", "properties": properties, "required": list(required)}


STRING = {"type": "string"}
TEXT = {"anyOf": [STRING, {"type": "array", "items": entry("text", text=STRING)}]}
MANY = Meta(min_length=1, max_length=10_000)


_MISSING = re.compile(r"Object missing required field `(.+)`")
_EXPECTED = re.compile(r"Expected `([^`]+)`([^,]*)(?:, got `([^`]+)`)?")
_CHOSEN = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_KINDS = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text",
    "array": "a list", "object": "an object",
}  # fmt: skip

S = TypeVar("S", bound=Struct)


def read(kind: type[S], body: dict[str, Any], unknown: Unknown) -> S:
    """Return a body.

    Args:
        kind: Its record.
        body: The JSON object.
        unknown: What becomes of fields that the record does not have.

    Raises:
        Problem: Something is missing, of another type or out of range, or asks for what cannot be.
    """
    found, rest = split(kind, body)
    unknown.see(rest)
    return found


def split(kind: type[S], body: dict[str, Any]) -> tuple[S, dict[str, Any]]:
    """Return a body, and the fields that its record does not have.

    Raises:
        Problem: Something is missing, of another type or out of range.
    """
    own = kind.__struct_fields__
    given = {name: value for name, value in body.items() if value is not None}
    rest = {name: value for name, value in given.items() if name not in own}
    try:
        found = msgspec.convert({name: given[name] for name in own if name in given}, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise misread(str(error)) from None
    return found, rest


def misread(said: str) -> Problem:
    """Return msgspec's error in the words of the other errors."""
    what, _, place = said.partition(" - at `$")
    field = place.strip("`.")
    if missing := _MISSING.fullmatch(what):
        field, what = f"{field}.{missing[1]}".strip("."), "is missing"
    elif found := _EXPECTED.fullmatch(what):
        wanted = [_named(kind) for kind in found[1].split(" | ") if kind != "null"]
        given = f"is {_named(found[3])}, not" if found[3] else "is not"
        what = f"{given} {' or '.join(wanted)}{found[2]}"
    elif found := _CHOSEN.fullmatch(what):
        what = f"is {found[1]}, which is none of what can be chosen"
    return Problem(400, f"{field}: {what}" if field else what, field=field or None)


def _named(kind: str) -> str:
    return _KINDS.get(kind, kind)
