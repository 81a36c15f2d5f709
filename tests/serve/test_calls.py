"""Calls of tools: what templates write is read back, and both APIs' clients get it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from llm_models import chatting, parrot
from serving_http import server
from support import reference

reference("msgspec")

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


def test_calls_as_they_were_before_tools(openai: Any) -> None:
    functions = [tool["function"] for tool in TOOLS]
    asked = {"model": "x", "messages": ASK, "functions": functions,
             "extra_body": {"grammar": SPOKEN}}  # fmt: skip
    whole = openai.chat.completions.create(**asked).choices[0]
    assert whole.finish_reason == "function_call"
    assert whole.message.tool_calls is None
    call = whole.message.function_call
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Oslo"})
    chunks = [one.choices[0] for one in openai.chat.completions.create(**asked, stream=True)]
    deltas = [one.delta.function_call for one in chunks if one.delta.function_call]
    assert "".join(one.name or "" for one in deltas) == call.name
    assert "".join(one.arguments for one in deltas) == call.arguments
    assert chunks[-1].finish_reason == "function_call"
    answered = [
        *ASK,
        whole.message.model_dump(exclude_none=True),
        {"role": "function", "name": call.name, "content": "Rain."},
    ]
    again = openai.chat.completions.create(**{**asked, "messages": answered}, max_tokens=2)
    first = openai.chat.completions.create(**asked, max_tokens=2)
    assert again.usage.prompt_tokens > first.usage.prompt_tokens
    plain = openai.chat.completions.create(**asked, function_call="none").choices[0]
    assert plain.message.function_call is None


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


def test_a_template_without_tools_is_told_of_them() -> None:
    """Definitions, calls and results are in the prompt; a bare object names one of them."""
    http = reference("httpx")
    history = [
        {"role": "system", "content": "Be brief."},
        *ASK,
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c", "type": "function",
             "function": {"name": "get_weather", "arguments": '{"city": "Oslo"}'}},
        ]},
        {"role": "tool", "tool_call_id": "c", "content": "12 C"},
    ]  # fmt: skip
    spoken = r'root ::= "{\"name\": \"find-city\", \"arguments\": {\"city\": \"Rome\"}}"'
    with server(chatting(), "-np", "1", "-c", "8192") as started:
        asked = {"messages": history, "tools": TOOLS}
        assert http.get(f"{started.url}/props").json()["tools_are_told_by"] == "mtkit"
        prompt = http.post(f"{started.url}/apply-template", json=asked).json()["prompt"]
        for said in ("Be brief.", "find-city", '"city": {"type": "string"}', "12 C", "<tool_call>"):
            assert said in prompt, said
        assert '{"name": "get_weather", "arguments": {"city": "Oslo"}}' in prompt
        given = {**asked, "grammar": spoken, "max_tokens": 100}
        whole = http.post(f"{started.url}/v1/chat/completions", json=given, timeout=60).json()
        (choice,) = whole["choices"]
        (call,) = choice["message"]["tool_calls"]
        assert choice["finish_reason"] == "tool_calls"
        assert call["function"]["name"] == "find-city"
        assert json.loads(call["function"]["arguments"]) == {"city": "Rome"}
        unknown = {**given, "tools": TOOLS[:1]}
        plain = http.post(f"{started.url}/v1/chat/completions", json=unknown, timeout=60).json()
        assert plain["choices"][0]["message"]["content"].startswith('{"name"')


def test_reasoning_is_told_apart(tmp_path: Any) -> None:
    http = reference("httpx")
    file = tmp_path / "thinking.jinja"
    file.write_text(
        "{% for m in messages %}[{{ m.role }}]{{ m.content }}{% endfor %}"
        "{% if add_generation_prompt %}[assistant]"
        "{% if enable_thinking is defined and not enable_thinking %}<think></think>"
        "{% else %}<think>{% endif %}{% endif %}",
        encoding="utf-8",
    )
    asked: dict[str, Any] = {"messages": ASK, "max_tokens": 50}
    model, _ = parrot({"said": "Hm.</think>\n\nYes."})
    with server(model, "-np", "1", "-c", "8192", "--template", file) as started:
        path = f"{started.url}/v1/chat/completions"
        message = http.post(path, json=asked, timeout=60).json()["choices"][0]["message"]
        assert message["reasoning_content"] == "Hm."
        assert message["content"].strip() == "Yes."
        off = {
            **asked, "chat_template_kwargs": {"enable_thinking": False},
            "grammar": 'root ::= "Hm.</think>\\n\\nYes."',
        }  # fmt: skip
        message = http.post(path, json=off, timeout=60).json()["choices"][0]["message"]
        assert message["content"].startswith("Hm.</think>")
        raw = {**asked, "reasoning_format": "none"}
        message = http.post(path, json=raw, timeout=60).json()["choices"][0]["message"]
        assert message["content"] == "<think>Hm.</think>\n\nYes."
        assert "reasoning_content" not in message
        asked |= {"stream": True}
        thought = said = ""
        for line in http.post(path, json=asked, timeout=60).text.split("\n\n"):
            if line.startswith("data: {"):
                delta = (json.loads(line[6:])["choices"] or [{"delta": {}}])[0]["delta"]
                thought += delta.get("reasoning_content") or ""
                said += delta.get("content") or ""
        assert (thought, said.strip()) == ("Hm.", "Yes.")
