"""What of a JSON schema becomes a grammar; the rest is refused instead of being left out.

llama-cpp-python's converter passes over keywords that it does not know, so that an answer could
break a schema that it was asked to follow, and takes the digits of a pattern for a letter. Here a
schema is read first: what would be lost is an error that names it, and patterns are written with
what the converter and GBNF have. Characters that JSON writes as escapes cannot be in a pattern.

Source: llama_cpp/llama_grammar.py of llama-cpp-python 0.3.36 (``SchemaConverter.visit``).
"""

from __future__ import annotations

import re

from mtkit.errors import UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MOST_REPEATS = 2000
_DROPPED = {
    "not", "if", "then", "else", "patternProperties", "propertyNames", "uniqueItems", "contains",
    "minContains", "maxContains", "minProperties", "maxProperties", "dependentRequired",
    "dependentSchemas", "dependencies", "additionalItems", "unevaluatedProperties",
    "unevaluatedItems", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
}  # fmt: skip
_OF_ONE_TYPE = {
    "properties", "required", "additionalProperties", "items", "prefixItems", "minItems",
    "maxItems", "pattern", "minLength", "maxLength",
}  # fmt: skip
_MANY = ("anyOf", "oneOf", "allOf", "prefixItems")
_NAMED = ("properties", "$defs", "definitions")
_ONE = ("items", "additionalProperties")
_COUNTS = (("minLength", "maxLength"), ("minItems", "maxItems"))
_TOKEN = re.compile(r"\\(.)|\[(\^?)((?:\\.|[^\]\\])*)\]|\(\?|.", re.DOTALL)
_ESCAPES = {"d": "0-9", "w": "A-Za-z0-9_", "s": " "}
ANY = '[^"\\\\\\x00-\\x1F\\U00110000-\\U7FFFFFFF]'
"""What JSON takes in a string as it is; llama.cpp reads bad UTF-8 as numbers beyond Unicode."""


def prepared(schema: Any) -> Any:
    """Return a schema that the converter turns into a grammar whole.

    Raises:
        UnsupportedError: A keyword or a pattern would be lost.
        UsageError: It contradicts itself.
    """
    if not isinstance(schema, dict):
        return schema
    _check(schema)
    made = dict(schema)
    if isinstance(schema.get("pattern"), str):
        made["pattern"] = _pattern(schema["pattern"])
    for name in _ONE:
        if name in schema:
            value = schema[name]
            listed = isinstance(value, list)
            made[name] = [prepared(part) for part in value] if listed else prepared(value)
    for name in _MANY:
        if isinstance(schema.get(name), list):
            made[name] = [prepared(part) for part in schema[name]]
    for name in _NAMED:
        if isinstance(schema.get(name), dict):
            made[name] = {key: prepared(part) for key, part in schema[name].items()}
    return made


def _check(schema: dict[str, Any]) -> None:
    keys = set(schema)
    lost = sorted(keys & _DROPPED)
    if {"$ref", "anyOf", "oneOf"} & keys or isinstance(schema.get("type"), list):
        lost += sorted(keys & _OF_ONE_TYPE)
    elif "pattern" in keys:
        lost += sorted(keys & {"minLength", "maxLength", "format"})
    elif not {"items", "prefixItems"} & keys:
        lost += sorted(keys & {"minItems", "maxItems"})
    properties = schema.get("properties", {})
    if "allOf" not in keys and not set(schema.get("required", ())) <= set(properties):
        lost.append("required")
    for part in schema.get("allOf", ()):
        if not isinstance(part, dict) or not {"$ref", "properties", "anyOf"} & set(part):
            lost.append("allOf")
    if lost:
        raise UnsupportedError(
            f"{lost[0]} cannot be turned into a grammar here", field="JSON schema"
        )
    for low, high in _COUNTS:
        least, most = schema.get(low, 0), schema.get(high, MOST_REPEATS)
        if not (type(least) is type(most) is int and 0 <= least <= MOST_REPEATS >= most):
            raise UsageError(f"{low}, {high}: not 0 to {MOST_REPEATS}", field="JSON schema")
        if least > most:
            raise UsageError(f"{low} {least} is more than {high} {most}", field="JSON schema")


def _pattern(pattern: str) -> str:
    """Return a regular expression with what the converter and GBNF have.

    Raises:
        UnsupportedError: It says something else.
        UsageError: It is none.
    """

    def refused(what: str, hint: str = "") -> UnsupportedError:
        return UnsupportedError(
            f"{what} cannot be turned into a grammar", field=f"pattern {pattern}", hint=hint
        )

    try:
        re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise UsageError(str(error), field=f"pattern {pattern}") from None
    if pattern[:1] != "^" or not re.search(r"(?<!\\)(?:\\\\)*\$\Z", pattern):
        raise refused("a part of a text", "begin with ^ and end with $")
    if re.search(r"(?<!\\)[*+?}][*+?]", pattern):
        raise refused("a quantifier after another")
    if any(int(number) > MOST_REPEATS for number in re.findall(r"\d+(?=[},])", pattern)):
        raise refused(f"a repetition above {MOST_REPEATS}")
    made, depth = ["^"], 0
    for found in _TOKEN.finditer(pattern, 1, len(pattern) - 1):
        text, escaped, negated, inner = found[0], found[1], found[2], found[3]
        depth += (text == "(") - (text == ")")
        if escaped in _ESCAPES:
            made.append(f"[{_ESCAPES[escaped]}]")
        elif inner is not None:
            plain = re.sub(r"\\([dws])", lambda match: _ESCAPES[match[1]], inner)
            if re.search(r"\\[\w\\\"]|[\"\x00-\x1f]", plain):
                raise refused(text)
            plain = re.sub(r"\\(.)", lambda match: _hex(match[1]), plain)
            made.append(f"[^{plain}{ANY[2:]}" if negated else f"[{plain}]")
        elif (escaped and (escaped.isalnum() or escaped in '"\\')) or text in ("^", "$", "(?"):
            raise refused(text)
        elif escaped:
            made.append(f"[{_hex(escaped)}]")
        elif text == '"' or text < " ":
            raise refused("a character that JSON escapes")
        elif text == "|" and not depth:
            raise refused("a choice outside parentheses")
        else:
            made.append(ANY if text == "." else text)
    return "".join(made) + "$"


def _hex(character: str) -> str:
    """Return a character as GBNF writes it by its number."""
    return f"\\x{ord(character):02X}" if character < "\x7f" else f"\\U{ord(character):08X}"
