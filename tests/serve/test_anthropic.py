"""Anthropic's API: blocks of the history, of the answer, and what else its clients send."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from serving_http import ASK, application, message, post
from support import reference

from mtkit.chat.answer import CallStart, CallText, Thought
from mtkit.sources.locate import MODEL, shipped

reference("msgspec")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.chat.answer import Part

MESSAGES, COUNT = "/v1/messages", "/v1/messages/count_tokens"
SAYS = (
    "{% for m in messages %}{{ m.role }}={{ m.content }}"
    "{% if m.reasoning_content %}~{{ m.reasoning_content }}{% endif %}"
    "{% for c in m.tool_calls or [] %}({{ c.function.name }} {{ c.function.arguments.x }})"
    "{% endfor %};{% endfor %}"
)
"""A template that shows all of a conversation."""


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def app(said: list[str]) -> Iterator[Any]:
    with application(Path(shipped(MODEL)), slots=2, on_note=said.append) as (app, _):
        yield app


def plain(messages: list[dict[str, Any]], system: Any = "") -> str:
    """Return a conversation as ``SAYS`` shows it."""
    from mtkit.chat.template import render
    from mtkit.serve.conversation import messages_from_anthropic

    return render(SAYS, messages_from_anthropic(messages, system)).text


def test_blocks_of_a_history() -> None:
    call = {"type": "tool_use", "id": "1", "name": "add", "input": {"x": 3}}
    thinking = {"type": "thinking", "thinking": "Three.", "signature": "s"}
    hidden = {"type": "redacted_thinking", "data": "AAAA"}
    text = {"type": "text", "text": "I add.", "cache_control": {"type": "ephemeral"}}
    result = {"type": "tool_result", "tool_use_id": "1", "content": [text], "is_error": True}
    found = plain(
        [
            {"role": "user", "content": [text, text]},
            {"role": "assistant", "content": [thinking, hidden, thinking, text, call]},
            {"role": "user", "content": [{"type": "text", "text": "Well?"}, result]},
            {"role": "system", "content": [text]},
            {"role": "assistant", "content": [hidden]},
        ],
        [text],
    )
    assert found == (
        "system=I add.;user=I add.I add.;assistant=I add.~Three.\n\nThree.(add 3);tool=I add.;"
        "user=Well?;system=I add.;assistant=;"
    )


def test_documents_that_are_texts() -> None:
    inner = [{"type": "text", "text": "b"}]
    blocks = [
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}},
        {"type": "document", "source": {"type": "content", "content": inner}},
        {"type": "document", "source": {"type": "content", "content": "c"}},
        {"type": "search_result", "source": "url", "title": "T", "content": inner},
    ]
    assert plain([{"role": "user", "content": blocks}]) == "user=abcT\nurl\nb;"
    results = [{"type": "tool_result", "tool_use_id": "1", "content": blocks}]
    assert plain([{"role": "user", "content": results}]) == "tool=abcT\nurl\nb;"


def test_the_note_that_is_another_in_each_request_is_left_out() -> None:
    head = "x-anthropic-billing-header: cc_version=2.1.0.e12; cc_entrypoint=cli; cch=a5145;"
    text = "You are x-anthropic-billing-header: a=b;"
    for system in (head + text, [{"type": "text", "text": head}, {"type": "text", "text": text}]):
        assert plain([{"role": "user", "content": "Hi."}], system) == f"system={text};user=Hi.;"


@pytest.mark.parametrize(
    ("kind", "named"),
    [("image", "image input is not supported"), ("document", "document input"),
     ("web_search_tool_result", "is web_search_tool_result"), (None, "is not text")],
)  # fmt: skip
def test_what_is_no_text_is_refused_by_name(app: Any, kind: str | None, named: str) -> None:
    block = {"type": kind, "source": {"type": "url", "url": "x"}}
    held = {"type": "tool_result", "tool_use_id": "1", "content": [block]}
    results = [] if "input" in named else [[held]]  # a picture in a result is told as a text
    for content in ([block], [{"type": "text", "text": "a"}, block], *results):
        for path in (MESSAGES, COUNT):
            turns = [{"role": "user", "content": content}]
            answer = post(app, path, {"messages": turns, "max_tokens": 1})
            assert answer.status_code == 400
            assert named in message(answer)


FIELDS: dict[str, Any] = {
    "thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": "high"},
    "context_management": {"edits": [{"type": "clear_thinking_20251015", "keep": "all"}]},
    "cache_control": {"type": "ephemeral"}, "mcp_servers": [], "service_tier": "auto",
    "inference_geo": "us", "speed": "fast", "metadata": {"user_id": "x"},
}  # fmt: skip


def test_fields_that_clients_send(app: Any) -> None:
    for name, value in FIELDS.items():
        for path in (MESSAGES, COUNT):
            assert post(app, path, {**ASK, name: value}).status_code == 200, name
    for thinking in ("enabled", "adaptive", "disabled"):
        asked = {**ASK, "thinking": {"type": thinking, "budget_tokens": 1024}}
        assert post(app, MESSAGES, asked).status_code == 200
    for name, value in (
        ("thinking", {"type": "always"}), ("output_config", {"format": {"type": "xml"}}),
        ("output_format", {"type": "json_schema"}),
    ):  # fmt: skip
        answer = post(app, MESSAGES, {**ASK, name: value})
        assert answer.status_code == 400
        assert message(answer).startswith(name)


def test_tools_that_only_other_servers_have(app: Any, said: list[str]) -> None:
    own = {"name": "add", "type": "custom", "input_schema": {"type": "object"}, "strict": True}
    others = [
        {"type": "web_search_20250305", "name": "web_search", "max_uses": 5},
        {"type": "bash_20250124", "name": "bash"},
        {"type": "mcp_toolset", "mcp_server_name": "x"},
    ]
    counts = [
        post(app, COUNT, {**ASK, "tools": tools}).json()["input_tokens"]
        for tools in ([own], [own, *others], [*others, own])
    ]
    assert counts[0] == counts[1] == counts[2]
    for other in others:
        assert said.count(f"tools of the type {other['type']} are left out") == 1
    for tool, named in (({}, "name"), ({"name": "x"}, "input_schema")):
        answer = post(app, MESSAGES, {**ASK, "tools": [tool]})
        assert message(answer) == f"tools[0].{named}: is missing"
    asked = {**ASK, "tools": others, "tool_choice": {"type": "tool", "name": "bash"}}
    assert "names none of the tools" in message(post(app, MESSAGES, asked))


def test_a_prompt_that_is_too_long(app: Any) -> None:
    long = [{"role": "user", "content": "word " * 3000}]
    tokens = post(app, COUNT, {"messages": long}).json()["input_tokens"]
    answer = post(app, MESSAGES, {"messages": long, "max_tokens": 1})
    assert answer.status_code == 400
    assert message(answer).startswith(f"prompt is too long: {tokens} tokens > 1024 maximum")


PARTS: list[Part] = [
    Thought("It "), Thought("rains."), "Let me ", "see.", Thought("Two."), CallStart("1", "add"),
    CallText('{"x"'), CallText(": 3}"), CallStart("2", "none"), CallText("{}"), "Done.",
]  # fmt: skip
BLOCKS = [
    {"type": "thinking", "thinking": "It rains.", "signature": "mtkit"},
    {"type": "text", "text": "Let me see."},
    {"type": "thinking", "thinking": "Two.", "signature": "mtkit"},
    {"type": "tool_use", "id": "1", "name": "add", "input": {"x": 3}},
    {"type": "tool_use", "id": "2", "name": "none", "input": {}},
    {"type": "text", "text": "Done."},
]


def test_blocks_of_an_answer_and_their_events() -> None:
    pydantic, library = reference("pydantic"), reference("anthropic")
    from mtkit.serve.anthropic import MessageContent

    events = pydantic.TypeAdapter(library.types.RawMessageStreamEvent)
    for parts, blocks in (
        (PARTS, BLOCKS),
        ([], [{"type": "text", "text": ""}]),
        ([CallStart("1", "cut"), CallText('{"x')],
         [{"type": "tool_use", "id": "1", "name": "cut", "input": {}}]),
    ):  # fmt: skip
        content = MessageContent()
        made = [one for part in parts for one in content.add(part)] + list(content.end())
        assert content.blocks == blocks
        for one in made:
            assert events.validate_python(one).model_dump(exclude_none=True) == one
        for place, block in enumerate(blocks):
            mine = [one for one in made if one["index"] == place]
            kinds = [one["type"].removeprefix("content_block_") for one in mine]
            assert kinds == ["start", *["delta"] * (len(kinds) - 2), "stop"]
            deltas = [one["delta"] for one in mine[1:-1]]
            told = "".join(
                next((v for k, v in one.items() if k not in ("type", "signature")), "")
                for one in deltas
            )
            said = block.get(block["type"])
            assert told == said if said is not None else told in ('{"x": 3}', "{}", '{"x')
            signed = [one for one in deltas if one["type"] == "signature_delta"]
            assert len(signed) == (block["type"] == "thinking")
            assert not signed or deltas[-1] == signed[0]


def test_an_answer_without_its_thoughts() -> None:
    from mtkit.serve.anthropic import MessageContent

    content = MessageContent(shows_thoughts=False)
    made = [one for part in PARTS for one in content.add(part)] + list(content.end())
    kept = [block for block in BLOCKS if block["type"] != "thinking"]
    assert content.blocks == kept
    assert max(one["index"] for one in made) == len(kept) - 1
