"""Every value and every schema becomes a grammar that llama.cpp takes, or an error with a place."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_models import tiny
from support import reference

from mtkit.errors import MtkitError
from mtkit.llama import Grammar, LoadSettings, Model, schema_grammar

if TYPE_CHECKING:
    from collections.abc import Iterator

NASTY = (
    "a\\b",
    "a\nb",
    "😀",
    'a"b',
    "\t",
    "\x00\x1f\x7f",
    "\u2028",
    "\ud800",
    "é\\n",
    "[^]",
    "#",
    "",
)
texts = st.sampled_from(NASTY) | st.text(max_size=6)
values = st.recursive(
    texts | st.integers() | st.booleans() | st.none()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)  # fmt: skip


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    reference("llama_cpp")
    with Model(str(tiny()), LoadSettings()) as found:
        yield found


def takes(model: Model, grammar: str, text: str) -> bool:
    """Whether a grammar takes a text whole, byte token by byte token, and nothing behind it."""
    pieces = {model.piece(token_id): token_id for token_id in range(model.n_vocab)}
    end = min(model.eog_ids)
    with Grammar(model, grammar) as found:
        for byte in text.encode():
            token_id = pieces[bytes([byte])]
            if not found.allows(token_id):
                return False
            found.accept(token_id)
        return found.allows(end)


def dumped(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return re.sub(r"[\ud800-\udfff]", lambda half: f"\\u{ord(half[0]):04x}", text)


@given(value=values, other=values)
@settings(deadline=None)
def test_const_and_enum_are_what_json_writes(model: Model, value: Any, other: Any) -> None:
    text = dumped(value)
    assert json.loads(text) == value
    for schema in ({"const": value}, {"enum": [value]}):
        grammar = schema_grammar(json.dumps(schema))
        assert takes(model, grammar, text)
        assert takes(model, grammar, dumped(other)) == (dumped(other) == text)
    both = schema_grammar(json.dumps({"enum": [value, other]}))
    assert takes(model, both, text)
    assert takes(model, both, dumped(other))


@given(name=texts, other=texts)
@settings(deadline=None)
def test_names_of_properties_are_what_json_writes(model: Model, name: str, other: str) -> None:
    schema = {"properties": {name: {"const": 1}}, "required": [name]}
    grammar = schema_grammar(json.dumps(schema))
    assert takes(model, grammar, dumped({name: 1}))
    assert takes(model, grammar, dumped({other: 1})) == (dumped(other) == dumped(name))


@pytest.mark.parametrize("most", [1, 199, 201, 500, 1999, 2000])
def test_lengths_up_to_the_limit(model: Model, most: int) -> None:
    text = schema_grammar(json.dumps({"type": "string", "minLength": most, "maxLength": most}))
    assert takes(model, text, json.dumps("x" * most))
    assert not takes(model, text, json.dumps("x" * (most - 1)))
    text = schema_grammar(json.dumps({"type": "string", "maxLength": most}))
    assert takes(model, text, '""')
    assert takes(model, text, json.dumps("x" * most))
    assert not takes(model, text, json.dumps("x" * (most + 1)))
    items = {"items": {"type": "null"}, "maxItems": most}
    text = schema_grammar(json.dumps(items))
    assert takes(model, text, json.dumps([None] * most, separators=(",", ":")))
    assert not takes(model, text, json.dumps([None] * (most + 1), separators=(",", ":")))
    text = schema_grammar(json.dumps({**items, "minItems": most}))
    assert not takes(model, text, json.dumps([None] * (most - 1), separators=(",", ":")))


TREE = {
    "$defs": {
        "n": {
            "type": "object",
            "properties": {
                "v": {"type": "integer"},
                "items": {"type": "array", "items": {"$ref": "#/$defs/n"}},
            },
            "required": ["v"],
        }
    },
    "$ref": "#/$defs/n",
}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        (TREE, '{"v":1,"items":[{"v":2},{"v":3,"items":[]}]}', '{"items":[]}'),
        ({"items": {}}, '[1,"a",{}]', "{}"),
        ({"title": "anything"}, "[]", "x"),
        ({"allOf": [{"$ref": "#/$defs/e"}], "$defs": {"e": {"enum": ["a"]}}}, '"a"', "{}"),
        ({"type": "string", "enum": [1, "a"]}, '"a"', "1"),
        ({"$ref": "#/$defs/a~1b~0", "$defs": {"a/b~": {"type": "null"}}}, "null", "{}"),
        ({"properties": {"c": {"$ref": "#"}}}, '{"c":{"c":{}}}', '{"c":1}'),
        ({"prefixItems": [{"const": 1}, {"const": 2}], "maxItems": 2}, "[1,2]", "[1]"),
        ({"anyOf": [{"const": "a"}, {"type": "null"}]}, "null", "1"),
        ({"properties": {"a": {}}, "additionalProperties": True}, '{"a":1,"b":[]}', "[]"),
        ({"type": "string", "pattern": "^[ -~]{3}$"}, '"a~ "', '"a"b"'),
        ({"type": "string", "pattern": "^(ab?){0,250}$"}, f'"{"ab" * 250}"', f'"{"ab" * 251}"'),
    ],
    ids=str,
)  # fmt: skip
def test_schemas_that_are_some(model: Model, schema: Any, good: str, bad: str) -> None:
    grammar = schema_grammar(json.dumps(schema))
    assert takes(model, grammar, good)
    assert not takes(model, grammar, bad)


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        ({"type": {"x": 1}}, 'type {"x": 1} is none of'),
        ({"properties": 5}, "properties is not an object"),
        ({"enum": []}, "enum is empty"),
        ({"properties": {"a/b": {"anyOf": []}}}, "at #/properties/a~1b: anyOf is empty"),
        ({"items": [True, 5]}, "JSON schema at #/items/1: is neither an object nor true"),
        ({"required": [[]], "properties": {}}, "required is not an array of strings"),
        ({"$ref": "#"}, "leads back to itself"),
        ({"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}]}}, "$ref": "#/$defs/a"}, "leads back"),
        ({"$ref": "#/$defs/n"}, "names nothing"),
        ({"$ref": "other.json"}, "not within the schema"),
        ({"const": 1, "type": "string"}, "no value of enum or const has its type"),
        ({"type": "string", "maxLength": 2001}, "maxLength is not a number of 0 to 2000"),
        ([], "is neither an object nor true"),
        (False, "nothing follows false"),
    ],
    ids=str,
)  # fmt: skip
def test_schemas_that_are_none_say_why(schema: Any, said: str) -> None:
    with pytest.raises(MtkitError, match="JSON schema") as caught:
        schema_grammar(json.dumps(schema))
    assert said in str(caught.value)


@pytest.mark.parametrize(
    "text", ["", "[", "NaN", '{"const": Infinity}', '{"const": 1e999}', "[" * 9999]
)
def test_texts_that_are_no_json(text: str) -> None:
    with pytest.raises(MtkitError, match="JSON"):
        schema_grammar(text)


KEYWORDS = [
    "type", "properties", "required", "items", "prefixItems", "anyOf", "oneOf", "allOf", "$ref",
    "const", "enum", "pattern", "minLength", "maxLength", "minItems", "maxItems", "format", "$defs",
    "additionalProperties", "title", "not",
]  # fmt: skip
WORDS = [
    "string",
    "object",
    "array",
    "integer",
    "null",
    "#",
    "#/$defs/a",
    "^a+$",
    "date",
    "^[a-c]$",
    "a",
]


def keyword_schemas(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    parts = st.lists(inner, max_size=3)
    named = st.dictionaries(st.sampled_from(["a", "b", "$defs"]), inner, max_size=3)
    given = {
        key: inner | st.sampled_from(WORDS) | st.integers(-1, 9) | parts | named for key in KEYWORDS
    }
    given |= {"type": st.sampled_from(WORDS), "properties": named, "items": inner, "anyOf": parts}
    return st.dictionaries(st.sampled_from(KEYWORDS), st.none(), max_size=4).flatmap(
        lambda keys: st.fixed_dictionaries({key: given[key] for key in keys})
    )


schemas = st.recursive(
    values | st.sampled_from(WORDS).map(lambda kind: {"type": kind}) | st.just({}),
    keyword_schemas, max_leaves=12,
)  # fmt: skip


@given(schema=schemas)
@settings(deadline=None, max_examples=400)
def test_any_json_is_a_grammar_or_an_error(model: Model, schema: Any) -> None:
    try:
        grammar = schema_grammar(json.dumps(schema))
    except MtkitError as error:
        assert "JSON schema" in str(error)
        assert re.search(r"[a-z]{2,} [a-z]{2,}", error.what), error.what
        return
    Grammar(model, grammar).close()
