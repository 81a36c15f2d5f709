"""/v1/responses: going on from a response, items of all kinds, and log probabilities."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from llm_models import chatting
from serving_http import application, message, post, run, streamed

PATH = "/v1/responses"
TEMPLATE = (
    "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% for c in m.tool_calls or [] %}"
    "[{{ c.function | tojson }}]{% endfor %}{% if m.tool_call_id %}#{{ m.tool_call_id }}{% endif %}"
    "{% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def made(said: list[str]) -> Iterator[Any]:
    options = {"n_ctx": 4096, "slots": 1, "template": TEMPLATE, "on_note": said.append}
    with application(chatting(), **options) as found:
        yield found


def shown(made: Any, body: dict[str, Any]) -> str:
    asked = {"grammar": 'root ::= "Yes."', "max_output_tokens": 20, **body}
    answer = post(made[0], PATH, asked)
    assert answer.status_code == 200, answer.text
    spelled: str = made[1].spell(made[1].scheduler.slots[0].ids)
    return spelled.removeprefix("<s> ")


def test_a_request_goes_on_from_a_response(made: Any) -> None:
    asked = {"grammar": 'root ::= "Yes."', "max_output_tokens": 20}
    first = post(made[0], PATH, {**asked, "input": "I am Quentin.", "instructions": "BE"}).json()
    assert (first["store"], first["previous_response_id"]) == (True, None)
    more = {**asked, "previous_response_id": first["id"], "input": "Who?", "instructions": "NOW"}
    second = post(made[0], PATH, more).json()
    assert second["previous_response_id"] == first["id"]
    whole = "<system>NOW<user>I am Quentin.<assistant>Yes.<user>Who?<assistant>Yes"
    assert made[1].spell(made[1].scheduler.slots[0].ids).startswith(f"<s> {whole}")
    events = streamed(made[0], PATH, {**more, "stream": True})
    third = events[-1]["response"]
    assert events[0]["response"]["previous_response_id"] == first["id"]
    branch = shown(made, {"previous_response_id": third["id"], "input": [
        {"role": "user", "content": "And?"}]})  # fmt: skip
    told = "<user>I am Quentin.<assistant>Yes.<user>Who?<assistant>Yes.<user>And?"
    assert branch.startswith(told)


def test_a_conversation_that_is_too_long_loses_its_oldest_items(made: Any, said: list[str]) -> None:
    items = [
        {"role": ("user", "assistant")[at % 2], "content": f"word{at} " + "and on " * 200}
        for at in range(31)
    ]
    asked = {"input": items, "instructions": "BE"}
    for value in ("disabled", None):
        refused = post(made[0], PATH, {**asked, "truncation": value})
        assert (refused.status_code, refused.json()["error"]["code"]) == (
            400, "context_length_exceeded",
        )  # fmt: skip
    prompt = shown(made, {**asked, "truncation": "auto"})
    first = prompt.removeprefix("<system>BE<user>word")
    assert int(first.split()[0]) > 0
    assert "<user>word30 " in prompt
    assert any("oldest messages" in line for line in said)
    answer = post(made[0], PATH, {"input": "Hi", "truncation": "auto", "max_output_tokens": 1})
    assert answer.json()["truncation"] == "auto"
    wrong = post(made[0], PATH, {"input": "Hi", "truncation": "some"})
    assert (wrong.status_code, wrong.json()["error"]["param"]) == (400, "truncation")


def test_responses_are_read_and_forgotten(made: Any) -> None:
    asked = {"input": "Hi", "max_output_tokens": 2}
    kept, lost = (post(made[0], PATH, {**asked, "store": s}).json() for s in (True, False))
    place, gone = f"{PATH}/{kept['id']}", f"{PATH}/{lost['id']}"
    read, unknown, removed, again, more = run(
        made[0], ("GET", place, None), ("GET", gone, None), ("DELETE", place, None),
        ("GET", place, None), ("DELETE", place, None),
    )  # fmt: skip
    assert read.json() == kept
    assert removed.json() == {"id": kept["id"], "object": "response", "deleted": True}
    for answer in (unknown, again, more):
        assert answer.status_code == 404
        assert "there is no response" in message(answer)
    for name in (kept["id"], lost["id"]):
        answer = post(made[0], PATH, {**asked, "previous_response_id": name})
        assert answer.status_code == 400
        assert name in message(answer)
        assert answer.json()["error"]["code"] == "previous_response_not_found"


def test_the_store_is_bounded() -> None:
    from mtkit.serve.reply import Problem
    from mtkit.serve.response_store import ResponseStore

    store = ResponseStore(most=10_000)
    before = None
    for number in range(100):
        response = {"id": f"r{number}", "output": [{"id": f"m{number}", "text": "x" * 300}]}
        store.add(response, [{"role": "user", "content": "y" * 300}], before)
        before = store.previous(f"r{number}") if number % 5 else None
    assert len(store.response("r99")["output"]) == 1
    assert store._size <= 10_000
    with pytest.raises(Problem, match="r3"):
        store.previous("r3")
    assert store.item("m99") is not None
    assert store.item("m3") is None
    for number in range(100):
        try:
            store.remove(f"r{number}")
        except Problem:
            continue
    assert (store._size, len(store._stored)) == (0, 0)
    store.add({"id": "big", "output": []}, [{"content": "x" * 20_000}], None)
    assert store._size == 0


def test_an_item_is_referred_to(made: Any) -> None:
    first = post(made[0], PATH, {"input": "One?", "grammar": 'root ::= "Yes."'}).json()
    name = first["output"][0]["id"]
    for reference in ({"type": "item_reference", "id": name}, {"id": name}):
        items = [{"role": "user", "content": "One?"}, reference, {"role": "user", "content": "Go"}]
        assert shown(made, {"input": items}).startswith("<user>One?<assistant>Yes.<user>Go")


SHELL = {"type": "exec", "command": ["ls"]}
PAIRS: list[tuple[list[dict[str, Any]], str]] = [
    ([{"type": "local_shell_call", "id": "l1", "call_id": "c1", "action": SHELL},
      {"type": "local_shell_call_output", "id": "c1", "output": "a.txt"}],
     '[{"name": "local_shell", "arguments": {"type": "exec", "command": ["ls"]}}]<tool>a.txt#c1'),
    ([{"type": "shell_call", "call_id": "c2", "action": {"commands": ["ls"]}},
      {"type": "shell_call_output", "call_id": "c2", "output": [{"stdout": "b.txt"}]}],
     '[{"name": "shell", "arguments": {"commands": ["ls"]}}]<tool>[{"stdout":"b.txt"}]#c2'),
    ([{"type": "apply_patch_call", "call_id": "c3", "operation": {"path": "x", "diff": "+y"}},
      {"type": "apply_patch_call_output", "call_id": "c3", "status": "completed"}],
     '[{"name": "apply_patch", "arguments": {"path": "x", "diff": "+y"}}]<tool>completed#c3'),
    ([{"type": "mcp_call", "id": "m1", "name": "roll", "server_label": "d",
       "arguments": '{"n": 2}', "output": "seven"}],
     '[{"name": "roll", "arguments": {"n": 2}}]<tool>seven#m1'),
    ([{"type": "code_interpreter_call", "id": "i1", "code": "1+1", "container_id": "x",
       "outputs": [{"logs": "2"}]}],
     '[{"name": "code_interpreter", "arguments": {"code": "1+1"}}]<tool>[{"logs":"2"}]#i1'),
    ([{"type": "file_search_call", "id": "f1", "queries": ["q"], "results": [{"text": "t"}]}],
     '[{"name": "file_search", "arguments": {"queries": ["q"]}}]<tool>[{"text":"t"}]#f1'),
]  # fmt: skip


@pytest.mark.parametrize(("items", "wanted"), PAIRS, ids=[p[0][0]["type"] for p in PAIRS])
def test_items_of_every_kind(made: Any, items: list[dict[str, Any]], wanted: str) -> None:
    start, end = {"role": "user", "content": "Do."}, {"role": "user", "content": "Go on."}
    text = shown(made, {"input": [start, *items, end]})
    assert text.startswith(f"<user>Do.<assistant>{wanted}<user>Go on.")


def test_items_that_only_other_servers_read(made: Any, said: list[str]) -> None:
    kinds = (
        "compaction", "web_search_call", "image_generation_call", "mcp_list_tools",
        "mcp_approval_request", "code_interpreter_call", "file_search_call",
    )  # fmt: skip
    for kind in kinds:
        items = [{"role": "user", "content": "Do."}, {"type": kind, "id": "x"}]
        assert shown(made, {"input": items}).startswith("<user>Do.<assistant>")
        assert said.count(f"items of the type {kind} are left out") == 1
    picture = [{"type": "computer_call_output", "call_id": "x", "output": {"image_url": "y"}}]
    answer = post(made[0], PATH, {"input": picture})
    assert answer.status_code == 400
    assert "image input is not supported" in message(answer)


def test_log_probabilities_of_the_text(made: Any) -> None:
    asked = {"input": "Once", "max_output_tokens": 6, "ignore_eos": True}
    include = ["message.output_text.logprobs"]
    for fields, top in (
        ({"top_logprobs": 3}, 3), ({"include": include}, 0),
        ({"include": include, "top_logprobs": 2}, 2),
    ):  # fmt: skip
        whole = post(made[0], PATH, {**asked, **fields}).json()
        assert whole["top_logprobs"] == fields.get("top_logprobs", 0)
        (part,) = whole["output"][0]["content"]
        rows = part["logprobs"]
        assert "".join(row["token"] for row in rows).strip() == part["text"].strip()
        assert all(row["logprob"] <= 0 and len(row["top_logprobs"]) == top for row in rows)
        events = streamed(made[0], PATH, {**asked, **fields, "stream": True})
        deltas = [e for e in events if e["type"] == "response.output_text.delta"]
        told = [row for event in deltas for row in event["logprobs"]]
        assert [row["token"] for row in told] == [row["token"] for row in rows]
        rows = told
        done = next(e for e in events if e["type"] == "response.output_text.done")
        assert done["logprobs"] == rows
    plain = post(made[0], PATH, asked).json()["output"][0]["content"][0]
    assert plain["logprobs"] == []


CUSTOM = {"type": "custom", "custom": {"name": "sql", "description": "Runs.", "format": {
    "type": "grammar", "grammar": {"syntax": "lark", "definition": "start: A"}}}}  # fmt: skip
PLAIN = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}
CALL = 'root ::= "<tool_call>{\\"name\\": \\"%s\\", \\"arguments\\": %s}</tool_call>"'
HERMES = """
{%- for t in tools or [] %}{{ t.function | tojson }}{% endfor %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


@pytest.fixture(scope="module")
def hermes() -> Iterator[Any]:
    with application(chatting(), n_ctx=4096, template=HERMES) as (app, _):
        yield app


def test_tools_of_chat_completions_that_take_a_text(hermes: Any) -> None:
    past = [
        {"role": "user", "content": "Ask."},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "c1", "type": "custom", "custom": {"name": "sql", "input": "SELECT 1"}}]},
        {"role": "tool", "tool_call_id": "c1", "content": "1"},
    ]  # fmt: skip
    asked = {"messages": past, "tools": [CUSTOM, PLAIN], "max_tokens": 80}
    text = post(hermes, "/apply-template", asked).json()["prompt"]
    assert '{"name": "sql", "arguments": {"input": "SELECT 1"}}' in text
    assert "lark grammar:\\nstart: A" in text
    sql = json.dumps(json.dumps({"input": 'a\n"b"'}))[1:-1]
    for name, arguments, wanted in (
        ("sql", sql, {"type": "custom", "custom": {"name": "sql", "input": 'a\n"b"'}}),
        ("add", "{}", {"type": "function", "function": {"name": "add", "arguments": "{}"}}),
    ):
        body = {**asked, "grammar": CALL % (name, arguments), "n": 2}
        for choice in post(hermes, "/v1/chat/completions", body).json()["choices"]:
            (call,) = choice["message"]["tool_calls"]
            assert call == {"id": call["id"], **wanted}
            assert choice["finish_reason"] == "tool_calls"
        built: dict[int, dict[str, Any]] = {}
        for event in streamed(hermes, "/v1/chat/completions", {**body, "stream": True}):
            for choice in event["choices"]:
                for part in choice["delta"].get("tool_calls") or []:
                    call = built.setdefault(choice["index"], {})
                    call.setdefault("type", part.get("type"))
                    for kind in ("custom", "function"):
                        for field, value in part.get(kind, {}).items():
                            call.setdefault(kind, {}).setdefault(field, "")
                            call[kind][field] += value
        assert list(built.values()) == [wanted, wanted]


