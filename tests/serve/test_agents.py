"""What coding agents send is answered, and the model is told all of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import agent_requests
import pytest
from llm_models import chatting
from serving_http import application, post, streamed

HERMES = """
{%- if tools %}Call one as <tool_call>{"name": …, "arguments": …}</tool_call>:
{%- for t in tools %}{{ t.function | tojson }}{% endfor %}{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""
CALLS = {
    "claude_code": ("Read", {"file_path": agent_requests.FILE}),
    "codex": ("exec_command", {"cmd": f"cat {agent_requests.FILE}"}),
    "opencode": ("read", {"filePath": agent_requests.FILE}),
    "cline": ("read_files", {"files": [{"path": agent_requests.FILE}]}),
    "qwen_code": ("read_file", {"file_path": agent_requests.FILE}),
    "langchain": ("read_file", {"path": agent_requests.FILE}),
    "pydantic_ai": ("read_file", {"path": agent_requests.FILE}),
}
"""The call by which each of them reads a file."""


@pytest.fixture(scope="module")
def made() -> Iterator[Any]:
    with application(chatting(), template=HERMES, n_ctx=8192, slots=1) as found:
        yield found


def call_in(told: list[dict[str, Any]]) -> tuple[str, Any]:
    """Return the call of a tool that a stream tells of, in the API's own way."""
    name, arguments, last = "", "", told[-1]
    if last.get("type") == "message_stop":
        assert told[-2]["delta"]["stop_reason"] == "tool_use"
        starts = [one for one in told if one["type"] == "content_block_start"]
        name = next(b["name"] for one in starts if (b := one["content_block"]).get("name"))
        deltas = [one["delta"] for one in told if one["type"] == "content_block_delta"]
        arguments = "".join(one.get("partial_json", "") for one in deltas)
    elif "type" in last:
        assert last["type"] == "response.completed"
        (item,) = (one for one in last["response"]["output"] if one["type"] == "function_call")
        name, arguments = item["name"], item["arguments"]
    else:
        assert last["usage"]
        for one in told:
            for choice in one["choices"]:
                for call in choice["delta"].get("tool_calls", ()):
                    name += call["function"].get("name", "")
                    arguments += call["function"].get("arguments", "")
    return name, json.loads(arguments)


@pytest.mark.parametrize("agent", agent_requests.AGENTS, ids=lambda one: str(one.__name__))
def test_an_agent_reads_a_file(made: Any, agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    app, served = made
    chat_ids, told = served.chat_ids, []

    async def watched(conversation: Any) -> Any:
        told.append(await served.chat_text(conversation))
        return await chat_ids(conversation)

    monkeypatch.setattr(served, "chat_ids", watched)
    name, arguments = CALLS[agent.__name__]
    written = json.dumps({"name": name, "arguments": arguments})
    grammar = f"root ::= {json.dumps('<tool_call>' + written + '</tool_call>')}"
    path, body = agent()
    assert call_in(streamed(app, path, {**body, "grammar": grammar})) == (name, arguments)
    path, body = agent(reads=True)
    assert streamed(app, path, {**body, "grammar": 'root ::= "It is a bird."'})
    first, second = told
    for text in ("You are an agent.", f"What is in {agent_requests.FILE}?", f'"{name}"'):
        assert text in first
    assert "cch=" not in first
    begun = first.removesuffix("<|im_start|>assistant\n")
    assert second.startswith(begun)  # what was computed is remembered
    assert agent_requests.WORD in second.removeprefix(begun)
    assert json.dumps(arguments) in second.removeprefix(begun)


OVERFLOWS = {
    "/v1/messages?beta=true": "prompt is too long",
    "/v1/responses": '"code":"context_length_exceeded"',
    "/v1/chat/completions": "this model's maximum context length is",
    "/api/chat": "exceeds the available context size",
}
"""What tells clients that a context is full: else they do not shorten their conversation."""


@pytest.mark.parametrize("agent", agent_requests.SESSIONS, ids=lambda one: str(one.__name__))
def test_a_session_outlives_a_stop_and_a_full_context(
    made: Any, agent: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    app, served = made
    chat_ids, prompts = served.chat_ids, []

    async def watched(conversation: Any) -> Any:
        prompts.append(await served.chat_text(conversation))
        return await chat_ids(conversation)

    monkeypatch.setattr(served, "chat_ids", watched)
    path, body = agent(reads=True)
    texts = [agent_requests.WORD]
    for number in range(12):
        # stopped in the middle, and before its first token
        answer = {5: "A bi", 8: ""}.get(number, f"Answer {number}.")
        texts += [answer, f"Question {number}?"]
        body = agent_requests.further(body, answer, texts[-1])
    grammar: dict[str, Any] = {"grammar": 'root ::= "!"'}
    if "options" in body:
        grammar = {"options": {**body["options"], **grammar}}
    asked = {**body, **grammar}
    assert '"!"' in json.dumps(streamed(app, path, asked))
    long = post(app, path, agent_requests.further(asked, "!", "and on " * 9000))
    assert long.status_code == 400
    assert OVERFLOWS[path] in long.text
    bare = {name: value for name, value in asked.items() if not name.startswith(("tool", "para"))}
    summary = agent_requests.further(bare, "!", "Sum it up.")  # with calls, but without tools
    assert '"!"' in json.dumps(streamed(app, path, summary))
    assert all(text in prompts[-1] for text in (*texts, "Sum it up."))
    assert '"!"' in json.dumps(streamed(app, path, asked))
    places = [prompts[-1].index(text) for text in texts if text]
    assert places == sorted(places)


THINKS = """
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""
THOUGHT = 'root ::= "<think>\\nIt rains.\\n</think>\\n\\nTake care."'


@pytest.fixture(scope="module")
def thinker() -> Iterator[Any]:
    with application(chatting(), template=THINKS, n_ctx=2048) as (app, _):
        yield app


def test_reasoning_comes_as_blocks_that_go_back_into_the_prompt(thinker: Any) -> None:
    path, turn = "/v1/messages", {"role": "user", "content": "Weather?"}
    asked: dict[str, Any] = {"messages": [turn], "max_tokens": 99, "grammar": THOUGHT}
    whole = post(thinker, path, asked).json()
    assert whole["content"] == [
        {"type": "thinking", "thinking": "It rains.", "signature": "mtkit"},
        {"type": "text", "text": "Take care."},
    ]
    told = streamed(thinker, path, {**asked, "stream": True})
    deltas = [one["delta"] for one in told if one["type"] == "content_block_delta"]
    assert "".join(one.get("thinking", "") for one in deltas) == "It rains."
    assert "".join(one.get("text", "") for one in deltas) == "Take care."
    turns = [turn, {"role": "assistant", "content": whole["content"]}, turn]
    bare = [turn, {"role": "assistant", "content": "Take care."}, turn]
    counts = [
        post(thinker, f"{path}/count_tokens", {"messages": one}).json()["input_tokens"]
        for one in (turns, bare)
    ]
    assert counts[0] > counts[1]
    off = post(thinker, path, {**asked, "thinking": {"type": "disabled"}}).json()
    assert {block["type"] for block in off["content"]} == {"text"}


def test_reasoning_comes_as_items_that_go_back_into_the_prompt(thinker: Any) -> None:
    path, sealed = "/v1/responses", "reasoning.encrypted_content"
    asked = {"input": "Weather?", "grammar": THOUGHT, "include": [sealed]}
    whole = post(thinker, path, asked).json()
    thought, message = whole["output"]
    assert thought["content"] == [{"type": "reasoning_text", "text": "It rains."}]
    assert message["content"][0]["text"] == "Take care."
    details = whole["usage"]["output_tokens_details"]
    assert 0 < details["reasoning_tokens"] < whole["usage"]["output_tokens"]
    told = streamed(thinker, path, {**asked, "stream": True})
    deltas = [one["delta"] for one in told if one["type"] == "response.reasoning_text.delta"]
    assert "".join(deltas) == "It rains."
    user = {"role": "user", "content": "Weather?"}
    kept = {name: thought[name] for name in ("type", "id", "summary", "encrypted_content")}
    counts = [
        post(thinker, path, {"input": one, "max_output_tokens": 1}).json()["usage"]["input_tokens"]
        for one in ([user, kept, message, user], [user, message, user])
    ]
    assert counts[0] > counts[1]
