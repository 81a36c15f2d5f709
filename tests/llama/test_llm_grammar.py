"""A grammar in GBNF allows the tokens that llama.cpp's allows, in a bounded time."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from llm_models import tiny
from support import reference

from mtkit.api.generation import generate
from mtkit.errors import ResourceError, UsageError
from mtkit.llama import Chain, Grammar, LoadSettings, Model
from mtkit.llama.gbnf import lark_of


@pytest.fixture(scope="module")
def model() -> Iterator[Model]:
    reference("llama_cpp")
    with Model(str(tiny()), LoadSettings()) as found:
        yield found


def is_plain(model: Model, token_id: int) -> bool:
    """Whether a token is characters.

    llama.cpp lets control tokens and bytes that are no UTF-8 pass, and a NUL never.
    """
    try:
        text = model.piece(token_id).decode()
    except UnicodeDecodeError:
        return False
    return "\0" not in text and not model.is_control(token_id)


def follow(model: Model, text: str, seed: int, steps: int = 12) -> str:
    """Walk at random through what a grammar allows, which at each step is what llama.cpp's does."""
    import numpy as np

    random = np.random.default_rng(seed)
    plain = np.array([is_plain(model, token_id) for token_id in range(model.n_vocab)])
    made = b""
    with Chain() as chain, Grammar(model, text=text) as grammar:
        chain.add("grammar", model.vocab, text.encode(), b"root")
        for _ in range(steps):
            ours = np.zeros(model.n_vocab, np.float32)
            found = grammar.mask(ours)
            ids, left = chain.cut(np.zeros(model.n_vocab, np.float32))
            theirs = np.full(model.n_vocab, -np.inf)
            theirs[ids] = left
            ends = sorted(model.eog_ids)
            assert (np.isfinite(ours) == np.isfinite(theirs))[plain].all(), (text, made)
            assert (np.isfinite(ours) == np.isfinite(theirs))[ends].all(), (text, made)
            choices = np.flatnonzero(np.isfinite(ours) & plain)
            assert found == bool(np.isfinite(ours).any())
            if not len(choices):
                break
            token_id = int(random.choice(choices))
            assert grammar.allows(token_id)
            if token_id in model.eog_ids:
                break
            grammar.accept(token_id)
            chain.accept(token_id)
            made += model.piece(token_id)
    return made.decode("utf-8", "replace")


GRAMMARS = [
    'root ::= "yes" | "no"', "root ::= [a-c]+ \".\"", "root ::= .*", 'root ::= "a"{2,3}',
    'root ::= [^\\n]* "\\n" # ({', 'root ::= ("a"?){12}', "root ::= ([a-z]+ \" \"?)+",
    'root ::= ("a" | "aa")*',
    'root ::= x\nx ::= "(" x ")" | [0-9]{1,3} | x2\nx2 ::= "\\"" [^"]* "\\""',
    'root ::= n "ing" x\nx ::= "." | "(" x ")"\nn ::= [a-z]{1,5}',
    'root ::= "abc" | [a-z] y\ny ::= "bx" | "(" y ")"', "root ::= [\\x00-\\U0010FFFF]{2}",
    'root ::= "é" [à-ü] "😀"',
    "root ::= [^a-z\\u00e9]{3}", 'root ::= ("a" | "b" "c"?){0,4} ("d")', "root ::=",
]  # fmt: skip


@pytest.mark.parametrize("text", GRAMMARS)
def test_as_llama_cpp_allows(model: Model, text: str) -> None:
    for seed in range(3):
        follow(model, text, seed)


@pytest.mark.parametrize(
    "name", ["ARITHMETIC", "C", "CHESS", "JAPANESE", "JSON_ARR", "JSON", "LIST"]
)
def test_grammars_of_llama_cpp(model: Model, name: str) -> None:
    from llama_cpp import llama_grammar

    assert follow(model, getattr(llama_grammar, f"{name}_GBNF"), 1)


items = st.sampled_from(['"a"', '"ab"', "[a-c]", "[^b]", ".", '"a" "b"', '("x" | "")', '"é"'])
times = st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,3}", "{2,}", "{0,2}"])
sequences = st.lists(st.tuples(items, times).map(lambda one: f"({one[0]}){one[1]}"), max_size=3)
choices = st.lists(sequences.map(" ".join), min_size=1, max_size=3).map(" | ".join)


@given(first=choices, second=choices, seed=st.integers(0, 9))
@settings(deadline=None, max_examples=60)
def test_drawn_grammars(model: Model, first: str, second: str, seed: int) -> None:
    follow(model, f'root ::= {first} | "<" y\ny ::= {second} | "(" root ")"', seed, 6)


def test_tokens_by_name_and_number(model: Model) -> None:
    token_id = next(i for i in range(model.n_vocab) if model.piece(i) == b"a")
    with Grammar(model, text=f'root ::= <[{token_id}]> !<[{token_id}]> "b"') as grammar:
        assert grammar.allows(token_id)
        grammar.accept(token_id)
        assert not grammar.allows(token_id)
        assert grammar.allows(token_id + 1)
    for text in (f"root ::= <[{model.n_vocab}]>", "root ::= <no such token>"):
        with pytest.raises(UsageError, match="is no token of the model"):
            Grammar(model, text=text)