@pytest.mark.parametrize("choice", [
    {"type": "custom", "custom": {"name": "sql"}},
    {"type": "allowed_tools", "allowed_tools": {
        "mode": "required", "tools": [{"type": "custom", "custom": {"name": "sql"}}]}},
])  # fmt: skip
def test_such_a_tool_is_forced(hermes: Any, choice: dict[str, Any]) -> None:
    body = {
        "messages": [{"role": "user", "content": "Ask."}], "tools": [PLAIN, CUSTOM],
        "tool_choice": choice, "max_tokens": 200,
    }  # fmt: skip
    events = streamed(hermes, "/v1/chat/completions", {**body, "stream": True})
    parts = [
        part for e in events for c in e["choices"] for part in c["delta"].get("tool_calls", [])
    ]
    assert (parts[0]["type"], parts[0]["custom"]) == ("custom", {"name": "sql", "input": ""})
    assert all("function" not in part for part in parts)


def test_an_interrupted_reasoning_of_another_model(hermes: Any) -> None:
    user = {"role": "user", "content": "Ask."}
    thought = {"role": "assistant", "content": "", "reasoning_content": "Hm"}
    prompts = [
        post(hermes, "/apply-template", {"messages": messages}).json()["prompt"]
        for messages in ([user], [user, thought])
    ]
    assert prompts[0] == prompts[1]
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "Hm"}]}
    body = {"model": "x", "input": [user, item], "max_output_tokens": 1}
    assert post(hermes, PATH, body).status_code == 200
    asked = {"messages": [user, thought], "continue_final_message": "reasoning_content"}
    assert post(hermes, "/v1/chat/completions", asked).status_code == 400


