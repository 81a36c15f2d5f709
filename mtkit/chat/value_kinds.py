"""Types of values: what a schema allows, and what a text may mean."""

from __future__ import annotations

import ast
import json

from mtkit.chat.notation import WORDS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_LITERAL = 100_000
"""Characters of a value in Python's notation."""
KINDS: dict[type, str] = {
    str: "string", int: "integer", float: "number", bool: "boolean", type(None): "null",
    list: "array", dict: "object",
}  # fmt: skip
_ALL = frozenset(KINDS.values())


def kinds_of(schema: Any, depth: int = 0) -> frozenset[str]:
    """Return the types that a schema of a value allows; all where it does not say."""
    if not isinstance(schema, dict) or depth > 8:
        return _ALL
    kinds = schema.get("type")
    if isinstance(kinds, str):
        found = frozenset((kinds,))
    elif isinstance(kinds, list):
        found = frozenset(kind for kind in kinds if isinstance(kind, str))
    elif isinstance(schema.get("enum"), list):
        found = frozenset(KINDS.get(type(one), "string") for one in schema["enum"])
    elif "const" in schema:
        found = frozenset((KINDS.get(type(schema["const"]), "string"),))
    else:
        found = frozenset()
        for name in ("anyOf", "oneOf"):
            choices = schema.get(name)
            for one in choices if isinstance(choices, list) else ():
                found |= kinds_of(one, depth + 1)
    if "number" in found:
        found |= {"integer"}
    return found & _ALL or _ALL


def fitted(value: Any, schema: Any, depth: int = 0) -> Any:
    """Return a value of a notation that does not tell empty lists, objects and texts apart."""
    if not isinstance(schema, dict) or depth > 20:
        return value
    kinds = kinds_of(schema)
    if isinstance(value, dict):
        properties = schema.get("properties")
        known = properties if isinstance(properties, dict) else {}
        return {key: fitted(one, known.get(key), depth + 1) for key, one in value.items()}
    if isinstance(value, list):
        return [fitted(one, schema.get("items"), depth + 1) for one in value]
    if value == "" and "string" not in kinds:
        return [] if "array" in kinds else {} if "object" in kinds else value
    if kinds == {"string"} and not isinstance(value, str):
        return json.dumps(value)
    return value


def literal(text: str) -> Any:
    """Return what a literal of Python says; None where it is none."""
    if len(text) > MOST_LITERAL or max(text.count("["), text.count("{"), text.count("(")) > 200:
        return None
    try:
        found = ast.literal_eval(text.strip())
        return json.loads(json.dumps(found))
    except (ValueError, SyntaxError, TypeError, RecursionError, MemoryError):
        return WORDS.get(text.strip())


def written(arguments: Any) -> str:
    """Return arguments as JSON that can be sent."""
    return json.dumps(arguments, ensure_ascii=False).encode("utf-8", "replace").decode()
