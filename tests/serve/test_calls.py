"""Calls of tools: what templates write is read back, and both APIs' clients get it."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import pytest
from llm_models import chatting
from serving_http import server
from support import reference, shared

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

reference("msgspec")

TEMPLATES = {  # how each is written: whether several calls, and values that are not texts
    "GLM-4.6": (True, True),
    "MiMo-VL": (True, True),
    "Mistral-Small-3.2-24B-Instruct-2506": (True, True),
    "NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": (True, True),
    "Qwen-Qwen2.5-7B-Instruct": (True, True),
    "Qwen-Qwen3-0.6B": (True, True),
    "Qwen3-Coder": (True, True),
    "Qwen3.5-4B": (True, True),
    "deepseek-ai-DeepSeek-V3.1": (True, True),
    "deepseek-ai-DeepSeek-V3.2": (True, True),
    "google-gemma-4-31B-it": (True, True),
    "meta-llama-Llama-3.1-8B-Instruct": (False, True),
    "meta-llama-Llama-3.2-3B-Instruct": (False, True),
    "mistralai-Mistral-Nemo-Instruct-2407": (True, True),
    "moonshotai-Kimi-K2": (True, True),
    "openai-gpt-oss-120b": (False, True),
    "openbmb-MiniCPM5-1B": (True, False),
}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": name,
            "description": "Looks it up.",
            "parameters": {
                "type": "object",
                "properties": {"city": {"type": "string"}, "days": {"type": "integer"}},
                "required": ["city"],
            },
        },
    }
    for name in ("get_weather", "find-city")
]
WORDS = ("Łódź", "3", "true", "null", "", "a b", 'say "hi"', "x < y & z", "one\ntwo", "{}", "你😀")
OTHERS = (0, -7, 2.5, True, False, [1, 2], {"a": {"b": ["c"]}}, [])


def template(name: str) -> str:
    return shared(f"tokenizers/chat/templates/{name}.jinja").read_text(encoding="utf-8")


def drawn(chance: random.Random, *, texts_only: bool) -> dict[str, Any]:
    found: dict[str, Any] = {"city": chance.choice(WORDS)}
    if chance.random() < 0.5:
        found["days"] = chance.randrange(100)
    if not texts_only and chance.random() < 0.5:
        found["other"] = chance.choice(OTHERS)
    return found


def read(form: Any, text: str, cuts: Sequence[int] = (), **options: Any) -> tuple[str, list[Any]]:
    """Return the text and the calls of an answer that comes in pieces."""
    from mtkit.chat.answer_parts import calls_in, text_in
    from mtkit.serve.tools import Tools

    reading = Tools(form, TOOLS, **options).reading()
    parts: list[Any] = []
    for first, last in zip([0, *cuts], [*cuts, len(text)], strict=True):
        parts += reading.push(text[first:last])
    parts += reading.finish()
    calls = [(call.name, json.loads(call.arguments)) for call in calls_in(parts)]
    assert reading.called == len(calls)
    return text_in(parts), calls


@pytest.mark.parametrize("name", TEMPLATES)
def test_what_a_template_writes_is_read_back(name: str) -> None:
    from mtkit.chat.template import render
    from mtkit.serve.call_forms import form_of

    text, case = template(name), json.loads(shared("tokenizers/chat/cases.json").read_bytes())
    form = form_of(text)
    eos = case["templates"][name]["eos_token"]
    several, others = TEMPLATES[name]
    chance = random.Random(name)
    for _ in range(6):
        wanted = [
            (chance.choice(TOOLS)["function"]["name"], drawn(chance, texts_only=not others))
            for _ in range(chance.randrange(1, 4) if several else 1)
        ]
        calls = [
            {"id": f"abcdefgh{at}", "type": "function",
             "function": {"name": called, "arguments": arguments}}
            for at, (called, arguments) in enumerate(wanted)
        ]  # fmt: skip
        user = {"role": "user", "content": "Weather?"}
        values = {"bos_token": "<s>", "eos_token": eos}
        asked = render(text, [user], tools=TOOLS, add_generation_prompt=True, values=values).text
        answer = {"role": "assistant", "content": "", "tool_calls": calls}
        whole = render(text, [user, answer], tools=TOOLS, values=values).text
        begun = next(at for at in range(len(asked), 0, -1) if whole.startswith(asked[:at]))
        if not form.leads:  # both may go on with the same characters
            begun = whole.find(form.openings[0], begun - len(form.openings[0]))
        written = whole[begun:].partition(eos)[0]
        cuts = sorted(chance.sample(range(len(written) + 1), k=min(9, len(written))))
        said, found = read(form, written, cuts)
        assert found == wanted, written
        assert not any(called in said for called, _ in wanted), said


def forms() -> Any:
    from mtkit.serve.call_forms import FORMS

    return pytest.mark.parametrize("form", FORMS, ids=[form.openings[0] for form in FORMS])


def filled(form: Any) -> str:
    found = form.example.replace("NAME", "get_weather").replace("ARGUMENTS", '{"city": "Oslo"}')
    return found.replace("KEY", "city").replace("VALUE", "Oslo")


@forms()
def test_every_form_is_found_by_its_template_and_reads_its_example(form: Any) -> None:
    from mtkit.serve.call_forms import form_of

    assert form_of(" ".join(form.signs)) == form
    for cut in range(len(filled(form)) + 1):
        assert read(form, filled(form), [cut]) == ("", [("get_weather", {"city": "Oslo"})])
    if not form.leads:
        before, after = "Let me see.\n\n", "" if not form.closing else "\nDone."
        for cut in range(len(before + filled(form) + after) + 1):
            said, found = read(form, before + filled(form) + after, [cut])
            assert said == "Let me see." + after.strip()
            assert len(found) == 1


@forms()
def test_what_is_not_a_call_stays_as_it_is(form: Any) -> None:
    example, chance = filled(form), random.Random(5)
    for turn in range(300):
        text = chance.choice(["", "\n ", "Well, "]) + example
        for _ in range(chance.randrange(1, 4)):
            at = chance.randrange(len(text))
            text = (
                text[:at]
                + chance.choice(["", "{", '"', "<", "x"])
                + text[at + chance.randrange(9) :]
            )
            text = text or "x"
        cuts = sorted(chance.sample(range(len(text) + 1), k=min(3, len(text))))
        said, found = read(form, text, cuts)
        if not found:
            assert said == text, turn
        assert (said, found) == read(form, text)


def test_one_call_where_several_are_not_wanted() -> None:
    from mtkit.serve.call_forms import FORMS

    for form in FORMS:
        if form.closing:
            twice = filled(form) + "\n" + filled(form)
            assert len(read(form, twice)[1]) == 2
            assert read(form, twice, several=False) == read(form, filled(form))


def test_llamas_answers_in_json_stay_text() -> None:
    from mtkit.serve.call_forms import FORMS

    form = FORMS[-1]
    for text in ('{"name": "x", "parameters": {}}', '{"answer": 3}', 'So: {"name": "get_weather"}'):
        assert read(form, text) == (text, [])
    two = '{"name": "get_weather", "parameters": {}}; {"name": "find-city", "parameters": {}}'
    assert [name for name, _ in read(form, f"<|python_tag|>{two}")[1]] == [
        "get_weather",
        "find-city",
    ]


# -- over HTTP

HERMES = """
{%- if tools %}Call one as <tool_call>{"name": …, "arguments": …}</tool_call>:
{%- for t in tools %}{{ t.function | tojson }}{% endfor %}{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
ASK = [{"role": "user", "content": "Weather?"}]
SPOKEN = (
    'root ::= "Let me see.\\n<tool_call>\\n{\\"name\\": \\"get_weather\\", \\"arguments\\": '
    '{\\"city\\": \\"Oslo\\"}}\\n</tool_call>"'
)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    file = tmp_path_factory.mktemp("template") / "hermes.jinja"
    file.write_text(HERMES, encoding="utf-8")
    with server(chatting(), "-np", "2", "-c", "8192", "--template", file) as started:
        yield started.url


@pytest.fixture
def openai(url: str) -> Iterator[Any]:
    with reference("openai").OpenAI(base_url=f"{url}/v1", api_key="x", max_retries=0) as client:
        yield client


@pytest.fixture
def anthropic(url: str) -> Iterator[Any]:
    with reference("anthropic").Anthropic(base_url=url, api_key="x", max_retries=0) as client:
        yield client


def test_the_openai_client_gets_calls(openai: Any) -> None:
    asked = {"model": "x", "messages": ASK, "tools": TOOLS, "extra_body": {"grammar": SPOKEN}}
    whole = openai.chat.completions.create(**asked).choices[0]
    assert whole.finish_reason == "tool_calls"
    assert whole.message.content == "Let me see."
    (call,) = whole.message.tool_calls
    assert call.function.name == "get_weather"
    assert json.loads(call.function.arguments) == {"city": "Oslo"}
    with openai.chat.completions.stream(**asked) as stream:
        streamed = stream.get_final_completion().choices[0]
    assert streamed.finish_reason == "tool_calls"
    assert streamed.message.content == "Let me see."
    assert streamed.message.tool_calls[0].function.arguments == call.function.arguments
    logged = openai.chat.completions.create(**asked, logprobs=True).choices[0]
    assert "</tool_call>" in "".join(one.token for one in logged.logprobs.content)
    plain = openai.chat.completions.create(**{**asked, "tool_choice": "none"}).choices[0]
    assert plain.message.tool_calls is None
    assert "<tool_call>" in plain.message.content
    answered = [
        *ASK,
        whole.message.model_dump(exclude_none=True),
        {"role": "tool", "tool_call_id": call.id, "content": "Rain."},
    ]
    again = openai.chat.completions.create(model="x", messages=answered, tools=TOOLS, max_tokens=2)
    assert again.usage.prompt_tokens > whole_tokens(openai)


def whole_tokens(openai: Any) -> int:
    found = openai.chat.completions.create(model="x", messages=ASK, tools=TOOLS, max_tokens=1)
    count: int = found.usage.prompt_tokens
    return count


@pytest.mark.parametrize("choice", ["required", "find-city"])
def test_a_call_can_be_forced(openai: Any, anthropic: Any, choice: str) -> None:
    names = ["get_weather", "find-city"] if choice == "required" else [choice]
    named = {"type": "function", "function": {"name": choice}}
    schema = {"type": "object", "properties": {"city": {"enum": ["Oslo", "Łódź"]}},
              "required": ["city"], "additionalProperties": False}  # fmt: skip
    tools = [
        {"type": "function", "function": {**tool["function"], "parameters": schema}}  # type: ignore[dict-item]
        for tool in TOOLS
    ]
    found = openai.chat.completions.create(
        model="x", messages=ASK, tools=tools, temperature=1, seed=3, n=4,
        tool_choice="required" if choice == "required" else named,
    )  # fmt: skip
    for one in found.choices:
        assert one.finish_reason == "tool_calls"
        assert one.message.content is None
        assert one.message.tool_calls[0].function.name in names
        assert json.loads(one.message.tool_calls[0].function.arguments)["city"] in ("Oslo", "Łódź")
    given = {
        "model": "x", "messages": ASK, "max_tokens": 300,
        "tools": [{"name": tool["function"]["name"], "input_schema": schema} for tool in tools],
        "tool_choice": {"type": "tool", "name": choice},
    }  # fmt: skip
    if choice == "required":
        given["tool_choice"] = {"type": "any"}
    whole = anthropic.messages.create(**given)
    with anthropic.messages.stream(**given) as stream:
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        assert message.stop_reason == "tool_use"
        (block,) = message.content
        assert block.type == "tool_use"
        assert block.name in names
        assert block.input["city"] in ("Oslo", "Łódź")


def test_the_anthropic_client_gets_texts_and_calls(anthropic: Any) -> None:
    tools = [{"name": "get_weather", "input_schema": TOOLS[0]["function"]["parameters"]}]  # type: ignore[index]
    asked = {
        "model": "x", "messages": ASK, "max_tokens": 300, "tools": tools,
        "extra_body": {"grammar": SPOKEN},
    }  # fmt: skip
    whole = anthropic.messages.create(**asked)
    with anthropic.messages.stream(**asked) as stream:
        streamed = stream.get_final_message()
    for message in (whole, streamed):
        text, call = message.content
        assert text.text == "Let me see."
        assert (call.name, call.input) == ("get_weather", {"city": "Oslo"})
        assert message.stop_reason == "tool_use"
    cut = anthropic.messages.create(**{**asked, "max_tokens": 20})
    assert cut.stop_reason == "max_tokens"
    assert all(block.type == "text" for block in cut.content)
    result = {"type": "tool_result", "tool_use_id": whole.content[1].id, "content": "Rain."}
    turns = [
        *ASK,
        {"role": "assistant", "content": [b.model_dump(exclude_none=True) for b in whole.content]},
        {"role": "user", "content": [result]},
    ]
    count = anthropic.messages.count_tokens(model="x", messages=turns, tools=tools).input_tokens
    assert (
        count > anthropic.messages.count_tokens(model="x", messages=ASK, tools=tools).input_tokens
    )


def test_responses_have_calls(openai: Any) -> None:
    schema = TOOLS[0]["function"]["parameters"]  # type: ignore[index]
    tools = [{"type": "function", "name": "get_weather", "parameters": schema}]
    asked = {"model": "x", "input": ASK, "tools": tools, "extra_body": {"grammar": SPOKEN}}
    whole = openai.responses.create(**asked)
    told = list(openai.responses.create(**asked, stream=True))
    for response in (whole, told[-1].response):
        text, call = response.output
        assert text.content[0].text == "Let me see."
        assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Oslo"})
    deltas = [one for one in told if one.type == "response.function_call_arguments.delta"]
    (done,) = (one for one in told if one.type == "response.function_call_arguments.done")
    assert "".join(one.delta for one in deltas) == done.arguments == call.arguments
    answered = [
        *ASK,
        *(item.model_dump(exclude_none=True) for item in whole.output),
        {"type": "function_call_output", "call_id": whole.output[1].call_id, "output": "Rain."},
    ]
    again = openai.responses.create(model="x", input=answered, tools=tools, max_output_tokens=2)
    assert again.usage.input_tokens > whole.usage.input_tokens
    spoken = SPOKEN.replace("get_weather", "note").replace("city", "input")
    noted = openai.responses.create(
        model="x", input=ASK, tools=[{"type": "custom", "name": "note"}],
        extra_body={"grammar": spoken},
    )  # fmt: skip
    assert noted.output[1].type == "custom_tool_call"
    assert (noted.output[1].name, noted.output[1].input) == ("note", "Oslo")


def test_what_cannot_be_forced_is_refused(openai: Any) -> None:
    library = reference("openai")

    def refused(said: str, **given: Any) -> None:
        with pytest.raises(library.BadRequestError, match=said):
            openai.chat.completions.create(model="x", messages=ASK, **given)

    refused("names none of the tools", tool_choice="required")
    other = {"type": "function", "function": {"name": "other"}}
    refused("names none of the tools", tools=TOOLS, tool_choice=other)
    both = {"grammar": SPOKEN}
    refused("together with a grammar", tools=TOOLS, tool_choice="required", extra_body=both)
    odd = {"type": "object", "properties": {"x": {"type": "array", "uniqueItems": True}}}
    tools = [{"type": "function", "function": {"name": "f", "parameters": odd}}]
    refused("parameters of f at #.*: uniqueItems", tools=tools, tool_choice="required")


def test_forms_that_cannot_be_forced() -> None:
    from mtkit.errors import UsageError
    from mtkit.serve.call_forms import FORMS
    from mtkit.serve.tools import Tools

    for form in (None, *FORMS):
        if form is None or "ARGUMENTS" not in form.example:
            with pytest.raises(UsageError, match="auto and none are taken"):
                Tools(form, TOOLS, "required")
            assert Tools(form, TOOLS).given == TOOLS
        else:
            Tools(form, TOOLS, "required")


@forms()
def test_long_nonsense_is_read_in_time_that_grows_with_it(form: Any) -> None:
    """A request may bring a grammar that makes any model write it."""
    example = filled(form)
    begun, _, rest = example.partition("Oslo")
    inner = begun.removeprefix(form.openings[0])
    texts = [begun * 4000, form.openings[0] + inner * 4000 + rest, example[:-1] * 2000]
    texts.append(form.openings[0] + example.removeprefix(form.openings[0])[:-9] * 4000 + rest)
    began = time.perf_counter()
    for text in texts:
        read(form, text)
    assert time.perf_counter() - began < 20


def test_odd_definitions_of_tools() -> None:
    from mtkit.chat.answer_parts import calls_in
    from mtkit.serve.call_forms import FORMS
    from mtkit.serve.tools import Tools

    for odd in (None, [1], {"properties": 3}, {"properties": {"city": 3}}, "x"):
        tools = [{"function": {"name": "get_weather", "parameters": odd}}, {"function": 3}, {}]
        for form in FORMS:
            reading = Tools(form, tools).reading()
            (call,) = calls_in([*reading.push(filled(form)), *reading.finish()])
            assert json.loads(call.arguments) == {"city": "Oslo"}