def test_a_cut_input_and_a_regex() -> None:
    from mtkit.serve.request import UnknownFields
    from mtkit.serve.tool import functions_from_chat, functions_from_responses, input_of

    for arguments, text in (
        ('{"input": "a\\n', "a\n"), ('{"input": "a\\', "a"), ('{"input": "', ""), ('{"inp', ""),
        ("", ""), ('{"input": 5}', '{"input": 5}'), ('{"other": "a"}', '{"other": "a"}'),
    ):  # fmt: skip
        assert input_of(arguments) == text
    unknown = UnknownFields(strict=True, count=lambda _, __: None, say=str)
    regex = {"syntax": "regex", "definition": "a|b"}
    custom = {"name": "run", "format": {"type": "grammar", "grammar": regex}}
    flat = {"type": "custom", "name": "run", "format": {"type": "grammar", **regex}}
    for functions in (
        functions_from_chat([{"type": "custom", "custom": custom}]),
        functions_from_responses([flat], unknown)[0],
    ):
        schema = functions[0]["function"]["parameters"]["properties"]["input"]
        assert schema == {"type": "string", "pattern": "^(?:a|b)$"}


def test_such_tools_are_checked(hermes: Any) -> None:
    for tool, named in (
        ({"type": "custom"}, "tools[0].custom: is missing"),
        ({"type": "custom", "custom": 5}, "tools[0].custom: is not an object"),
        ({"type": "custom", "custom": {}}, "tools[0].custom.name: is missing"),
        ({"type": "other"}, "tools[0].type: is not function"),
    ):
        body = {"messages": [{"role": "user", "content": "Ask."}], "tools": [tool]}
        answer = post(hermes, "/v1/chat/completions", body)
        assert (answer.status_code, message(answer)[: len(named)]) == (400, named)


