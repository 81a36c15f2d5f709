"""Whether values that a schema describes can come to an end.

A schema may hold itself by ``$ref``: in a property that may be missing, in an array that may be
empty. Where it has to hold itself, no value follows it, and a model would write for ever.
"""

from __future__ import annotations

from mtkit.llama.schema_keywords import TYPES, wrong

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


def check_ends(schema: Any, definitions: dict[str, Any], places: dict[str, str]) -> None:
    """See that all values of a schema and its definitions end.

    Args:
        schema: As it is given to llguidance.
        definitions: By name, what its ``$ref`` name.
        places: Name of each to its place.

    Raises:
        UsageError: Those of one cannot.
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
            raise wrong(places[name], "leads back to itself without an end")
    if not _ends(schema, ending):
        raise wrong("#", "no finite value satisfies it")


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
