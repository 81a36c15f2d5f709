"""The keywords of a JSON schema: which are enforced, and what they may be.

The formats that are enforced are patterns.

Each takes a part of what its rule takes that no reader refuses: a day that its month has, seconds
below 60, ``T`` and ``Z`` in capitals, names of hosts without what only IDNA gives a meaning.

Regular expressions are written as llguidance reads them.

A pattern is written in ECMA 262's dialect and checked in the dialect of whoever reads the answer;
llguidance reads Rust's. So what the dialects read differently is said out in sets of characters
that all of them agree on, and what has no such form is refused.

Source: RFC 3339 (dates, times, durations), RFC 1123 (hosts), RFC 4291 (IPv6), RFC 5321 (mail),
RFC 3986 (URIs), RFC 9562 (UUIDs), RFC 6901 (JSON pointers); OpenAPI's registry of formats.
Source: llguidance, docs/syntax.md; regex-syntax, docs; ECMA 262, 22.2; Python, ``re``.
Source: JSON Schema 2020-12, Core and Validation, and its earlier drafts; OpenAPI 3.0, Schema
Object; llguidance, parser/src/json/schema.rs (``IMPLEMENTED``).
"""

from __future__ import annotations

import json
import math
import re
import warnings

from mtkit.errors import UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


_BY_FOUR = "(?:0[48]|[2468][048]|[13579][26])"
_DATE = (
    r"(?:(?:000[1-9]|00[1-9]\d|0[1-9]\d\d|[1-9]\d{3})-"
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)"
    r"|02-(?:0[1-9]|1\d|2[0-8]))"
    rf"|(?:\d\d{_BY_FOUR}|{_BY_FOUR}00)-02-29)"
)
_HOUR = r"(?:[01]\d|2[0-3]):[0-5]\d"
_TIME = rf"{_HOUR}:[0-5]\d(?:\.\d{{1,9}})?(?:Z|[+-]{_HOUR})"
_N = r"\d{1,9}"
_OF_DAY = f"T(?:{_N}H(?:{_N}M(?:{_N}S)?)?|{_N}M(?:{_N}S)?|{_N}S)"
_DURATION = (
    f"P(?:(?:{_N}Y(?:{_N}M(?:{_N}D)?)?|{_N}M(?:{_N}D)?|{_N}D)(?:{_OF_DAY})?|{_OF_DAY}|{_N}W)"
)
_LABEL = "[A-Za-z0-9]{1,20}(?:-[A-Za-z0-9]{1,20}){0,2}"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
_OCTET = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"
_H = "[0-9a-fA-F]{1,4}"
_SHORTENED = "|".join(f"(?:{_H}:){{1,{7 - n}}}(?::{_H}){{1,{n}}}" for n in range(1, 7))
_IPV6 = f"(?:(?:{_H}:){{7}}{_H}|(?:{_H}:){{1,7}}:|{_SHORTENED}|:(?::{_H}){{1,7}}|::)"
_CHARACTER = "(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]{0,30}"
_URI = (
    rf"{_SCHEME}:(?://{_LABEL}(?:\.{_LABEL}){{0,9}}(?::\d{{1,4}})?(?:/{_CHARACTER}*)*"
    rf"|{_CHARACTER}+(?:/{_CHARACTER}*)*)(?:\?(?:{_CHARACTER}|[/?])*)?(?:#(?:{_CHARACTER}|[/?])*)?"
)
FORMAT_PATTERNS = {
    name: f"^(?:{pattern})$"
    for name, pattern in {
        "date": _DATE,
        "time": _TIME,
        "date-time": f"{_DATE}T{_TIME}",
        "duration": _DURATION,
        "email": rf"{_ATOM}(?:\.{_ATOM}){{0,2}}@{_LABEL}(?:\.{_LABEL}){{1,2}}",
        "hostname": rf"{_LABEL}(?:\.{_LABEL}){{0,3}}",
        "ipv4": rf"(?:{_OCTET}\.){{3}}{_OCTET}",
        "ipv6": _IPV6,
        "json-pointer": "(?:/(?:[^~/]|~[01])*)*",
        "uri": _URI,
        "uuid": "-".join(f"[0-9a-fA-F]{{{n}}}" for n in (8, 4, 4, 4, 12)),
    }.items()
}
"""Format to the pattern of its texts."""
LARGEST_INTEGER = 9223372036854774784
"""Of 64 bits, as a floating-point number holds it: llguidance reads bounds as such."""
FORMAT_BOUNDS = {"int32": (-(1 << 31), (1 << 31) - 1), "int64": (-LARGEST_INTEGER, LARGEST_INTEGER)}
"""Format to the least and the greatest integer."""
FORMATS_BY_PATTERN = frozenset({
    "base64", "base64url", "cidrv4", "cidrv6", "cuid", "cuid2", "e164", "emoji", "ends_with",
    "guid", "hex", "includes", "ksuid", "lowercase", "nanoid", "starts_with", "ulid", "uppercase",
    "xid",
})  # fmt: skip
"""Formats of zod, which says in the pattern beside them what they are."""
FORMAT_REMARKS = frozenset({"double", "float", "password"})
"""Formats that any value of their type has."""


