"""Parts of schemas: values and names as JSON writes them, numbers, lengths, patterns, formats."""

from __future__ import annotations

import json
import re
import sys
import warnings
from collections.abc import Iterator
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_models import tiny
from schema_answers import Drawer, validator
from support import reference

from mtkit.errors import MtkitError, UnsupportedError, UsageError
from mtkit.llama import Grammar, LoadSettings, Model, check_schema, one_of
from mtkit.llama.schema_pattern import FORMAT_PATTERNS

POSSESSIVE = pytest.param(
    "a*+", marks=pytest.mark.skipif(sys.version_info < (3, 11), reason="re has it since 3.11")
)
NASTY = ("a\\b", "a\nb", "😀", 'a"b', "\t", "\u2028", "é\\n", "[^]", "#", "", "%json", "<[1]>")
CONTROLS = "".join(map(chr, [*range(32), 127]))
texts = st.sampled_from(NASTY) | st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters=CONTROLS), max_size=6
)
values = st.recursive(
    texts | st.integers(-(1 << 53) + 1, (1 << 53) - 1) | st.booleans() | st.none()
    | st.floats(-1e9, 1e9, allow_nan=False).map(lambda number: round(number, 6)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@pytest.fixture(scope="module")
def drawer() -> Iterator[Drawer]:
    reference("llama_cpp")
    with Model(str(tiny()), LoadSettings()) as found:
        yield Drawer(found)


def takes(drawer: Drawer, schema: Any, text: str) -> bool:
    """Whether a schema takes a text whole, byte token by byte token, and nothing behind it."""
    with Grammar(drawer.model, schema=json.dumps(schema)) as grammar:
        return drawer.takes(grammar, text)


def dumped(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


@given(value=values, other=values)
@settings(deadline=None)
def test_const_and_enum_are_what_json_writes(drawer: Drawer, value: Any, other: Any) -> None:
    for schema in ({"const": value}, {"enum": [value]}):
        assert takes(drawer, schema, dumped(value)) or is_odd(value)
        if takes(drawer, schema, dumped(other)):
            validator(schema).validate(other)
    assert takes(drawer, {"enum": [value, other]}, dumped(other)) or is_odd(other)


def is_odd(value: Any) -> bool:
    """Whether Python writes a number with an exponent or as 1.0, as llguidance does not."""
    return bool(re.search(r"\d[eE][+-]?\d|\.0(?!\d)|-0", dumped(value)))


@given(name=texts, other=texts)
@settings(deadline=None)
def test_names_of_properties_are_what_json_writes(drawer: Drawer, name: str, other: str) -> None:
    schema = {"properties": {name: {"const": 1}}, "required": [name], "type": "object"}
    assert takes(drawer, schema, dumped({name: 1}))
    assert takes(drawer, schema, dumped({other: 1})) == (other == name)
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in name)
    others = {"properties": {name: {"const": 1}}, "additionalProperties": {"type": "null"}}
    assert not takes(drawer, others, f'{{"{escaped}":null}}')


numbers = st.fractions(-50, 50, max_denominator=1).map(float) | st.floats(-20, 20).map(
    lambda number: round(number, 3)
)


@given(
    bounds=st.dictionaries(
        st.sampled_from(["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum"]),
        numbers,
        max_size=3,
    ),
    tried=st.lists(numbers, min_size=5, max_size=5),
    kind=st.sampled_from(["integer", "number"]),
)
@settings(deadline=None)  # fmt: skip
def test_numbers_within_bounds(
    drawer: Drawer, bounds: dict[str, float], tried: list[float], kind: str
) -> None:
    schema = {"type": kind, **bounds}
    try:
        grammar = Grammar(drawer.model, schema=json.dumps(schema))
    except UsageError:
        return
    inside = {
        "minimum": lambda a, b: a >= b, "maximum": lambda a, b: a <= b,
        "exclusiveMinimum": lambda a, b: a > b, "exclusiveMaximum": lambda a, b: a < b,
    }  # fmt: skip
    for number in [*tried, *bounds.values(), *(value + 0.001 for value in bounds.values())]:
        if kind == "integer" and not number.is_integer():
            continue
        text = f"{round(number, 3) + 0.0:.3f}".rstrip("0").rstrip(".")
        value = Fraction(text)
        right = all(inside[key](value, Fraction(str(bound))) for key, bound in bounds.items())
        assert right or not drawer.takes(grammar, text), (schema, text)


@pytest.mark.parametrize(
    ("bounds", "good", "bad"),
    [
        ({"exclusiveMinimum": 0, "maximum": 0.5}, "0.25", "0 0.0 -0 0.6"),
        ({"exclusiveMinimum": 3, "exclusiveMaximum": 3.5}, "3.1", "3 3.0 3.5"),
        ({"minimum": -0.5, "exclusiveMaximum": 0}, "-0.5 -0.1", "0 -0 -0.0"),
        ({"minimum": -3.5, "exclusiveMaximum": -3}, "-3.5 -3.01", "-3 -3.0"),
        ({"exclusiveMinimum": 0, "minimum": 0.25, "maximum": 1}, "0.25 1", "0 0.2"),
        ({"exclusiveMinimum": 1, "minimum": -4, "maximum": 9}, "1.5 9", "1 1.0 0"),
    ],
)
def test_numbers_beside_one_that_is_excluded(
    drawer: Drawer, bounds: dict[str, float], good: str, bad: str
) -> None:
    joined = {"allOf": [{key: value} for key, value in bounds.items()], "type": "number"}
    for schema in ({"type": "number", **bounds}, joined):
        for texts_of, right in ((good, True), (bad, False)):
            for text in texts_of.split():
                assert takes(drawer, schema, text) == right, (schema, text)


@pytest.mark.parametrize("most", [1, 199, 2000, 100_000])
def test_lengths_up_to_the_limit(drawer: Drawer, most: int) -> None:
    schema: dict[str, Any] = {"type": "string", "maxLength": most}
    assert takes(drawer, schema, '""')
    schema = {"items": {"type": "null"}, "maxItems": most, "type": "array"}
    assert takes(drawer, schema, "[]")
    if most < 10_000:
        exact = {"type": "string", "minLength": most, "maxLength": most}
        for length in (most - 1, most, most + 1):
            assert takes(drawer, exact, json.dumps("é" * length, ensure_ascii=False)) == (
                length == most
            )
            nulls = json.dumps([None] * length, separators=(",", ":"))
            assert takes(drawer, {**schema, "minItems": most}, nulls) == (length == most)


PORTABLE = [
    "^\\d{3}-\\d{2,4}$", "^(ab|c){1,3}$", "^[^a-z]{1,5}$", "^.{2,6}$", "^\\w{2,9}$", "^a\\.b\\$?$",
    "^[\\d_]{4}$", "^x\\s?y$", "^(a(b|[0-9]){2}){1,2}$", "\\S", "a|b$", "^a|^b", "(?:a|bb)+?c",
    "[\\w.-]+@[\\w-]+", "^[^\\s@]+$", "\\u00e9|\\x41", "^\\D\\W\\S$", "[^\\W]", "[^\\D]", "^$",
    "^[\\]\\-^]$", "[a&&b]", "\\/", "^\\{\\}\"\\\\$", "{", "}", "]", "a{2,}", "\\t\\n",
    "^(^a|b)c$", "(a|)b", "[ -~]", "[\\x00-\\x7f]", "^[\u0430-\u044f]+$", "\\_\\-\\ ",
]  # fmt: skip


@pytest.mark.parametrize("pattern", PORTABLE)
def test_patterns(drawer: Drawer, pattern: str) -> None:
    schema = {"type": "string", "pattern": pattern, "maxLength": 30}
    judge = validator(schema)
    ended = 0
    for text in drawer.answers(schema, 40):
        ended += 1
        value = json.loads(text)
        judge.validate(value)
        assert re.search(pattern, value)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert re.search(pattern, value, re.ASCII)  # as ECMA 262 reads \d and \w
    assert ended > 10
    for value in ("a", "ab", "abc", "x y", "a.b$", "é", "123-45", "_", "@", "a@b", "{", "]", '"'):
        if takes(drawer, schema, dumped(value)):
            assert re.search(pattern, value)


@pytest.mark.parametrize(
    "pattern",
    ["\\bx", "(?=a)b", "(?i)a", "(a)\\1", "a{,3}", "(?P<n>a)", POSSESSIVE, "[]a]", "\\x01", "\\v",
     "[\\x01]", "\\ud83d", "a{200000}", "\\0", "\\B", "(?<!a)b",
     "\\p{L}", "\\cA"],
)  # fmt: skip
def test_patterns_that_are_read_differently(pattern: str) -> None:
    schema = {"properties": {"a": {"items": {"type": "string", "pattern": pattern}}}}
    with pytest.raises(UnsupportedError, match=r"#/properties/a/items: pattern .*be enforced"):
        check_schema(json.dumps(schema))


@pytest.mark.parametrize("pattern", ["^((a$", "^a)$", "^[a$", "^a{2,1}$", "^*a$", "^[z-a]$", "\\c"])
def test_patterns_that_are_none(pattern: str) -> None:
    with pytest.raises(MtkitError, match="pattern"):
        check_schema(json.dumps({"items": {"pattern": pattern}}))


FORMATS = {
    "date": ("2024-02-29 2000-02-29 1999-12-31", "2023-02-29 1900-02-29 0000-01-01 2024-13-01"),
    "time": ("23:59:59Z 00:00:00.5+01:00", "24:00:00Z 12:00 12:00:60Z 12:00:00"),
    "date-time": ("2024-02-29T00:00:00Z", "2023-02-29T00:00:00Z 2024-02-29"),
    "duration": ("P1Y2M3D PT5S P2W P1DT2H", "P P1 PT P1Y2W 1D PT1D"),
    "email": ("a.b+c@x-y.org", "a@b@c a @x.org a@-x.org a..b@x.org"),
    "hostname": ("example.org a-b.c localhost", "-a a- a..b xn--x a_b"),
    "ipv4": ("127.0.0.1 255.255.255.0", "256.1.1.1 1.2.3 01.2.3.4"),
    "ipv6": ("::1 1:2:3:4:5:6:7:8 fe80::1 ::", "1:2:3 1::2::3 12345:: :1"),
    "json-pointer": ("/a/b~0~1 /", "a /~2"),
    "uri": ("https://a.org/b?c=d#e urn:isbn:1 mailto:a@b.c", "a /b http://[ http://a\\b"),
    "uuid": ("2eb8aa08-aa98-11ea-b4aa-73b441d16380", "2eb8aa08aa9811eab4aa73b441d16380"),
}


@pytest.mark.parametrize("name", FORMAT_PATTERNS)
def test_formats(drawer: Drawer, name: str) -> None:
    for places, right in zip(FORMATS[name], (True, False), strict=True):
        for text in places.split():
            assert takes(drawer, {"type": "string", "format": name}, dumped(text)) == right, text


def test_calls(drawer: Drawer) -> None:
    """One of several calls, around each its own text, control tokens in it as such."""
    control = next(i for i in range(drawer.model.n_vocab) if drawer.model.is_control(i))
    sign = drawer.model.piece(control, special=True).decode()
    choices = [
        (f'{sign}{{"name": "f{"o" * n}", "arguments": ', json.dumps({"const": n}), f"}}\n{sign}")
        for n in range(3)
    ]
    with Grammar(drawer.model, schema=one_of(choices)) as grammar:
        for n, (before, _, after) in enumerate(choices):
            grammar.reset()
            assert grammar.allows(control)
            grammar.accept(control)
            middle = f"{before}{n}{after}".replace(sign, "")
            assert drawer.follows(grammar, middle)
            assert grammar.allows(control)
            grammar.accept(control)
            assert grammar.allows(min(drawer.model.eog_ids))
        grammar.reset()
        grammar.accept(control)
        assert not drawer.follows(grammar, '{"name": "fo", "arguments": 2')
    with pytest.raises(UnsupportedError, match="contains"):
        check_schema(one_of([("a", '{"contains": {}}', "b")]))
