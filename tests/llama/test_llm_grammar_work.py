"""Grammars that llama.cpp would not come to an end with are refused at once, others are not."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support import reference

from mtkit.errors import UsageError
from mtkit.llama import check_grammar, schema_grammar
from mtkit.llama.grammar_rules import Rules


def doubling(count: int) -> str:
    rules = [f"r{n} ::= r{n + 1} r{n + 1} | r{n + 1}" for n in range(count)]
    return "\n".join(["root ::= r0", *rules, f'r{count} ::= "a"?'])


ENDLESS = {
    "optional": 'root ::= ("a"?){1000}',
    "optional 2": 'root ::= x{50}\nx ::= "a"*',
    "behind a text": 'root ::= "' + "x" * 300 + '" "b" ("a"?){300}',
    "behind many": 'root ::= "x"{300} ("a"?){300}',
    "one by one": "root ::= " + '"a"? ' * 300,
    "exponential": doubling(22),
    "nested": "root ::= " + "(" * 9 + '"a"?' + "){5}" * 9,
    "many begins": "root ::= r0\n" + "\n".join(f"r{n} ::= r{n + 1} | r{n + 1}" for n in range(40))
    + '\nr40 ::= "a"',
    "hidden left recursion": 'root ::= w root | "a"\nw ::= v\nv ::= ""',
    "memory": 'root ::= "' + "ab" * 9000 + '"{1999}',
    "schema": schema_grammar('{"type": "string", "pattern": "^(a?){300}$"}'),
}  # fmt: skip


@pytest.mark.parametrize("name", ENDLESS)
def test_endless_grammars(name: str) -> None:
    begun = time.process_time()
    with pytest.raises(UsageError, match="grammar: "):
        check_grammar(ENDLESS[name])
    assert time.process_time() - begun < 2


def named(count: int) -> dict[str, object]:
    return {f"name{n}": {"type": ["string", "null"]} for n in range(count)}


ORDINARY = [
    {}, {"type": "object"}, {"properties": named(300)}, {"properties": named(300), "required": []},
    {"properties": named(200), "required": list(named(200))},
    {"properties": named(40), "additionalProperties": {"type": "integer"}},
    {"items": {"type": "string", "maxLength": 2000}, "maxItems": 2000},
    {"enum": [f"value {n}" for n in range(2000)]},
    {"type": "string", "pattern": "^\\+?\\d{0,3} ?\\(?\\d{2,4}\\)? ?\\d{3,12}(x\\d?\\d?)?$"},
    {"anyOf": [{"properties": named(9)} for _ in range(30)]},
]  # fmt: skip


@pytest.mark.parametrize("schema", ORDINARY, ids=lambda schema: str(schema)[:30])
def test_ordinary_schemas(schema: object) -> None:
    check_grammar(schema_grammar(json.dumps(schema)))


@pytest.mark.parametrize(
    "name", ["ARITHMETIC", "C", "CHESS", "JAPANESE", "JSON_ARR", "JSON", "LIST"]
)
def test_grammars_of_llama_cpp(name: str) -> None:
    reference("llama_cpp")
    from llama_cpp import llama_grammar

    check_grammar(getattr(llama_grammar, f"{name}_GBNF"))


@pytest.mark.parametrize(
    "grammar",
    ['root ::= ([a-z]+ " "?)+', "root ::= ([a-z]+)+", 'root ::= ("a" | "aa")*', "root ::=",
     'root ::= [^\\n]* "\\n" # ({', 'root ::= ("a"?){12}', 'root ::= "a"\n  "b" ::= x'],
)  # fmt: skip
def test_ordinary_grammars(grammar: str) -> None:
    if "::= x" in grammar:
        with pytest.raises(UsageError, match="does not parse: expecting name"):
            check_grammar(grammar)
    else:
        check_grammar(grammar)


@given(
    parts=st.lists(st.sampled_from(
        ["root", "x", " ", "::=", '"a"', "[^a-z]", "[]", "(", ")", "*", "?", "{2,3}", "{9}", "|",
         "\n", ".", "<a>", "\\", "{", '"', "#", "é"]), max_size=25)
)  # fmt: skip
def test_any_text_is_read_or_refused(parts: list[str]) -> None:
    text = "root ::= " + "".join(parts)
    try:
        check_grammar(text)
    except UsageError as error:
        assert "grammar" in str(error)
    else:
        assert Rules(text).rules
