"""Fields of requests: what is kept, passed over and refused; and how a prompt ends."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from llm_models import tiny
from serving_http import ASK, application, message, post, run
from support import Run

from mtkit.api.generation import generate
from mtkit.chat.process import ProcessLost
from mtkit.errors import UsageError
from mtkit.sources.locate import MODEL, shipped

CHAT, TEXT, MESSAGES = "/v1/chat/completions", "/v1/completions", "/v1/messages"
EVERY = {CHAT: ASK, TEXT: {"prompt": "Hello", "max_tokens": 4}, MESSAGES: ASK}
"""Paths with a request that each answers."""
PASSED: dict[str, Any] = {
    "context_management": {"edits": []}, "output_config": {"effort": "high"}, "mcp_servers": [],
    "cache_control": {"type": "ephemeral"}, "verbosity": "low", "modalities": ["text"],
    "prediction": {"type": "content", "content": "x"}, "store": True, "user": "me", "best_of": 1,
    "web_search_options": {}, "keep_alive": "5m", "num_ctx": 4096, "what_nobody_knows": [{"a": 1}],
}  # fmt: skip
REFUSED: dict[str, Any] = {
    "audio": {"voice": "alloy"}, "modalities": ["text", "audio"], "best_of": 2,
    "mcp_servers": [{"url": "x"}], "guided_regex": "a+", "use_beam_search": True,
    "lora": [{"id": 0, "scale": 1}], "multimodal_data": ["aGk="],
}  # fmt: skip


@pytest.fixture(scope="module")
def made() -> Iterator[Any]:
    said: list[str] = []
    with application(Path(shipped(MODEL)), n_ctx=1024, on_note=said.append) as (app, served):
        yield app, served, said


@pytest.mark.parametrize("path", EVERY)
def test_what_changes_nothing_is_taken_told_of_once_and_counted(made: Any, path: str) -> None:
    app, _, said = made
    plain, more, again = run(
        app, *(("POST", path, {**EVERY[path], **fields}) for fields in ({}, PASSED, PASSED))
    )
    texts = [
        [one.get("text") or one.get("message") for one in answer.json().get("choices", [])]
        or answer.json()["content"]
        for answer in (plain, more, again)
    ]
    assert texts[0] == texts[1] == texts[2]
    for name in PASSED:
        assert sum(f" {name}," in note for note in said) == 1
    counted = run(app, ("GET", "/metrics", None))[0].text
    assert 'mtkit_ignored_fields_total{name="what_nobody_knows"}' in counted


@pytest.mark.parametrize("path", EVERY)
def test_what_cannot_be_had_is_refused_by_name(made: Any, path: str) -> None:
    for name, value in REFUSED.items():
        answer = post(made[0], path, {**EVERY[path], name: value})
        assert answer.status_code == 400
        assert message(answer).startswith(f"{name}: ")
        assert post(made[0], path, {**EVERY[path], name: None}).status_code == 200


def test_names_that_anybody_makes_up_are_bounded() -> None:
    from mtkit.serve.request import UnknownFields

    counted: Counter[str] = Counter()
    said: list[str] = []

    def count(name: str, number: int) -> None:
        counted[name] += number

    unknown = UnknownFields(strict=False, count=count, say=said.append)
    unknown.check({f"{place}{'x' * 200}": 1 for place in range(500)})
    assert len(said) == 100
    assert len(counted) == 101
    assert counted["others"] == 400
    assert max(map(len, counted)) == 100


def test_strict_refuses_what_is_not_known() -> None:
    with application(Path(shipped(MODEL)), strict=True) as (app, _):
        for path, asked in EVERY.items():
            for name in ("keep_alive", "what_nobody_knows", "x" * 500):
                answer = post(app, path, {**asked, name: 1})
                assert answer.status_code == 400
                assert message(answer) == f"{name[:100]}: is not a known field"
            assert post(app, path, {**asked, "user": "me", "store": False}).status_code == 200


def prompt(app: Any, messages: list[Any], **fields: Any) -> Any:
    answer = post(app, "/apply-template", {"messages": messages, **fields})
    return answer.json().get("prompt") or message(answer)


def test_a_last_message_of_the_assistant_is_continued(made: Any) -> None:
    app, served, _ = made
    user = {"role": "user", "content": "Hi"}
    begun = {"role": "assistant", "content": "Well, I"}
    opened = prompt(app, [user])
    for fields in ({}, {"continue_final_message": True}, {"add_generation_prompt": False},
                   {"continue_final_message": True, "add_generation_prompt": False}):  # fmt: skip
        assert prompt(app, [user, begun], **fields) == f"{opened}Well, I"
    closed = prompt(app, [user, begun], continue_final_message=False)
    assert closed.startswith(f"{opened}Well, I<")
    assert closed.endswith(opened[len(prompt(app, [user], add_generation_prompt=False)) :])
    ids = served.model.tokenize(f"{opened}Well, I", add_special=False)
    for path in (CHAT, MESSAGES):
        asked = {"messages": [user, begun], "max_tokens": 1}
        usage = post(app, path, asked).json()["usage"]
        found = usage.get("prompt_tokens") or sum(
            usage[name] for name in ("input_tokens", "cache_read_input_tokens")
        )
        assert found == len(ids) + (ids[0] != served.model.bos and served.model.add_bos)


def test_what_cannot_be_continued(made: Any) -> None:
    app = made[0]
    user, begun = {"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well"}
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    both = {"continue_final_message": True, "add_generation_prompt": True}
    for messages, fields, said in (
        ([user, begun], both, "continue_final_message: cannot be true with"),
        ([user, begun, begun], {}, "messages: end with two"),
        (
            [user, {**begun, "tool_calls": [call]}],
            {"continue_final_message": True, "add_generation_prompt": False},
            "tool calls",
        ),
        ([user, begun], {"continue_final_message": "nothing"}, "nothing"),
    ):
        for path in ("/apply-template", CHAT):
            answer = post(app, path, {"messages": messages, **fields})
            assert answer.status_code == 400
            assert said in message(answer)


@pytest.mark.parametrize(
    ("form", "call"), [("c.arguments", 'f:{"city": "Ro'),
                       ("c.arguments | tojson", 'f:{"city": "Ro"}'),
                       ("c.arguments | items | list", "f:[('city', 'Ro')]")],
)  # fmt: skip
def test_a_call_that_was_cut_is_closed_where_the_template_takes_no_text(
    form: str, call: str
) -> None:
    template = (
        "{% for m in messages %}{{ m.content }}{% for t in m.tool_calls or [] %}"
        "{% set c = t.function %}{{ c.name }}:{{ " + form + " }}{% endfor %}{% endfor %}"
    )
    cut = {"name": "f", "arguments": '{"city": "Ro'}
    messages = [
        {"role": "user", "content": "Hi"},
        {"role": "assistant", "tool_calls": [{"type": "function", "id": "1", "function": cut}]},
        {"role": "tool", "tool_call_id": "1", "content": "no"},
    ]
    items = [
        {"role": "user", "content": "Hi"},
        {"type": "function_call", "call_id": "1", **cut},
        {"type": "function_call_output", "call_id": "1", "output": "no"},
    ]
    with application(Path(shipped(MODEL)), n_ctx=1024, template=template) as (app, _):
        answer = post(app, "/apply-template", {"messages": messages})
        assert answer.json()["prompt"] == f"Hi{call}no"
        for path, asked in ((CHAT, {"messages": messages}), ("/v1/responses", {"input": items})):
            assert post(app, path, {**asked, "max_tokens": 1}).status_code == 200, path


def test_a_conversation_has_messages_and_paths_have_no_types(made: Any) -> None:
    answer = post(made[0], CHAT, {"messages": [], "max_tokens": 1})
    assert answer.status_code == 400
    assert "messages" in message(answer)
    for path in (MESSAGES, f"{MESSAGES}/count_tokens"):  # llama-server takes none there
        answer = post(made[0], path, {"messages": [], "max_tokens": 1})
        assert answer.status_code == 400
        assert "messages" in message(answer)
    said = message(post(made[0], "/nowhere", {}))
    assert said == "there is no path /nowhere; GET /openapi.json lists those that there are"
    assert "base URL" in message(post(made[0], "/v1/", {}))
    assert "OpenAI's is, under /v1" in post(made[0], "/api/v0/models", {}).json()["error"]


def test_values_reach_the_template() -> None:
    template = "{{ mood }}{% for m in messages %}:{{ m.content }}{% endfor %}"
    with application(Path(shipped(MODEL)), template=template) as (app, _):
        asked = [{"role": "user", "content": "Hi"}]
        assert prompt(app, asked, chat_template_kwargs={"mood": "good"}) == "good:Hi"
        assert prompt(app, asked) == ":Hi"


def test_a_template_without_a_process_is_the_servers_fault(
    made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lost(*_: object) -> None:
        raise ProcessLost("the process of the chat template ended (signal 9)")

    monkeypatch.setattr("mtkit.chat.process.Process.ask", lost)
    for path in (CHAT, MESSAGES, "/apply-template"):
        answer = post(made[0], path, ASK)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"


def test_a_template_gets_the_date_of_today() -> None:
    import time

    template = (
        "{{ date_string }}|{{ datetime }}|{{ 'functools' if functions }}{{ functions + '' }}|"
        "{{ messages[0].content }}"
    )
    with application(Path(shipped(MODEL)), template=template) as (app, _):
        today = time.strftime("%d %b %Y|%b %d %Y||Hi")
        assert prompt(app, [{"role": "user", "content": "Hi"}]) == today
        other = prompt(
            app, [{"role": "user", "content": "Hi"}], chat_template_kwargs={"datetime": "then"}
        )
        assert other.endswith("|then||Hi")


ODD: tuple[tuple[str, dict[str, Any]], ...] = (
    (CHAT, {"messages": [{"role": "user", "content": [{"type": []}]}]}),
    (CHAT, {"messages": [{"role": "user", "content": [{"type": {}, "text": 5}]}]}),
    (MESSAGES, {"max_tokens": 1, "messages": [{"role": "user", "content": [{"type": []}]}]}),
    ("/v1/responses", {"input": "Hi", "tool_choice": {"type": "allowed_tools", "tools": 5}}),
    ("/v1/responses", {"input": [{"role": "user", "content": [{"type": []}]}]}),
)


@pytest.mark.parametrize(("path", "asked"), ODD)
def test_what_has_another_type_is_the_requests_fault(
    made: Any, path: str, asked: dict[str, Any]
) -> None:
    assert post(made[0], path, {**asked, "max_output_tokens": 1}).status_code in (200, 400)


def test_a_server_that_does_not_continue_answers_says_so_in_all_apis() -> None:
    turns = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Well"}]
    counted = []
    for prefill in (True, False):
        with application(Path(shipped(MODEL)), prefill_assistant=prefill) as (app, _):
            usages = [
                post(app, CHAT, {"messages": turns, "max_tokens": 1}),
                post(app, MESSAGES, {"messages": turns, "max_tokens": 1}),
                post(app, "/v1/responses", {"input": turns, "max_output_tokens": 1}),
            ]
            counted.append([one.json()["usage"] for one in usages])
    names = ("prompt_tokens", "input_tokens", "cache_read_input_tokens")
    for begun, closed in zip(*counted, strict=True):
        assert sum(begun.get(one, 0) for one in names) < sum(closed.get(one, 0) for one in names)


def test_what_no_answer_says_has_no_speed(made: Any) -> None:
    assert post(made[0], CHAT, {**ASK, "max_tokens": 0}).status_code == 200
    sums = [line for line in made[1].metrics.text().decode().split("\n") if "second_sum" in line]
    assert sums
    assert all(float(line.split()[-1]) >= 0 for line in sums)


def test_strict_takes_what_the_apis_themselves_say() -> None:
    with application(Path(shipped(MODEL)), strict=True) as (app, _):
        for path, fields in (
            ("/v1/responses", {"input": "Hi", "max_output_tokens": 1, "truncation": "disabled"}),
            (CHAT, {**ASK, "verbosity": "low"}),
            (MESSAGES, {**ASK, "context_management": {"edits": []}}),
        ):
            assert post(app, path, fields).status_code == 200


def test_tools_that_are_allowed_are_those_that_are_given(made: Any) -> None:
    tools = [{"type": "function", "function": {"name": name}} for name in ("one", "two")]
    for mode in ("auto", "required"):
        allowed = {"mode": mode, "tools": tools[1:]}
        choice = {"type": "allowed_tools", "allowed_tools": allowed}
        asked = {**ASK, "tools": tools, "tool_choice": choice, "max_tokens": 60}
        answer = post(made[0], CHAT, asked)
        assert answer.status_code == 200
        calls = answer.json()["choices"][0]["message"].get("tool_calls") or []
        assert {one["function"]["name"] for one in calls} <= {"two"}
        assert calls or mode == "auto"
    for odd in (
        {},
        {"tools": 5},
        {"mode": "never", "tools": tools},
        {"mode": "required", "tools": []},
    ):
        choice = {"type": "allowed_tools", "allowed_tools": odd}
        assert post(made[0], CHAT, {**asked, "tool_choice": choice}).status_code == 400


def test_digits_in_logit_bias_are_an_id_everywhere(mtkit: Run) -> None:
    """A request, a command line and a call read them alike, also where no vocabulary has the id."""
    digits, path = "12345678901", tiny("llama")
    what = f"there is no id {digits}"
    with application(path) as (app, _):
        answer = post(app, "/completion", {"prompt": "hi", "logit_bias": {digits: 1}})
        assert (answer.status_code, what in message(answer)) == (400, True)
    line = mtkit("generate", "hi", "-m", path, "-n", 1, "--logit-bias", f"{digits}=1")
    assert (line.returncode, what in line.stderr.decode()) == (2, True)
    with pytest.raises(UsageError, match=what):
        generate("hi", model=path, n_predict=1, logit_bias=((digits, 1.0),))


def test_openapi_describes_every_body(made: Any) -> None:
    (answer,) = run(made[0], ("GET", "/openapi.json", None))
    document = answer.json()
    schemas, names = document["components"]["schemas"], set()
    for operations in document["paths"].values():
        for operation in operations.values():
            if "requestBody" in operation:
                schema = operation["requestBody"]["content"]["application/json"]["schema"]
                names.add(schema.get("items", schema)["$ref"].rpartition("/")[2])
    assert names <= schemas.keys()
    assert {"Chat", "Complete", "Message", "Responses", "Scale"} <= names
    assert {"temperature", "messages", "logit_bias"} <= schemas["Chat"]["properties"].keys()