MOST_REPEATS = 100_000
"""Of a repetition."""
_PATTERN_PART = re.compile(
    r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|\[(\^?)((?:\\.|[^\]\\])*)\]"
    r"|(\*|\+|\?|\{(\d+)(?:,(\d*))?\})(\??)|\(\?:|\(\?|.",
    re.DOTALL,
)
_SET_PART = re.compile(r"\\(x[0-9a-fA-F]{2}|u[0-9a-fA-F]{4}|.)|(.)", re.DOTALL)
_ASCII = {"d": "0-9", "w": "0-9A-Za-z_", "s": r"\t\n\x0c\r\x20"}
_UNICODE = {
    "d": r"\p{Nd}", "w": r"\p{L}\p{N}\p{M}_",
    "s": r"\s\x1c-\x1f\x85\x{180e}\x{feff}",
}  # fmt: skip
"""What any dialect takes as one, beside ``_SAFE``, what each does."""
_NAMED = {"t": 9, "n": 10, "f": 12, "r": 13}
_UNWRITABLE = {*range(0x20), 0x7F} - {8, *_NAMED.values()}
"""Characters that an answer does not write: JSON has only numbers for them."""
_ANY = r"[^\n\r\x{2028}\x{2029}]"


def portable_pattern(pattern: str) -> str:
    """Return a pattern that matches only what the given one does, in any dialect."""
    _compile(pattern)
    made: list[str] = []
    repeated = True  # a quantifier cannot come first
    for found in _PATTERN_PART.finditer(pattern):
        text, escaped, inner = found[0], found[1], found[3]
        if found[4]:
            if repeated:
                raise _pattern_error(pattern, f"the quantifier {text}")
            if max(int(found[5] or 0), int(found[6] or 0)) > MOST_REPEATS:
                raise _pattern_error(pattern, f"a repetition above {MOST_REPEATS}")
            made.append(found[4])
            repeated = True
            continue
        repeated = text in ("(", "(?:", "|", "^")
        if inner is not None:
            made.append(_spell_set(pattern, inner, negated=bool(found[2])))
        elif escaped and escaped in "dws":
            made.append(f"[{_ASCII[escaped]}]")
        elif escaped and escaped in "DWS":
            made.append(f"[^{_UNICODE[escaped.lower()]}]")
        elif escaped or text not in ("(", "(?:", ")", "|", "^", "$", "."):
            if text == "(?":
                raise _pattern_error(pattern, f"what begins with {pattern[found.start() :][:4]}")
            if text == "{" and re.match(r",\d*\}", pattern[found.end() :]):
                raise _pattern_error(pattern, "a repetition without a least number")
            code = _escaped_code(pattern, escaped) if escaped else ord(text)
            if code in _UNWRITABLE:
                raise _pattern_error(pattern, f"the control character {code:#04x}")
            made.append(_spell_code(code))
        else:
            made.append(_ANY if text == "." else text)
    return "".join(made)


def _compile(pattern: str) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        if str(error).startswith("bad escape"):
            raise _pattern_error(pattern, str(error).split()[2]) from None
        raise UsageError(str(error), field=f"pattern {pattern}") from None


def _pattern_error(pattern: str, what: str) -> UnsupportedError:
    return UnsupportedError(f"{what} cannot be enforced", field=f"pattern {pattern}")


def _escaped_code(pattern: str, escaped: str) -> int:
    """Return the character that an escape stands for by itself."""
    if len(escaped) > 1:
        code = int(escaped[1:], 16)
        if 0xD800 <= code < 0xE000:
            raise _pattern_error(pattern, f"\\{escaped}, half a character,")
        return code
    if escaped in _NAMED:
        return _NAMED[escaped]
    if escaped.isalnum():
        raise _pattern_error(pattern, f"\\{escaped}")
    return ord(escaped)


def _spell_code(code: int) -> str:
    return chr(code) if code < 0x7F and chr(code).isalnum() else f"\\x{{{code:x}}}"


def _spell_set(pattern: str, inner: str, *, negated: bool) -> str:
    parts: list[str] = []
    writable = negated
    members = list(_SET_PART.finditer(inner))
    while members:
        kind = members[0][1]
        if kind and kind in "dwsDWS":
            members.pop(0)
            narrow = kind.islower() != negated
            chars = (_ASCII if narrow else _UNICODE)[kind.lower()]
            parts.append(chars if kind.islower() else f"[^{chars}]")
            writable = True
            continue
        low = high = _set_member(pattern, members.pop(0))
        if len(members) > 1 and members[0][0] == "-":
            high = _set_member(pattern, members[1])
            del members[:2]
        parts.append(_spell_code(low) if low == high else f"{_spell_code(low)}-{_spell_code(high)}")
        writable = writable or not set(range(low, high + 1)) <= _UNWRITABLE
    if not parts or not writable:
        raise _pattern_error(pattern, f"the set [{inner}]")
    return f"[{'^' * negated}{''.join(parts)}]"


