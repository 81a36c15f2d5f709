"""Answers that are cut, damaged, nested, or written as small models write them."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from support import shared

if TYPE_CHECKING:
    from collections.abc import Sequence

EOS = "<|eos|>"
NAMES = (
    "GLM-4.6", "MiMo-VL", "Mistral-Small-3.2-24B-Instruct-2506", "Qwen-Qwen3-0.6B", "Qwen3-Coder",
    "deepseek-ai-DeepSeek-V3.1", "deepseek-ai-DeepSeek-V3.2", "google-gemma-4-31B-it",
    "ibm-granite-granite-3.3-2B-Instruct", "mistralai-Mistral-Nemo-Instruct-2407",
    "moonshotai-Kimi-K2", "openbmb-MiniCPM5-1B", "phi-3-mini",
)  # fmt: skip
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Looks it up.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string", "description": "A city."}},
            },
        },
    }
    for name in ("get_weather", "find-city")
]
OSLO = ("get_weather", {"city": "Oslo"})


def form(name: str) -> Any:
    from mtkit.chat.answer_analysis import find_form

    path = shared(f"tokenizers/chat/templates/{name}.jinja")
    return find_form(path.read_text(encoding="utf-8"), EOS)


def read(
    made: Any, text: str, cuts: Sequence[int] = (), **options: Any
) -> tuple[str, str, list[tuple[str, Any]]]:
    """Return reasoning, text and calls of an answer that comes in pieces."""
    from mtkit.chat.answer import calls_in, reasoning_in, text_in
    from mtkit.chat.answer_reader import open_reader

    reader = open_reader(made, **{"tools": TOOLS, "prompt": made.header or "x", **options})
    parts: list[Any] = []
    for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True):
        parts += reader.push(text[first:last])
    parts += reader.finish()
    assert all(parts)
    calls = [(one.name, one.arguments) for one in calls_in(parts)]
    assert reader.called == len(calls) or not options.get("several", True)
    return reasoning_in(parts), text_in(parts), [(name, json.loads(one)) for name, one in calls]


def written(made: Any, city: str = "Oslo") -> str:
    """Return a call as a form writes it."""
    from mtkit.chat.signs import ID, NAME, NUMBER

    calls = made.calls
    if calls.sample is not None:
        before, after = calls.sample
        text = before.replace(NAME, "get_weather").replace(ID, "abcdefghi").replace(NUMBER, "0")
        return text + json.dumps({"city": city}) + str(after).replace(ID, "abcdefghi")
    (pair, *_) = [pair for pair in calls.pairs.pairs if "string" in pair.kinds]
    body = f"get_weather{calls.pairs.first.text}city{pair.opening.text}{city}{pair.closing.text}"
    return f"{calls.opening.text}{body}{calls.ending.text}"


forms = pytest.mark.parametrize("name", NAMES)


@forms
def test_a_call_is_read_however_it_is_cut(name: str) -> None:
    made = form(name)
    for before, after in (("", ""), ("Let me see.\n\n", ""), ("", "\nDone."), ("< x", " <y")):
        text = before + written(made) + after
        wanted = read(made, text)
        assert wanted[2] == [OSLO], text
        assert "".join(wanted[1].split()) == "".join((before + after).split())
        for cut in range(len(text) + 1):
            assert read(made, text, [cut]) == wanted, text[:cut]
        assert read(made, text, streams=False) == wanted


@forms
def test_what_is_not_a_call_stays_as_it_is(name: str) -> None:
    made, chance = form(name), random.Random(5)
    whole = written(made)
    for turn in range(150):
        text = chance.choice(["", "Well, "]) + whole
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(text))
            more = chance.choice(["", "{", '"', "<", "x"])
            text = text[:at] + more + text[at + chance.randrange(9) :]
        text = text.strip() or "x"
        cuts = sorted(chance.sample(range(len(text) + 1), k=min(3, len(text))))
        found = read(made, text, streams=False)
        assert found == read(made, text, cuts, streams=False), turn
        if not found[2] and not found[0] and not any(one.core in text for one in made.starts):
            assert text.startswith(found[1]), (turn, text)
            rest = text[len(found[1]) :]
            assert not rest or made.ending.text.startswith(rest) or rest == EOS, (turn, text)


@forms
def test_a_call_that_is_cut_is_text_where_the_answer_is_whole(name: str) -> None:
    made = form(name)
    text = written(made, "Oslo or Bergen")
    cut = text[: text.index("Bergen")]
    assert read(made, cut, streams=False)[1:] == (cut, [])
    from mtkit.chat.answer import CallStart, CallText
    from mtkit.chat.answer_reader import open_reader

    reader = open_reader(made, TOOLS, "x")
    parts = [*reader.push(cut), *reader.finish()]
    (start,) = (part for part in parts if isinstance(part, CallStart))
    told = "".join(part.text for part in parts if isinstance(part, CallText))
    assert start.name == "get_weather"
    assert '{"city": "Oslo or Bergen"}'.startswith(told)
    assert "Oslo or" in told or name.startswith("google")


@forms
def test_one_call_where_several_are_not_wanted(name: str) -> None:
    made = form(name)
    if not made.calls.repeats:
        pytest.skip("it writes one")
    twice = written(made) + "\n" + written(made)
    assert read(made, twice)[2] == [OSLO, OSLO]
    assert read(made, twice, several=False)[2] == [OSLO]


@forms
def test_arguments_are_told_as_they_come(name: str) -> None:
    from mtkit.chat.answer import CallText
    from mtkit.chat.answer_reader import open_reader

    made = form(name)
    text = written(made, "long " * 200)
    reader = open_reader(made, TOOLS, "x")
    told = 0
    for at, one in enumerate(text):
        told += sum(len(part.text) for part in reader.push(one) if isinstance(part, CallText))
        if at == text.index("long ") + 500:
            assert told > 400


@forms
def test_long_nonsense_is_read_in_time_that_grows_with_it(name: str) -> None:
    made = form(name)
    whole = written(made)
    begun, _, rest = whole.partition("Oslo")
    opening = made.calls.opening.text
    texts = [
        begun * 2000, opening + begun.removeprefix(opening) * 2000 + rest, whole[:-1] * 1000,
        opening * 4000, '{"name": "get_weather", ' * 2000, "[" * 20_000, begun + "[" * 20_000,
    ]  # fmt: skip
    began = time.perf_counter()
    for text in texts:
        read_any(made, text)
    assert time.perf_counter() - began < 20


def read_any(made: Any, text: str) -> None:
    from mtkit.chat.answer_reader import open_reader

    reader = open_reader(made, TOOLS, "x")
    for at in range(0, len(text), 5):
        reader.push(text[at : at + 5])
    reader.finish()


@forms
def test_odd_definitions_of_tools(name: str) -> None:
    made = form(name)
    for odd in (None, [1], {"properties": 3}, {"properties": {"city": 3}}, "x"):
        tools = [{"function": {"name": "get_weather", "parameters": odd}}, {"function": 3}, {}]
        assert read(made, written(made), tools=tools)[2] == [OSLO]


BARE = '{"name": "get_weather", "arguments": {"city": "Oslo"}}'
SMALL = {
    "alone": (BARE, [OSLO]),
    "with white space": (f"\n  {BARE}\n", [OSLO]),
    "parameters": ('{"name": "get_weather", "parameters": {"city": "Oslo"}}', [OSLO]),
    "in a block": (f"```json\n{BARE}\n```", [OSLO]),
    "in a block without a kind": (f"```\n{BARE}\n```", [OSLO]),
    "in a list": (f"[{BARE}, {BARE}]", [OSLO, OSLO]),
    "one behind the other": (f"{BARE}\n{BARE}", [OSLO, OSLO]),
    "Llama's way": (f"<|python_tag|>{BARE}; {BARE}", [OSLO, OSLO]),
    "as OpenAI has it": (f'{{"type": "function", "function": {BARE}}}', [OSLO]),
    "arguments first": ('{"arguments": {"city": "Oslo"}, "name": "get_weather"}', [OSLO]),
    "another tool": (BARE.replace("get_weather", "other"), []),
    "more than a call": (BARE.replace("{", '{"x": 1, ', 1), []),
    "no arguments": ('{"name": "get_weather"}', []),
    "an answer in JSON": ('{"answer": [1, 2]}', []),
    "a list of others": ('[{"name": "other", "arguments": {}}]', []),
    "behind a text": (f"So: {BARE}", []),
}


@pytest.mark.parametrize("case", SMALL)
def test_calls_as_small_models_write_them(case: str) -> None:
    text, wanted = SMALL[case]
    for name in ("Qwen-Qwen2.5-7B-Instruct", "phi-3-mini", "meta-llama-Llama-3.1-8B-Instruct"):
        made = form(name)
        said = "" if wanted else text
        for streams in (False, True):
            assert read(made, text, range(1, len(text)), streams=streams) == ("", said, wanted)
        assert read(made, text, tools=[]) == ("", text, [])
        assert read(made, text, calls=False) == ("", text, [])


def test_a_prompt_that_ends_in_a_reasoning() -> None:
    from mtkit.chat import parse_response

    text = shared("tokenizers/chat/templates/Qwen-Qwen3-0.6B.jinja").read_text(encoding="utf-8")
    opened = "<|im_start|>assistant\n<think>\n"
    said = "Well.\n</think>\n\nSo.<|im_end|>"
    wanted = {"content": "So.", "reasoning_content": "Well.", "tool_calls": None}
    assert parse_response(text, said, prompt=opened) == wanted
    assert parse_response(text, f"<think>\n{said}") == wanted
    assert parse_response(text, "Well.", prompt=opened)["reasoning_content"] == "Well."
    assert parse_response(text, "We", prompt=f"{opened}Let me")["reasoning_content"] == "We"
    closed = f"{opened}\n</think>\n\n"
    assert parse_response(text, "So. <think>", prompt=closed)["content"] == "So. <think>"
    raw = "<think>\nWell.\n</think>\n\nSo."
    assert read(form("Qwen-Qwen3-0.6B"), raw, reasoning=False) == ("", raw, [])


def test_reading_takes_no_time_worth_telling() -> None:
    """Two percent of a token of the model that ships, 1 ms, is 20 microseconds."""
    from mtkit.chat.answer_reader import open_reader

    words = "The quick brown fox jumps over the lazy dog. " * 100
    made = form("Qwen-Qwen3-0.6B")
    call = json.dumps({"name": "get_weather", "arguments": {"city": words}})
    text = f"<think>\n{words}\n</think>\n\n{words}\n<tool_call>\n{call}\n</tool_call>"
    pieces = [text[at : at + 4] for at in range(0, len(text), 4)]
    best = 1.0
    for _ in range(5):
        reader = open_reader(made, TOOLS, "x")
        began = time.perf_counter()
        for piece in pieces:
            reader.push(piece)
        best = min(best, (time.perf_counter() - began) / len(pieces))
    assert best < 20e-6


@forms
def test_a_call_beyond_the_first_is_left_out_where_it_is_cut(name: str) -> None:
    made = form(name)
    whole = written(made)
    for end in range(len(whole) + 1, 2 * len(whole)):
        text = (whole + whole)[:end]
        assert read(made, text, several=False, streams=False)[2] == [OSLO], text


def test_odd_schemas_of_arguments_are_no_schemas() -> None:
    from mtkit.chat.value_reader import kinds_in

    for odd in ({"anyOf": 5}, {"oneOf": {"a": 1}}, {"type": [5]}, {"enum": 3}, {"anyOf": [3]}):
        assert kinds_in(odd) == kinds_in({})


@forms
def test_what_closes_a_call_and_was_cut_is_no_text(name: str) -> None:
    made = form(name)
    if made.calls.sample is None:
        return
    closing = made.calls.sample[1]
    whole = written(made)
    start = len(whole) - len(closing) + 1
    for end in range(start, len(whole) + 1):
        _, text, calls = read(made, whole[:end])
        if calls == [OSLO]:
            assert not text.strip(), whole[:end]


def test_a_value_that_is_none_of_its_type_ends_where_the_next_begins() -> None:
    """Reading it never came to an end: what ends a value begins with white space before it."""
    types = {"o": {"type": "object"}, "l": {"type": "array"}}
    tool = {"name": "f", "parameters": {"type": "object", "properties": types}}
    text = (
        "<tool_call>\n<function=f>\n<parameter=o>\n{bad\n</parameter>\n<parameter=l>\n[]\n"
        "</parameter>\n</function>\n</tool_call>"
    )
    answer = read(form("Qwen3-Coder"), text, tools=[{"type": "function", "function": tool}])
    assert answer == ("", "", [("f", {"o": "{bad", "l": []})])
