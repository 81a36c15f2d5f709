"""What is generated under a JSON schema follows it, or the schema is refused."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from llm_models import tiny
from support import reference

from mtkit.errors import UnsupportedError, UsageError
from mtkit.llama.schema import grammar_of
from mtkit.llm.generate import generate

PATTERNS = (
    "^\\d{3}-\\d{2,4}$", "^(ab|c){1,3}$", "^[^a-z]{1,5}$", "^.{2,6}$", "^\\w{2,9}$", "^a\\.b\\$?$",
    "^[\\d_]{4}$", "^x\\s?y$", "^(a(b|[0-9]){2}){1,2}$", "^[A-F0-9]{8}$", "^\\(a\\)$",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_patterns(pattern: str) -> None:
    reference("llama_cpp")
    schema = json.dumps({"type": "string", "pattern": pattern})
    finished = 0
    for seed in range(4):
        made = generate(
            "x", model=tiny(), json_schema=schema, temperature=1.5, seed=seed, n_predict=60,
            min_p=0.0, top_k=0, top_p=1.0,
        )  # fmt: skip
        if made.end != "length":
            finished += 1
            assert re.fullmatch(pattern[1:-1], json.loads(made.text)), made.text
    assert finished


def test_strings_are_json() -> None:
    reference("llama_cpp")
    finished = 0
    for seed in range(15):
        made = generate(
            "x", model=tiny(), json_schema='{"type": "string", "maxLength": 9}', temperature=1.5,
            seed=seed, n_predict=60, min_p=0.0, top_k=0, top_p=1.0,
        )  # fmt: skip
        if made.end != "length":
            finished += 1
            assert len(json.loads(made.text)) <= 9
    assert finished > 4


@pytest.mark.parametrize(
    "pattern",
    ["a", "^a", "a$", "^a\\$", "^a|b$", "^(?:a)$", "^a+?$", '^a"$', "^\\n$", "^\\bx$", "^a^b$",
     "^[\\\\]$", "^a{5000}$", "^\\x41$", "^[\\w\\W]$"],
)  # fmt: skip
def test_patterns_without_a_grammar(pattern: str) -> None:
    with pytest.raises(UnsupportedError, match="cannot be turned into a grammar"):
        grammar_of({"properties": {"a": {"items": {"type": "string", "pattern": pattern}}}})


@pytest.mark.parametrize("pattern", ["^((a$", "^a)$", "^[a$", "^a{2,1}$", "^*a$", "^[z-a]$"])
def test_patterns_that_are_none(pattern: str) -> None:
    with pytest.raises(UsageError):
        grammar_of({"items": {"type": "string", "pattern": pattern}})


@pytest.mark.parametrize(
    "schema",
    [{"type": "integer", "minimum": 3}, {"not": {}}, {"type": "array", "uniqueItems": True},
     {"type": "array", "minItems": 3}, {"type": ["string", "null"], "maxLength": 3},
     {"type": "object", "required": ["a"]}, {"allOf": [{"type": "string"}, {"minLength": 3}]},
     {"anyOf": [{"type": "number", "multipleOf": 3}]}, {"$ref": "#/x", "properties": {}}],
    ids=str,
)  # fmt: skip
def test_keywords_are_not_left_out(schema: dict[str, Any]) -> None:
    with pytest.raises(UnsupportedError, match="cannot be turned into a grammar here"):
        grammar_of(schema)


@pytest.mark.parametrize(
    "schema",
    [{"type": "string", "minLength": 5, "maxLength": 2}, {"type": "string", "maxLength": 10**8},
     {"items": {}, "minItems": -1}, {"type": "string", "maxLength": "3"}],
    ids=str,
)  # fmt: skip
def test_counts_that_make_no_sense(schema: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        grammar_of(schema)


def test_names_and_values_are_no_keywords() -> None:
    schema = {
        "type": "object",
        "title": "minimum",
        "properties": {"minimum": {"type": "integer"}, "pattern": {"enum": [{"pattern": "(("}]}},
        "required": ["minimum", "pattern"],
    }
    reference("llama_cpp")
    made = generate(
        "x", model=tiny(), json_schema=json.dumps(schema), temperature=1.0, seed=4, n_predict=90
    )
    if made.end != "length":
        assert json.loads(made.text)["pattern"] == {"pattern": "(("}
    assert made.text.startswith("{")