def doubling(count: int) -> str:
    rules = [f"r{n} ::= r{n + 1} r{n + 1} | r{n + 1}" for n in range(count)]
    return "\n".join(["root ::= r0", *rules, f'r{count} ::= "a"?'])


MANY_WAYS = {
    "optional": 'root ::= ("a"?){1000}',
    "optional 2": 'root ::= x{50}\nx ::= "a"*',
    "behind a text": 'root ::= "' + "x" * 300 + '" "b" ("a"?){300}',
    "one by one": "root ::= " + '"a"? ' * 300,
    "exponential": doubling(22),
    "nested": "root ::= " + "(" * 9 + '"a"?' + "){5}" * 9,
    "many begins": "root ::= r0\n" + "\n".join(f"r{n} ::= r{n + 1} | r{n + 1}" for n in range(40))
    + '\nr40 ::= "a"',
    "left recursion": 'root ::= w root | "a" | root "b"\nw ::= v\nv ::= ""',
    "memory": 'root ::= "' + "ab" * 5000 + '"{1999}',
    "right recursion": 'root ::= [^x] root | ""',
    "many alternatives": "root ::= (" + "|".join(f'"a{n}"' for n in range(2500)) + "){1,20}",
}  # fmt: skip


@pytest.mark.parametrize("name", MANY_WAYS)
def test_many_ways(name: str) -> None:
    begun = time.process_time()
    try:
        made = generate("x", model=tiny(), grammar=MANY_WAYS[name], n_predict=30, ignore_eos=True)
    except ResourceError as error:
        assert "can follow it in too many ways" in str(error)
    else:
        assert made.end in ("length", "grammar")
    assert time.process_time() - begun < 60


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("root ::= " + "(" * 31 + '"a"' + ")" * 31, "parentheses in each other"),
        ('root ::= "a"{2001}', "repeats more than 2000 times"),
        ("\n".join([*(f"r{n} ::= r{n + 1}" for n in range(600)), 'root ::= r0\nr600 ::= "a"']),
         "more than 500 rules in each other"),
        ('root ::= root "a"', "nothing follows it"),
        ("root ::= [\\uD800]", "none is one"),
    ],
    ids=lambda one: one[:30],
)  # fmt: skip
def test_what_is_too_much_is_refused(model: Model, text: str, said: str) -> None:
    begun = time.process_time()
    with pytest.raises(UsageError, match="grammar") as caught:
        Grammar(model, text=text)
    assert said in str(caught.value)
    assert time.process_time() - begun < 10


@given(
    parts=st.lists(st.sampled_from(
        ["root", "x", " ", "::=", '"a"', "[^a-z]", "[]", "(", ")", "*", "?", "{2,3}", "{9}", "|",
         "\n", ".", "\\", "{", '"', "#", "é"]), max_size=25)
)  # fmt: skip
@settings(deadline=None)
def test_any_text_is_read_or_refused(model: Model, parts: list[str]) -> None:
    text = "root ::= " + "".join(parts)
    try:
        Grammar(model, text=text).close()
    except UsageError as error:
        assert "grammar" in str(error)
    else:
        assert "start: r0" in lark_of(text, lambda _: 0)


def test_a_line_may_begin_with_an_alternative() -> None:
    plain = lark_of('root ::= "a" | x | "c"\nx ::= ("b" | "d")', lambda _: 0)
    for root, x in (
        ('"a"\n  | x\n  | "c"', '("b"\n|"d")'), ('\n"a" |\nx # or\n# so\n| "c"', '("b"\n | "d")\n'),
        ('"a"\r\n\t| x\r\n| "c"\r', '("b" | "d")\r\n'),
    ):  # fmt: skip
        assert lark_of(f"root ::= {root}\nx ::= {x}", lambda _: 0) == plain
    for text in ('root ::= "a"\n\n"b"', '| root ::= "a"', 'root ::= "a"\n|\n::= "b"'):
        with pytest.raises(UsageError, match="does not parse"):
            lark_of(text, lambda _: 0)


def test_a_long_grammar_is_compiled_once_and_forgotten(
    model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mtkit.llama import grammar

    compiled, own = [], grammar.compile_grammar

    def compile_grammar(tokenizer: object, lark: str, field: str) -> object:
        compiled.append(len(lark))
        return own(tokenizer, lark, field)

    monkeypatch.setattr(grammar, "compile_grammar", compile_grammar)
    monkeypatch.setattr(grammar, "_LONG_BYTES", 100)
    short, long = ('root ::= "' + letter * length + '"' for letter, length in (("a", 9), ("b", 99)))
    for _ in range(3):  # checks of three requests, then their answers
        for text in (short, long):
            Grammar(model, text=text).close()
    assert len(compiled) == 2
    assert grammar.forget_long(60.0)
    Grammar(model, text=long).close()
    assert len(compiled) == 2
    assert not grammar.forget_long(-1.0)
    assert not grammar.forget_long(-1.0)
    for text in (short, long):
        Grammar(model, text=text).close()
    assert len(compiled) == 3  # the short one stays