def _set_member(pattern: str, found: re.Match[str]) -> int:
    return _escaped_code(pattern, found[1]) if found[1] else ord(found[2])


ANNOTATIONS = frozenset({
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
    return key in ANNOTATIONS or key.startswith("x-") or value in _NOTHING.get(key, ())


def check_keywords(schema: dict[str, Any], place: str) -> None:
    """See that keywords have the values that they can have, and that none would be lost."""
    for key, value in schema.items():
        if says_nothing(key, value):
            continue
        if key == "$schema" or (key == "$id" and place == "#"):
            if key == "$schema" and not (isinstance(value, str) and _DRAFT.fullmatch(value)):
                raise not_enforced(f"{json.dumps(value)[:80]}, a dialect that is not known,", place)
            continue
        if key not in _ENFORCED:
            raise not_enforced(key, place, _HINTS.get(key, ""))
        _check_shape(key, value, place)
        if key in _NUMBERS:
            _check_number(schema, key, value, place)
    _check_counts(schema, place)
    kinds = schema.get("type", "null")
    for kind in kinds if isinstance(kinds, list) and kinds else [kinds]:
        if kind not in TYPES:
            raise schema_error(place, f"type {json.dumps(kind)[:40]} is none of {', '.join(TYPES)}")
    named = schema.get("format")
    known = {
        *FORMAT_PATTERNS,
        *FORMAT_BOUNDS,
        *FORMAT_REMARKS,
        *(FORMATS_BY_PATTERN if "pattern" in schema else ()),
    }
    if named is not None and named not in known:
        raise not_enforced(f"the format {json.dumps(named)[:60]}", place)
    if schema.get("minProperties", 0) > len(set(schema.get("required", ()))) + 1:
        raise not_enforced("minProperties above the properties that are required and one", place)


def _check_shape(key: str, value: Any, place: str) -> None:
    if key in ("properties", "patternProperties") and not isinstance(value, dict):
        raise schema_error(place, f"{key} is not an object")
    is_list = key in _LISTS or key in ("enum", "required")
    if is_list and not isinstance(value, list):
        raise schema_error(place, f"{key} is not an array")
    if is_list and not value and key != "required":
        raise schema_error(place, f"{key} is empty")
    if key == "required" and not all(isinstance(name, str) for name in value):
        raise schema_error(place, "required is not an array of strings")
    if key in ("$ref", "pattern", "format") and not isinstance(value, str):
        raise schema_error(place, f"{key} is not a string")
    if key in ("const", "enum"):
        _check_value(value, f"{place}/{key}", 0)


def _check_number(schema: dict[str, Any], key: str, value: Any, place: str) -> None:
    if isinstance(value, bool) and key in ("exclusiveMinimum", "exclusiveMaximum"):
        return  # of draft 4: about its neighbor
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise schema_error(place, f"{key} is not a number")
    from_below = key in ("minimum", "exclusiveMinimum")
    if math.isnan(value) or (value > LARGEST if from_below else value < -LARGEST):
        raise not_enforced(f"{key} beyond {LARGEST}, which is not exact everywhere,", place)
    if key != "multipleOf":
        return
    if value <= 0:
        raise schema_error(place, "multipleOf is not above 0")
    if value != int(value) or value > _LARGEST_DIVISOR:
        what = f"multipleOf {value}: other than whole numbers up to {_LARGEST_DIVISOR}"
        raise not_enforced(what, place)
    if IN_PLACE & set(schema):
        raise not_enforced(f"multipleOf beside {min(IN_PLACE & set(schema))}", place)
    low, high = _bounds(schema)
    if low <= high < math.inf and low > -math.inf and high // value * value < low:
        raise schema_error(place, f"no multiple of {value} is within its bounds")


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
                raise schema_error(place, f"{key} is not a number of 0 to {_MOST_COUNT}")
        if schema.get(low, 0) > schema.get(high, _MOST_COUNT):
            raise schema_error(place, f"{low} {schema[low]} is more than {high} {schema[high]}")


def _check_value(value: Any, place: str, depth: int) -> None:
    """See that an answer can hold a value of ``const`` or ``enum`` as it is."""
    if depth > 30:
        raise schema_error(place, "is nested too deeply")
    if isinstance(value, str):
        check_text(value, place)
        if re.search("[\x00-\x07\x0b\x0e-\x1f\x7f]", value):
            raise not_enforced("a control character that JSON has only a number for", place)
    elif isinstance(value, dict):
        for name, part in value.items():
            check_text(name, place)
            _check_value(part, f"{place}/{reference_step(name)}", depth + 1)
    elif isinstance(value, list):
        for number, part in enumerate(value):
            _check_value(part, f"{place}/{number}", depth + 1)
    elif isinstance(value, (int, float)) and not abs(value) <= LARGEST:
        raise not_enforced(f"a number beyond {LARGEST}, which is not exact everywhere,", place)


def check_text(text: str, place: str) -> None:
    """See that a text is characters."""
    if re.search(r"[\ud800-\udfff]", text):
        raise schema_error(place, "holds half a character")


def reference_step(name: str) -> str:
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
