"""OpenAI's /v1/responses: its input, its tools, its output, and the events that tell of it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from serving_http import ASK, application, message, post, streamed
from support import reference

from mtkit.chat.answer import CallStart, CallText, Thought
from mtkit.sources.locate import MODEL, shipped

reference("msgspec")

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.chat.answer import Part

PATH = "/v1/responses"
TOOL = {"type": "function", "name": "add", "parameters": {"type": "object"}}
TOOLS = [
    TOOL,
    {"type": "custom", "name": "patch", "description": "Changes.",
     "format": {"type": "grammar", "syntax": "lark", "definition": "start: A"}},
    {"type": "namespace", "name": "more", "description": "",
     "tools": [TOOL, {"type": "function", "name": "other"}, {"type": "custom", "name": "free"}]},
    {"type": "web_search"}, {"type": "mcp", "server_label": "x"},
]  # fmt: skip


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def made(said: list[str]) -> Iterator[Any]:
    with application(Path(shipped(MODEL)), slots=2, on_note=said.append) as found:
        yield found


@pytest.fixture
def app(made: Any) -> Any:
    return made[0]


def functions(said: list[str] | None = None) -> Any:
    from mtkit.serve.request import UnknownFields
    from mtkit.serve.tool import functions_from_responses

    say = (said if said is not None else []).append
    return functions_from_responses(
        TOOLS, UnknownFields(strict=False, count=lambda _, __: None, say=say)
    )


def test_tools_become_functions() -> None:
    said: list[str] = []
    made, origins = functions(said)
    given = [one["function"] for one in made]
    assert [one["name"] for one in given] == ["add", "patch", "more.add", "other", "free"]
    assert [tuple(origins[one["name"]].__dict__.values()) for one in given] == [
        ("add", "", False), ("patch", "", True), ("add", "more", False),
        ("other", "more", False), ("free", "more", True),
    ]  # fmt: skip
    assert given[1]["parameters"]["required"] == ["input"]
    assert given[1]["description"].endswith("lark grammar:\nstart: A")
    assert [note.split()[4] for note in said] == ["web_search", "mcp"]


def test_which_tool_is_to_be_called() -> None:
    from mtkit.errors import UsageError
    from mtkit.serve.tool import choice_from_responses

    made, origins = functions()
    for word in ("auto", "none", "required"):
        assert choice_from_responses(word, made, origins) == (made, word)
    found = choice_from_responses({"type": "custom", "name": "free"}, made, origins)
    assert found == (made, {"type": "function", "function": {"name": "free"}})
    allowed = {"type": "allowed_tools", "mode": "required",
               "tools": [{"type": "function", "name": "other"},
                         {"type": "web_search"}]}  # fmt: skip
    kept, mode = choice_from_responses(allowed, made, origins)
    assert ([one["function"]["name"] for one in kept], mode) == (["other"], "required")
    with pytest.raises(UsageError, match="is web_search"):
        choice_from_responses({"type": "web_search"}, made, origins)


def test_items_of_an_input() -> None:
    from mtkit.serve.conversation import messages_from_responses, seal_reasoning

    _, origins = functions()
    assert messages_from_responses("Hi", "", {}) == [{"role": "user", "content": "Hi"}]
    call = {"type": "function_call", "name": "add", "arguments": '{"x": 3}', "call_id": "1"}
    found = messages_from_responses(
        [
            {"role": "developer", "content": "Be."},
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "go"}]},
            {"type": "reasoning", "summary": [], "content": None,
             "encrypted_content": seal_reasoning("Ł.")},
            {"type": "message", "role": "assistant", "id": "x", "status": "completed",
             "content": [{"type": "output_text", "text": "I add.", "annotations": []}]},
            call,
            {**call, "namespace": "more", "call_id": "2"},
            {"type": "function_call_output", "call_id": "1", "output": "4"},
            {"type": "custom_tool_call_output", "call_id": "2",
             "output": [{"type": "input_text", "text": "5"}]},
            {"type": "reasoning", "summary": [{"type": "summary_text", "text": "brief"}],
             "encrypted_content": "of/another+server="},
            {"type": "custom_tool_call", "name": "free", "namespace": "more", "input": "x",
             "call_id": "3"},
            {"type": "reasoning", "summary": [],
             "content": [{"type": "reasoning_text", "text": "clear"}]},
            {"role": "assistant", "content": "Done."},
        ],
        "You add.",
        origins,
    )  # fmt: skip

    def called(number: str, name: str, **arguments: Any) -> dict[str, Any]:
        function = {"name": name, "arguments": arguments}
        return {"id": number, "type": "function", "function": function}

    assert found == [
        {"role": "system", "content": "You add."},
        {"role": "system", "content": "Be."},
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "I add.", "reasoning_content": "Ł.",
         "tool_calls": [called("1", "add", x=3), called("2", "more.add", x=3)]},
        {"role": "tool", "tool_call_id": "1", "content": "4"},
        {"role": "tool", "tool_call_id": "2", "content": "5"},
        {"role": "assistant", "content": "", "reasoning_content": "brief",
         "tool_calls": [called("3", "free", input="x")]},
        {"role": "assistant", "content": "Done.", "reasoning_content": "clear"},
    ]  # fmt: skip


REFUSED = [
    ({"input": []}, "input"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0]: there is no item 'x'"),
    ({"input": [{"id": "msg_1"}]}, "input[0]: there is no item 'msg_1'"),
    ({"input": [{"type": "nonsense"}]}, "input[0].type: is nonsense"),
    ({"input": [{"role": "narrator", "content": ""}]}, "input[0].role"),
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]},
     "input[0].content: image input is not supported"),
    ({"input": "a", "previous_response_id": "resp_1"}, "there is no response 'resp_1'"),
    ({"input": "a", "conversation": "conv_1"}, "conversation: "),
    ({"input": "a", "prompt": {"id": "pmpt_1"}}, "prompt: "),
    ({"input": "a", "background": True}, "background: "),
    ({"input": "a", "top_logprobs": 21}, "top_logprobs: "),
    ({"input": "a", "max_output_tokens": 0}, "max_output_tokens: "),
    ({"input": "a", "text": {"format": {"type": "json_schema"}}}, "json_schema: has no schema"),
    ({"input": "a", "tools": [{"type": "function"}]}, "tools[0].name: is missing"),
    ({"input": "a", "tools": [{"type": "namespace"}]}, "tools[0].tools: is not a list"),
    ({"input": "a", "tool_choice": {"type": "function", "name": "f"}}, "names none"),
    ({"input": "word " * 3000}, "exceeds the available context size"),
]  # fmt: skip


@pytest.mark.parametrize(("body", "named"), REFUSED)
def test_what_cannot_be_had_is_refused_by_name(app: Any, body: Any, named: str) -> None:
    answer = post(app, PATH, body)
    assert answer.status_code == 400, answer.text
    assert named in message(answer)


def test_fields_that_clients_send(app: Any) -> None:
    for name, value in {
        "store": True, "truncation": "auto", "service_tier": "auto", "background": False,
        "include": ["reasoning.encrypted_content"], "metadata": {"a": "b"}, "top_logprobs": 0,
        "reasoning": {"effort": "low", "summary": "auto"}, "user": "x", "prompt_cache_key": "x",
        "text": {"verbosity": "low"}, "client_metadata": {"a": "b"}, "max_tool_calls": 3,
        "stream_options": {"include_obfuscation": False}, "tools": TOOLS,
    }.items():  # fmt: skip
        answer = post(app, PATH, {"input": "Hi", "max_output_tokens": 1, name: value})
        assert answer.status_code == 200, (name, answer.text)


PARTS: list[Part] = [
    Thought("It "), Thought("rains."), "Let me ", "see.", CallStart("1", "more.add"),
    CallText('{"x"'), CallText(": 3}"), CallStart("2", "free"), CallText('{"input":'),
    CallText(' "a\\nb"}'), CallStart("3", "unknown"), CallText("{}"), "Done.",
]  # fmt: skip
ITEMS = [
    {"type": "reasoning", "status": "completed", "summary": [],
     "content": [{"type": "reasoning_text", "text": "It rains."}]},
    {"type": "message", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Let me see.", "annotations": [],
                  "logprobs": []}]},
    {"type": "function_call", "call_id": "1", "name": "add", "namespace": "more",
     "arguments": '{"x": 3}', "status": "completed"},
    {"type": "custom_tool_call", "call_id": "2", "name": "free", "namespace": "more",
     "input": "a\nb"},
    {"type": "function_call", "call_id": "3", "name": "unknown", "arguments": "{}",
     "status": "completed"},
    {"type": "message", "role": "assistant", "status": "completed",
     "content": [{"type": "output_text", "text": "Done.", "annotations": [], "logprobs": []}]},
]  # fmt: skip


DONE = {
    f"response.{name}.done"
    for name in ("output_text", "reasoning_text", "function_call_arguments",
                 "custom_tool_call_input")
}  # fmt: skip


def test_items_of_an_output_and_their_events() -> None:
    from mtkit.serve.conversation import unseal_reasoning
    from mtkit.serve.responses import ResponseOutput

    pydantic, library = reference("pydantic"), reference("openai.types.responses")
    events = pydantic.TypeAdapter(library.ResponseStreamEvent)
    output = ResponseOutput(functions()[1], seals_thoughts=True)
    made = [json.loads(json.dumps(one)) for part in PARTS for one in output.add(part)]
    made += list(output.close())
    bare = [{k: v for k, v in one.items() if k not in ("id", "encrypted_content")}
            for one in output.items]  # fmt: skip
    assert bare == ITEMS
    assert unseal_reasoning(output.items[0]["encrypted_content"]) == "It rains."
    prefixes = [one["id"].partition("_")[0] for one in output.items]
    assert prefixes == ["rs", "msg", "fc", "ctc", "fc", "msg"]
    for number, one in enumerate(made):
        read = events.validate_python({**one, "sequence_number": number})
        assert read.type == one["type"]
    for place, item in enumerate(output.items):
        mine = [one for one in made if one["output_index"] == place]
        assert mine[0]["type"] == "response.output_item.added"
        assert mine[-1] == {"type": "response.output_item.done", "output_index": place,
                            "item": item}  # fmt: skip
        assert all(one.get("item_id", item["id"]) == item["id"] for one in mine)
        deltas = "".join(one["delta"] for one in mine if one["type"].endswith(".delta"))
        (done,) = (one for one in mine if one["type"] in DONE)
        assert deltas in done.values()


def test_an_output_that_was_cut() -> None:
    from mtkit.serve.responses import ResponseOutput

    output = ResponseOutput({}, seals_thoughts=False)
    for part in ("Well", CallStart("1", "f"), CallText('{"x')):
        list(output.add(part))
    list(output.close("incomplete"))
    assert [one["status"] for one in output.items] == ["completed", "incomplete"]
    assert output.items[1]["arguments"] == '{"x'


def test_what_another_server_sealed_is_nothing() -> None:
    from mtkit.serve.conversation import seal_reasoning, unseal_reasoning

    assert unseal_reasoning(seal_reasoning("Łódź 😀\n")) == "Łódź 😀\n"
    for odd in ("gAAAAABo=", "ÿ", "//79/w==", ""):
        assert unseal_reasoning(odd) == ""


def test_progress_and_times_where_they_are_asked_for(app: Any) -> None:
    asked = {"input": "word " * 300, "max_output_tokens": 4, "stream": True}
    more = {"return_progress": True, "timings_per_token": True}
    plain = streamed(app, PATH, asked)
    told = streamed(app, PATH, {**asked, **more, "input": "other " * 300})
    assert not any("timings" in one or "prompt_progress" in one for one in plain)
    found = [one for one in told if "prompt_progress" in one]
    assert {one["type"] for one in found} == {"response.in_progress"}
    last = found[-1]["prompt_progress"]
    assert last["processed"] == last["total"] > 300
    deltas = [one for one in told if one["type"] == "response.output_text.delta"]
    assert all(one["timings"]["predicted_n"] for one in [*deltas, told[-1]])


@pytest.mark.parametrize(
    ("path", "fields", "values"),
    [
        (PATH, {}, {}),
        (PATH, {"reasoning": {"effort": "low"}}, {"reasoning_effort": "low"}),
        (PATH, {"reasoning": {"effort": "none"}}, {"enable_thinking": False, "thinking": False}),
        (PATH, {"chat_template_kwargs": {"mood": "good"}}, {"mood": "good"}),
        ("/v1/messages", {}, {}),
        ("/v1/messages", {"thinking": {"type": "adaptive"}}, {}),
        ("/v1/messages", {"thinking": {"type": "enabled", "budget_tokens": 1024}},
         {"enable_thinking": True, "thinking": True}),
        ("/v1/messages", {"thinking": {"type": "disabled"}},
         {"enable_thinking": False, "thinking": False}),
    ],
)  # fmt: skip
def test_what_is_said_of_reasoning_goes_to_the_template(
    path: str, fields: Any, values: Any, monkeypatch: pytest.MonkeyPatch, made: Any
) -> None:
    app, served = made
    given, chat_ids = [], served.chat_ids

    async def watched(conversation: Any) -> Any:
        given.append(conversation.values)
        return await chat_ids(conversation)

    monkeypatch.setattr(served, "chat_ids", watched)
    asked = {"input": "Hello", "max_output_tokens": 1} if path == PATH else ASK
    assert post(app, path, {**asked, **fields}).status_code == 200
    assert given == [values]
