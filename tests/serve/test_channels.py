"""Answers of channels: reasoning apart, text as it comes, calls wherever their recipient stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from llm_models import maker
from serving_http import server
from support import CACHE, reference, shared

reference("msgspec")

TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Looks it up.",
          "parameters": {"type": "object", "properties": {"city": {"enum": ["Oslo", "Łódź"]}},
                         "required": ["city"], "additionalProperties": False}}}]  # fmt: skip
OSLO = '{"city": "Oslo"}'
CALL = [("get_weather", {"city": "Oslo"})]
THINKING = "<|channel|>analysis<|message|>They ask <b>.\n<|end|>"
BEGIN = "<|start|>assistant"
TO = " to=functions.get_weather"
SHOWN = "<|channel|>commentary<|message|>I look.<|end|>"
CALLING = f"<|channel|>commentary{TO} <|constrain|>json<|message|>{OSLO}<|call|>"
BARE = f"<|channel|>commentary{TO}<|message|>"
FINAL = "<|channel|>final<|message|>Rain.<|return|>"
THOUGHT = "They ask <b>.\n"
READ: dict[str, tuple[str, tuple[str, str, Any]]] = {
    "only a text": ("Hi.", ("", "Hi.", [])),
    "final": ("<|channel|>final<|message|>Hi. <|return|>", ("", "Hi. ", [])),
    "final, not ended": ("<|channel|>final<|message|>Hi. <|re", ("", "Hi. <|re", [])),
    "a kind": ("<|channel|>final <|constrain|>json<|message|>{}<|return|>", ("", "{}", [])),
    "reasoning": (f"{THINKING}{BEGIN}{FINAL}", (THOUGHT, "Rain.", [])),
    "reasoning, not ended": (THINKING[:-7], (THOUGHT, "", [])),
    "preamble": (f"{THINKING}{BEGIN}{SHOWN}{BEGIN}{CALLING}", (THOUGHT, "I look.", CALL)),
    "two shown": (
        f"{SHOWN}{BEGIN}<|channel|>final<|message|><|end|>{BEGIN}{FINAL}",
        ("", "I look.\n\nRain.", []),
    ),
    "recipient in the role": (
        f"{THINKING}{BEGIN}{TO}<|channel|>commentary json<|message|>{OSLO}<|call|>",
        (THOUGHT, "", CALL),
    ),
    "recipient at once": (f"{TO}<|channel|>commentary<|message|>{OSLO}", ("", "", CALL)),
    "call in the reasoning": (f"<|channel|>analysis{TO} code<|message|>{OSLO}", ("", "", CALL)),
    "two calls": (f"{CALLING}{BEGIN}{BARE}{OSLO}", ("", "", CALL * 2)),
    "call, not ended": (f"{BARE}{OSLO[:-1]}", ("", "", [("get_weather", OSLO[:-1])])),
    "call of nothing": (f"{THINKING}{BEGIN}{BARE}", (THOUGHT, "", [("get_weather", "")])),
    "no functions.": (BARE.replace("functions.", "") + OSLO, ("", "", CALL)),
    "no functions., at once": (
        f" to=get_weather<|channel|>commentary json<|message|>{OSLO}<|call|>",
        ("", "", CALL),
    ),
    "a name that begins as a tool's": (
        f"<|channel|>commentary to=get_weathers<|message|>{OSLO}<|call|>",
        ("", OSLO, []),
    ),
    "nobody's recipient, in the role": (
        f"{THINKING}{BEGIN} to=container.exec<|channel|>commentary<|message|>ls -l<|call|>",
        (THOUGHT, "ls -l", []),
    ),
    "cut behind a sign": (f"{THINKING}{BEGIN}<|channel|>", (THOUGHT, "", [])),
    "cut in a channel's name": ("<|channel|>ana", ("", "", [])),
    "cut in a kind": ("<|channel|>final <|constrain|>js", ("", "", [])),
    "arguments that are none": (f"\n {BARE}[]<|call|>", ("", f"\n {BARE}[]<|call|>", [])),
    "another recipient": (
        "<|channel|>analysis to=python code<|message|>1<|call|>",
        ("1", "", []),
    ),
    "header, not ended": (f"{THINKING}{BEGIN}<|chan", (THOUGHT, f"{BEGIN}<|chan", [])),
    "a long way to no header": (
        f"<|start|>{'x ' * 300}\n{THINKING}",
        (THOUGHT, f"<|start|>{'x ' * 300}".rstrip(), []),
    ),
}


def harmony() -> Any:
    from mtkit.chat.answer_analysis import find_form

    text = shared("tokenizers/chat/templates/openai-gpt-oss-120b.jinja").read_text("utf-8")
    found = find_form(text, "<|return|>")
    assert found.channels
    return found


def read(text: str, cuts: Sequence[int] = (), **options: Any) -> tuple[str, str, Any]:
    """Return reasoning, text and calls of an answer that comes in pieces."""
    from mtkit.chat.answer import calls_in, reasoning_in, text_in
    from mtkit.chat.answer_reader import open_reader

    reader = open_reader(harmony(), **{"tools": TOOLS, **options})
    parts: list[Any] = []
    for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True):
        parts += reader.push(text[first:last])
    parts += reader.finish()
    assert all(parts)
    calls = [(one.name, whole_or_text(one.arguments)) for one in calls_in(parts)]
    assert reader.called == len(calls)
    return reasoning_in(parts), text_in(parts), calls


def whole_or_text(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


@pytest.mark.parametrize("name", READ)
def test_an_answer_is_read_however_it_is_cut(name: str) -> None:
    text, wanted = READ[name]
    assert read(text) == wanted
    for cut in range(len(text) + 1):
        assert read(text, [cut]) == wanted, cut
    assert read(text, range(1, len(text))) == wanted


def test_text_and_reasoning_are_told_as_they_come() -> None:
    from mtkit.chat.answer import Thought
    from mtkit.chat.answer_reader import open_reader

    reading = open_reader(harmony(), [])
    told = ["<|channel|>", "analysis", "<|message|>", "Well", "<|end|>", BEGIN]
    told += ["<|channel|>", "final", "<|message|>", "Hi", " you", "<|return|>"]
    found = [reading.push(piece) for piece in told]
    assert [one for one in found if one] == [[Thought("Well")], ["Hi"], [" you"]]


def test_the_signs_of_a_reasoning_stay_where_it_is_not_told_apart() -> None:
    text = f"{THINKING}{BEGIN}{FINAL}"
    wanted = ("", f"{THINKING}Rain.", [])
    for cut in range(len(text) + 1):
        assert read(text, [cut], reasoning=False) == wanted, cut
    assert read(text, range(1, len(text)), reasoning=False) == wanted


def test_one_call_where_several_are_not_wanted() -> None:
    text, _ = READ["two calls"]
    assert read(text, several=False) == ("", "", CALL)


@pytest.mark.parametrize("options", [{"tools": []}, {"calls": False}], ids=["none", "no choice"])
def test_without_tools_a_call_is_text(options: dict[str, Any]) -> None:
    text, _ = READ["preamble"]
    thoughts, said, calls = read(text, **options)
    assert (thoughts, calls) == (THOUGHT, [])
    assert said == "I look." + text[text.rindex(BEGIN) :]


def test_reasoning_as_it_is_written() -> None:
    text, _ = READ["reasoning"]
    assert read(text, reasoning=False) == ("", f"{THINKING}Rain.", [])


def test_signs_in_the_arguments_of_a_call() -> None:
    odd = json.dumps({"city": "a<|end|>b<|call|>"})
    assert read(f"{BARE}{odd}<|call|>") == ("", "", [("get_weather", json.loads(odd))])


# -- over HTTP

SPOKEN = READ["preamble"][0].removesuffix("<|call|>")
NAMES = ("start", "end", "message", "channel", "constrain", "return", "call")
CONTROLS = [f"<|{name}|>" for name in NAMES]
ASK = [{"role": "user", "content": "Weather?"}]


def model() -> Path:
    """Return the path of a tiny model with the control tokens and the template of gpt-oss."""
    reference("llama_cpp")
    path = CACHE / "tiny-2" / "channels.gguf"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        module = maker()
        vocab = module.spm_vocab(1024, chat=False)
        for place, text in enumerate(CONTROLS):
            vocab.tokens[-1 - place], vocab.types[-1 - place] = text, module.CONTROL
        text = shared("tokenizers/chat/templates/openai-gpt-oss-120b.jinja").read_text("utf-8")
        module.make(str(path), "llama", vocab=vocab, chat_template=text)
    return path


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with server(model(), "-np", "2", "-c", "8192") as started:
        yield started.url


@pytest.fixture
def openai(url: str) -> Iterator[Any]:
    with reference("openai").OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        yield client


def writing(text: str, url: str) -> dict[str, Any]:
    """Return what makes a model write a text, its control tokens as such."""
    found = reference("httpx").post(f"{url}/tokenize", json={"content": "".join(CONTROLS)})
    ids = found.json()["tokens"]
    assert len(ids) == len(CONTROLS)
    grammar = f"root ::= {json.dumps(text, ensure_ascii=False)}"
    return {"grammar": grammar, "logit_bias": {str(token_id): 50 for token_id in ids}}


def test_the_openai_client_gets_reasoning_text_and_calls(openai: Any, url: str) -> None:
    asked = {"model": "x", "messages": ASK, "tools": TOOLS, "extra_body": writing(SPOKEN, url)}
    whole = openai.chat.completions.create(**asked, logprobs=True).choices[0]
    told = [one.token for one in whole.logprobs.content]
    assert [one for one in told if one in CONTROLS] == (
        ["<|channel|>", "<|message|>", "<|end|>", "<|start|>"] * 2
        + ["<|channel|>", "<|constrain|>", "<|message|>"]
    )
    assert whole.finish_reason == "tool_calls"
    assert whole.message.content == "I look."
    assert whole.message.reasoning_content == THOUGHT
    (call,) = whole.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == CALL[0]
    thoughts, said, calls, ends = "", "", [], []
    for chunk in openai.chat.completions.create(**asked, stream=True):
        (choice,) = chunk.choices
        thoughts += getattr(choice.delta, "reasoning_content", "")
        said += choice.delta.content or ""
        calls += choice.delta.tool_calls or []
        ends.append(choice.finish_reason)
    assert (thoughts, said) == (THOUGHT, "I look.")
    assert [one.function.name for one in calls if one.id] == [call.function.name]
    assert "".join(one.function.arguments for one in calls) == call.function.arguments
    assert ends[-1] == "tool_calls"
    answered = [
        *ASK,
        whole.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "Rain."},
    ]
    prompt = reference("httpx").post(f"{url}/apply-template", json={"messages": answered}).json()
    between = "<|end|><|start|>assistant"
    written = f"<|channel|>final<|message|>I look.{between}<|channel|>analysis<|message|>{THOUGHT}"
    assert written + between + TO in prompt["prompt"]


def test_without_tools_the_text_is_the_final_channel(openai: Any, url: str) -> None:
    text, (thoughts, said, _) = READ["reasoning"]
    asked = {"model": "x", "messages": ASK, "extra_body": writing(text, url)}
    whole = openai.chat.completions.create(**asked).choices[0]
    assert whole.finish_reason == "stop"
    assert (whole.message.reasoning_content, whole.message.content) == (thoughts, said)
    assert whole.message.tool_calls is None


def test_a_call_can_be_forced(openai: Any) -> None:
    found = openai.chat.completions.create(
        model="x", messages=ASK, tools=TOOLS, tool_choice="required", temperature=1, seed=3, n=4
    )
    for one in found.choices:
        assert one.finish_reason == "tool_calls"
        assert one.message.content is None
        assert json.loads(one.message.tool_calls[0].function.arguments)["city"] in ("Oslo", "Łódź")


def test_the_anthropic_client_gets_text_and_calls(url: str) -> None:
    parameters = TOOLS[0]["function"]["parameters"]  # type: ignore[index]
    asked = {
        "model": "x", "messages": ASK, "max_tokens": 300, "extra_body": writing(SPOKEN, url),
        "tools": [{"name": "get_weather", "input_schema": parameters}],
    }  # fmt: skip
    library = reference("anthropic")
    with library.Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        whole = client.messages.create(**asked)
        with client.messages.stream(**asked) as stream:
            streamed = stream.get_final_message()
    for message in (whole, streamed):
        thought, text, call = message.content
        assert (thought.thinking, text.text) == (THOUGHT, "I look.")
        assert (call.name, call.input) == CALL[0]
        assert message.stop_reason == "tool_use"
