"""JSON schemas as grammars; what a grammar would leave out is refused.

A schema becomes a rule, one for each place of it that a ``$ref`` names, so schemas may contain
themselves. Values are written as ``json.dumps`` writes them, a character that has no need of an
escape as it is. Properties that are required come first. Keywords that say nothing about values,
and formats other than dates, times and UUIDs, count as remarks.
"""

from __future__ import annotations

import re

from mtkit.errors import MtkitError, UnsupportedError, UsageError
from mtkit.llama.gbnf import ANY, literal, pattern_rule, repeated
from mtkit.llama.schema_keywords import (
    FORMATS,
    OF_ONE_TYPE,
    TYPES,
    WHOLE,
    check,
    dumped,
    field_of,
    has_type,
    lost_error,
    step_of,
    wrong,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_UUID = ' "-" '.join(f"[0-9a-fA-F]{{{n}}}" for n in (8, 4, 4, 4, 12))
_RULES = {
    "space": '" "?',
    "boolean": '("true" | "false") space',
    "null": '"null" space',
    "integral": "[0-9] | [1-9] [0-9]{0,15}",
    "number": '"-"? integral ("." [0-9]{1,16})? ([eE] [-+]? integral)? space',
    "integer": '"-"? integral space',
    "char": rf'{ANY} | "\\" (["\\/bfnrt] | "u" [0-9a-fA-F]{{4}})',
    "string": r'"\"" char* "\"" space',
    "array": '"[" space (value ("," space value)*)? "]" space',
    "object": '"{" space (string ":" space value ("," space string ":" space value)*)? "}" space',
    "value": "object | array | string | number | boolean | null",
    "date": '[0-9]{4} "-" ("0" [1-9] | "1" [0-2]) "-" ("0" [1-9] | [1-2] [0-9] | "3" [0-1])',
    "hour": '([01] [0-9] | "2" [0-3]) ":" [0-5] [0-9]',
    "time": 'hour ":" [0-5] [0-9] ("." [0-9]{3})? ("Z" | [-+] hour)',
    "uuid": _UUID,
}


def grammar_of(schema: Any) -> str:
    """Return the grammar of a schema, in GBNF.

    Raises:
        UnsupportedError: A keyword or a pattern would be lost.
        UsageError: It is no schema, or contradicts itself.
    """
    rules = _Rules(schema)
    try:
        root = rules.visit(schema, "#", frozenset())
    except RecursionError:
        raise UsageError("is nested too deeply", field="JSON schema") from None
    return "\n".join([f"root ::= {root}", *(f"{n} ::= {text}" for n, text in rules.made.items())])


class _Rules:
    """The rules of a schema.

    Attributes:
        made: Name to text.
    """

    def __init__(self, schema: Any) -> None:
        self.made: dict[str, str] = {}
        self._schema = schema
        self._names: dict[str, str] = {}  # text -> name
        self._refs: dict[str, str] = {}  # $ref -> name

    def add(self, text: str) -> str:
        """Return the name of a rule with this text."""
        if text not in self._names:
            self._names[text] = name = f"r{len(self.made)}"
            self._use(text)
            self.made[name] = text
        return self._names[text]

    def _use(self, text: str) -> None:
        """Add the rules of ``_RULES`` that a text names."""
        for name in re.findall(r'"(?:[^"\\]|\\.)*"|\[(?:[^\]\\]|\\.)*\]|[a-z]+', text):
            if name in _RULES and name not in self.made:
                self.made[name] = _RULES[name]
                self._use(_RULES[name])

    def visit(self, schema: Any, place: str, passed: frozenset[str]) -> str:
        """Return the name of the rule of a schema.

        Args:
            schema: The schema.
            place: Where it is, as a ``$ref`` says it.
            passed: What ``$ref`` named on the way here without anything written in between.
        """
        if schema is True:
            return self.add("value")
        if not isinstance(schema, dict):
            what = "nothing follows false" if schema is False else "is neither an object nor true"
            raise wrong(place, what)
        check(schema, place)
        kind = schema.get("type")
        if "$ref" in schema:
            return self._ref(schema["$ref"], place, passed)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._any(schema, key, place, passed)
        if "allOf" in schema:
            return self._all(schema, place, passed)
        if "const" in schema or "enum" in schema:
            return self._values(schema, place)
        if isinstance(kind, list):
            return self.add(" | ".join(self.visit({**schema, "type": one}, place, passed)
                                       for one in dict.fromkeys(kind)))  # fmt: skip
        if kind in (None, "object") and {"properties", "additionalProperties"} & set(schema):
            return self._object(schema, place)
        if kind in (None, "array") and {"items", "prefixItems"} & set(schema):
            return self._array(schema, place)
        if kind == "string" or (kind is None and {"pattern", "minLength", "maxLength", "format"}
                                & set(schema)):  # fmt: skip
            return self._string(schema, place)
        return self.add(kind or "value")

    def _ref(self, ref: str, place: str, passed: frozenset[str]) -> str:
        if ref in passed:
            raise wrong(place, f"$ref {ref} leads back to itself")
        if ref not in self._refs:
            target = self._target(ref, place)
            self._refs[ref] = name = f"ref-{len(self._refs)}"
            self.made[name] = self.visit(target, ref, passed | {ref})
        return self._refs[ref]

    def _target(self, ref: str, place: str) -> Any:
        from urllib.parse import unquote

        if ref != "#" and not ref.startswith("#/"):
            what = f"$ref {ref} is not within the schema"
            raise UnsupportedError(what, field=field_of(place), hint="begin with #/")
        target = self._schema
        for step in unquote(ref).split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            if isinstance(target, list) and step.isdecimal() and int(step[:9]) < len(target):
                target = target[int(step)]
            elif isinstance(target, dict) and step in target:
                target = target[step]
            else:
                raise wrong(place, f"$ref {ref} names nothing")
        return target

    def _any(self, schema: dict[str, Any], key: str, place: str, passed: frozenset[str]) -> str:
        made, kind = [], schema.get("type")
        for number, part in enumerate(schema[key]):
            if kind is not None and isinstance(part, dict) and not {"type", *WHOLE} & set(part):
                part = {"type": kind, **part}
            made.append(self.visit(part, f"{place}/{key}/{number}", passed))
        return self.add(" | ".join(dict.fromkeys(made)))

    def _all(self, schema: dict[str, Any], place: str, passed: frozenset[str]) -> str:
        """One schema that holds of everything, or the properties of several."""
        own = {key: schema[key] for key in OF_ONE_TYPE & set(schema)}
        if len(schema["allOf"]) == 1 and not own:
            return self.visit(schema["allOf"][0], f"{place}/allOf/0", passed)
        merged: dict[str, Any] = {"properties": {}, "required": []}
        for number, part in enumerate([*schema["allOf"], own]):
            at, seen = f"{place}/allOf/{number}", passed
            while isinstance(part, dict) and "$ref" in part:
                check(part, at)
                if part["$ref"] in seen:
                    raise wrong(at, f"$ref {part['$ref']} leads back to itself")
                at, seen = part["$ref"], seen | {part["$ref"]}
                part = self._target(at, place)
            keys = set(part) if isinstance(part, dict) else set()
            lost = keys & {*WHOLE, *OF_ONE_TYPE} - {
                "properties", "required", "additionalProperties"
            }  # fmt: skip
            if lost or (part is not own and "properties" not in keys):
                raise lost_error("allOf of other things than properties", place)
            check({**part, "required": []}, at)
            for name, value in part.get("properties", {}).items():
                if merged["properties"].setdefault(name, value) != value:
                    raise lost_error(f"allOf with several schemas of {name}", place)
            merged["required"] += part.get("required", [])
        check(merged, place)
        return self._object(merged, place)

    def _values(self, schema: dict[str, Any], place: str) -> str:
        kinds = schema.get("type", list(TYPES))
        kinds = kinds if isinstance(kinds, list) else [kinds]
        texts = [dumped(value, place) for value in schema.get("enum", [schema.get("const")])
                 if any(has_type(value, kind) for kind in kinds)]  # fmt: skip
        if "const" in schema:
            texts = [text for text in texts if text == dumped(schema["const"], place)]
        if not texts:
            raise wrong(place, "no value of enum or const has its type")
        return self.add(" | ".join(map(literal, dict.fromkeys(texts))))

    def _object(self, schema: dict[str, Any], place: str) -> str:
        properties = schema.get("properties", {})
        pairs = {}
        for name, part in properties.items():
            value = self.visit(part, f"{place}/properties/{step_of(name)}", frozenset())
            pairs[name] = self.add(f'{literal(dumped(name, place))} space ":" space {value}')
        required = set(schema.get("required", ()))
        first = [pair for name, pair in pairs.items() if name in required]
        others = [pair for name, pair in pairs.items() if name not in required]
        more, rest = schema.get("additionalProperties", False), ""
        if more is not False:
            value = self.visit(more, f"{place}/additionalProperties", frozenset())
            pair = self.add(f'string ":" space {value}')
            rest = self.add(f'("," space {pair})*')
            more = f"{pair} {rest}"
        starts = [more] if more else []
        for pair in reversed(others):
            starts.insert(0, f"{pair} {rest}")
            rest = self.add(f'("," space {pair})? {rest}')
        inner = ' "," space '.join(first) + f" {rest}" if first else ""
        if not first and starts:
            inner = f"({' | '.join(starts)})?"
        return self.add(f'"{{" space {inner} "}}" space')

    def _array(self, schema: dict[str, Any], place: str) -> str:
        items, least, most = schema.get("items"), schema.get("minItems", 0), schema.get("maxItems")
        key = "prefixItems" if "prefixItems" in schema else "items"
        if isinstance(schema[key], list):
            parts = schema[key]
            if key == "prefixItems" and items not in (None, False):
                raise lost_error("items behind prefixItems", place)
            if not least <= len(parts) <= (len(parts) if most is None else most):
                raise lost_error("another number of items than prefixItems has", place)
            made = [self.visit(part, f"{place}/{key}/{number}", frozenset())
                    for number, part in enumerate(parts)]  # fmt: skip
            inner = ' "," space '.join(made)
        elif items is False or most == 0:
            if least:
                raise wrong(place, "minItems is more than there can be")
            inner = ""
        else:
            item = self.visit(items, f"{place}/items", frozenset())
            more = repeated(self.add(f'"," space {item}'), max(least - 1, 0), most and most - 1)
            inner = f"{item} {more}" if least else f"({item} {more})?"
        return self.add(f'"[" space {inner} "]" space')

    def _string(self, schema: dict[str, Any], place: str) -> str:
        if "pattern" in schema:
            try:
                body = pattern_rule(schema["pattern"], self.add)
            except MtkitError as error:
                error.field = f"{field_of(place)}: {error.field}"
                raise
        elif schema.get("format") in FORMATS:
            body = FORMATS[schema["format"]]
        elif {"minLength", "maxLength"} & set(schema):
            body = repeated("char", schema.get("minLength", 0), schema.get("maxLength"))
        else:
            return self.add("string")
        return self.add(rf'"\"" {body} "\"" space')