REASONS = (
    "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}({{ m.reasoning_content }})"
    "{% endif %}{{ m.content }}{% endfor %}"
)


def test_refusals_and_reasoning_in_the_parts_of_a_message() -> None:
    refusal = {"type": "refusal", "refusal": "No."}
    text = {"type": "text", "text": "So."}
    thinking = {"type": "thinking", "thinking": "Hm.", "signature": "x"}
    parts = {"type": "thinking", "thinking": [{"type": "text", "text": "Hm."}]}
    with application(chatting(), template=REASONS) as (app, _):
        for content, wanted in (
            ([refusal], "No."), ([text, refusal], "So.\nNo."), ([thinking, text], "(Hm.)So."),
            ([parts, text], "(Hm.)So."), ([{"type": "redacted_thinking"}, text], "So."),
            ([thinking, thinking, refusal], "(Hm.\n\nHm.)No."),
        ):  # fmt: skip
            said = [{"role": "assistant", "content": content}, {"role": "user", "content": "Why?"}]
            answer = post(app, "/apply-template", {"messages": said})
            assert answer.json() == {"prompt": f"<assistant>{wanted}<user>Why?"}
        refused = [{"role": "assistant", "content": None, "refusal": "No."}, said[1]]
        answer = post(app, "/apply-template", {"messages": refused})
        assert answer.json() == {"prompt": "<assistant>No.<user>Why?"}
        item = {"type": "message", "role": "assistant", "content": [refusal]}
        asked = {"input": [item, said[1]], "max_output_tokens": 1}
        assert post(app, PATH, asked).status_code == 200
