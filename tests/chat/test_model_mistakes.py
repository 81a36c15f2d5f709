"""What models write that their templates do not: escapes, other white space, thoughts of nothing.

The kinds are those that llama.cpp expects its own reader to take (tests/test-chat.cpp).
"""

from __future__ import annotations

import json
import tarfile
from functools import cache
from random import Random
from typing import Any

import pytest
from support import shared

PROPERTIES = {"text": {"type": "string"}, "note": {"type": "string"}, "n": {"type": "integer"}}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "write",
            "parameters": {"type": "object", "properties": PROPERTIES, "required": ["text"]},
        },
    }
]
QUOTED = ("LFM2-8B-A1B", "LFM2.5-Instruct", "LFM2.5-8B-A1B")
TAGGED = ("GLM-4.6", "GLM-4.7-Flash", "Spark2.5", "inclusionai-ling-3.0-flash")


@cache
def form(name: str) -> Any:
    from mtkit.chat.answer_analysis import find_form

    with tarfile.open(shared("templates.tar.xz")) as archive:
        file = archive.extractfile(f"templates/{name}.jinja")
        assert file is not None
        return find_form(file.read().decode("utf-8"))


def read(name: str, text: str, size: int = 0, **options: Any) -> tuple[str, str, list[Any]]:
    """Return reasoning, text and calls of an answer, whole or in pieces of a size."""
    from mtkit.chat.answer import calls_in, reasoning_in, text_in
    from mtkit.chat.answer_reader import open_reader

    is_cut = options.pop("is_cut", False)
    prompt = options.pop("prompt", None) or form(name).header or "x"
    reader = open_reader(form(name), TOOLS, prompt, **options)
    pieces = [text[at : at + size] for at in range(0, len(text), size)] if size else []
    parts = [part for piece in pieces for part in reader.push(piece)]
    parts += reader.finish("" if size else text, is_cut=is_cut)
    calls = [(call.name, call.arguments) for call in calls_in(parts)]
    return reasoning_in(parts), text_in(parts), calls


def values(name: str, text: str, size: int) -> Any:
    reasoning, shown, calls = read(name, text, size)
    assert (reasoning.strip(), shown.strip()) == ("", ""), (name, text)
    return [(called, json.loads(arguments)) for called, arguments in calls]


@pytest.mark.parametrize("name", QUOTED)
@pytest.mark.parametrize("size", [0, 1, 3, 7])
def test_a_text_in_quotes_has_python_s_escapes(name: str, size: int) -> None:
    draw = Random(size)
    units = [
        "a",
        " b",
        "\\n",
        "\\t",
        '\\"',
        "\\\\",
        "\\'",
        "'",
        ", ",
        ")",
        "]",
        "(",
        "é",
        "\\u00e9",
    ]
    texts = [
        "def f():\\n    print('x')",
        'print(\\"hi\\")',
        "C:\\\\dir\\\\",
        "",
        "\\x41\\U0001f600",
    ]
    texts += ["".join(draw.choices(units, k=draw.randint(1, 12))) for _ in range(12)]
    for text in texts:
        answer = f'<|tool_call_start|>[write(text="{text}", n=3)]<|tool_call_end|>'
        meaning = {"text": eval(f'"{text}"'), "n": 3}
        assert values(name, answer, size) == [("write", meaning)], answer
        answer = f'<|tool_call_start|>[write(text="{text}")]<|tool_call_end|>'
        assert values(name, answer, size) == [("write", {"text": meaning["text"]})], answer


@pytest.mark.parametrize("name", QUOTED)
def test_a_call_that_is_cut_at_a_value_is_the_same_streamed_and_whole(name: str) -> None:
    text = "<|tool_call_start|>[write(n="
    assert {repr(read(name, text, size, is_cut=True)) for size in (0, 1, 4)} == {
        repr(("", "", [("write", '{"n": ')]))
    }


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize("size", [0, 1, 5])
def test_white_space_between_tags_is_free(name: str, size: int) -> None:
    calls = form(name).calls
    opening, prompt = calls.pairs.pairs[0].opening.text, f"{form(name).header}</think>"
    meaning = {"text": "two words", "n": 7}
    for gap in ("", "\n"):
        answer = (
            f"{calls.opening.core}write{calls.pairs.first.text}text{opening}two words</arg_value>"
            f"{gap}<arg_key>n{opening}7</arg_value>{gap}</tool_call>"
        )
        found = read(name, answer, size, prompt=prompt)[2]
        assert [(called, json.loads(text)) for called, text in found] == [("write", meaning)]


@pytest.mark.parametrize("name", TAGGED)
@pytest.mark.parametrize("size", [0, 1, 5])
def test_a_missing_tag_of_the_last_value(name: str, size: int) -> None:
    pair = form(name).calls.pairs
    opening = pair.pairs[0].opening.text
    head = f"{form(name).calls.opening.core}write{pair.first.text}text{opening}"
    prompt = f"{form(name).header}</think>"
    calls = read(name, f"{head}hello</tool_call>", size, prompt=prompt)[2]
    assert [(called, json.loads(text)) for called, text in calls] == [("write", {"text": "hello"})]
    calls = read(name, f"{head}a </tool_call> b</arg_value></tool_call>", size, prompt=prompt)[2]
    assert json.loads(calls[0][1]) == {"text": "a </tool_call> b"}


@pytest.mark.parametrize("size", [0, 1, 4])
def test_thoughts_of_nothing_behind_a_text(size: int) -> None:
    name, empty = "google-gemma-4-31B-it", "<|channel>thought\n<channel|>"
    for end in ("<channel|>", empty, f"{empty}<channel|>"):
        assert read(name, f"{empty}Hello!{end}", size)[:2] == ("", "Hello!"), end
    assert read(name, f"{empty}A <channel|> sign.", size)[1] == "A <channel|> sign."


@pytest.mark.parametrize("name", ["GLM-4.7-Flash", "Spark2.5"])
def test_what_the_prompt_closed_is_not_in_the_answer(name: str) -> None:
    prompt = f"{form(name).header}</think>"
    assert read(name, "Hello.", 1, prompt=prompt, reasoning=False)[1] == "Hello."


@pytest.mark.parametrize("size", [0, 1, 4])
def test_channels(size: int) -> None:
    name, final = "openai-gpt-oss-120b", "<|channel|>final<|message|>Hi."
    begun = "<|channel|>commentary to=assistant"
    thought = "<|channel|>analysis<|message|>Well.<|end|><|start|>assistant"
    assert read(name, f"{begun}{thought}{final}", size)[:2] == ("Well.", "Hi.")
    assert read(name, f"{thought}{begun}{final}", size)[:2] == ("Well.", "Hi.")
    prompt = "<|start|>user<|message|>Q<|end|><|start|>assistant<|channel|>analysis<|message|>We"
    answer = f"ll.<|end|><|start|>assistant{final}"
    assert read(name, answer, size, prompt=prompt)[:2] == ("ll.", "Hi.")
    raw = "<|channel|>analysis<|message|>Well.<|end|>Hi."
    assert read(name, raw, size, reasoning=False)[1] == raw
