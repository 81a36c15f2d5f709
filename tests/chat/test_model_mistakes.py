"""What models write that their templates do not: escapes, other white space, thoughts of nothing.

The kinds are those that llama.cpp expects its own reader to take (tests/test-chat.cpp).
"""

from __future__ import annotations

import json
import tarfile
from functools import cache
from pathlib import Path
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
def templates() -> dict[str, str]:
    with tarfile.open(shared("templates.tar.xz")) as archive:
        files = [(m.name, archive.extractfile(m)) for m in archive]
        return {Path(name).stem: file.read().decode("utf-8") for name, file in files if file}


@cache
def form(name: str) -> Any:
    from mtkit.chat.answer_analysis import find_form

    return find_form(templates()[name])


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


@pytest.mark.parametrize("name", ["MiniMax-M3", "Qwen3.5-4B", "deepseek-ai-DeepSeek-V3.2"])
@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_reasoning_that_the_model_opens_once_more(name: str, size: int) -> None:
    sign = form(name).thinking.core
    prompt, closing = f"{form(name).header}{sign}\n", form(name).thought[0].text
    for answer in (f"{sign}Well.{closing}Hi.", f"\n{sign}\nWell.{closing}Hi."):
        reasoning, text, _ = read(name, answer, size, prompt=prompt)
        assert (reasoning.strip(), text) == ("Well.", "Hi."), answer
    inner = f"A {sign} sign."
    assert read(name, f"{inner}{closing}Hi.", size, prompt=prompt)[0].strip() == inner


@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_control_token_that_stands_twice(size: int) -> None:
    answer = "<|channel><|channel>thought\n{}<channel|>Hi."
    for thought in ("", "Well."):
        found = read("google-gemma-4-31B-it", answer.format(thought), size)[:2]
        assert found == (thought, "Hi.")


@pytest.mark.parametrize("size", [0, 1, 4])
def test_a_response_that_closes_no_reasoning(size: int) -> None:
    name, reply = "Kimi-K3", "<|open|>response<|sep|>Hi.<|close|>response<|sep|>"
    sign, close = "<|open|>think<|sep|>", "<|close|>think<|sep|>"
    prompt = form(name).header + sign
    assert read(name, reply, size, prompt=prompt)[:2] == ("", "Hi.")
    assert read(name, f"Well.{reply}", size, prompt=prompt)[:2] == ("Well.", "Hi.")
    call = (
        '<|open|>tools<|sep|><|open|>call tool="write" index="1"<|sep|><|open|>argument key="n" '
        'type="number"<|sep|>1<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>'
    )
    answer = f"Well.{close}{reply.replace('Hi.', '')}{call}"
    assert read(name, answer, size, prompt=prompt) == ("Well.", "", [("write", '{"n": 1}')])
    raw = read(name, f"Well.{close}{reply}", size, prompt=prompt, reasoning=False)
    assert raw == ("", f"{sign}Well.{close}Hi.", [])


@pytest.mark.parametrize("size", [0, 1, 4])
def test_only_the_signs_of_the_reasoning_are_shown(size: int) -> None:
    name = "Cohere2MoE"
    sign, close = form(name).thinking.core, "<|END_THINKING|>"
    answer = f"Well.{close}<|START_TEXT|>Hi.<|END_TEXT|>"
    prompt = form(name).header + sign
    shown = read(name, answer, size, prompt=prompt, reasoning=False)
    assert shown == ("", f"{sign}Well.{close}Hi.", [])


@pytest.mark.parametrize("size", [0, 1, 4])
def test_calls_behind_a_message_or_without_what_opens_them(size: int) -> None:
    answer = (
        " to=user<|message|>Hi.<|eom|><|start|>assistant to=write<|message|><atem:function_calls>"
        '\n<atem:invoke name="write">\n<atem:parameter name="text">a</atem:parameter>\n'
        "</atem:invoke>\n</atem:function_calls>"
    )
    assert read("muse-glimmer", answer, size) == ("", "Hi.", [("write", '{"text": "a"}')])
    name, called = "Kimi-K2-Thinking", [("write", '{"n": 1}'), ("write", '{"n": 2}')]
    calls = "".join(
        f"<|tool_call_begin|>functions.write:{at}<|tool_call_argument_begin|>{arguments}"
        for at, (_, arguments) in enumerate(called)
    )
    assert read(name, f"<think>Well.{calls}", size) == ("Well.", "", called)
    assert read(name, f"<think>Well.</think>Hi.{calls}", size) == ("Well.", "Hi.", called)


def test_a_reasoning_is_continued_where_the_template_shows_no_open_one() -> None:
    from mtkit.llm.chat_prompt import ChatPrompt

    class Tokens:
        bos, eos, add_bos, has_encoder, path = 0, 0, False, False, ""

        def piece(self, token_id: int, *, special: bool = False) -> bytes:
            return b"</s>"

    model: Any = Tokens()
    last = {"role": "assistant", "content": "", "reasoning_content": "So far"}
    for name in (
        "google-gemma-4-31B-it",
        "Qwen-QwQ-32B",
        "mistralai-Ministral-3-14B-Reasoning-2512",
        "deepseek-ai-DeepSeek-R1-Distill-Qwen-32B",
    ):
        prompt = ChatPrompt(model, templates()[name])
        for thinks in (True, False):
            text = prompt.text(
                [{"role": "user", "content": "Hi"}, last],
                continue_final="reasoning_content",
                values=form(name).thinking_values(thinks=thinks),
            )
            sign, closing = form(name).thinking.core, form(name).thought[0].text
            assert text.rpartition(sign)[2].strip() == "So far", name
            found = read(name, f" good{closing}Hi.", 1, prompt=text)[:2]
            assert found == (" good", "Hi."), name
