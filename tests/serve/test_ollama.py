"""Ollama's routes: answers whole and in lines, what clients send, options, errors, models."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import datetime, timezone
from typing import Any

import pytest
from llm_models import chatting
from serving_http import application, pooled, post, run
from support import reference

reference("msgspec")

CHAT, GENERATE = "/api/chat", "/api/generate"
TEMPLATE = """
{%- if tools %}Call one as <tool_call>{"name": …, "arguments": …}</tool_call>:
{%- for t in tools %}{{ t.function | tojson }}{% endfor %}{% endif %}
{%- for m in messages %}<|im_start|>{{ m.role }}
{% if m.reasoning_content %}<think>
{{ m.reasoning_content }}
</think>

{% endif %}{{ m.content }}{% for c in m.tool_calls or [] %}
<tool_call>{{ c.function | tojson }}</tool_call>{% endfor %}<|im_end|>
{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{% endif %}"""
USER = [{"role": "user", "content": "Weather?"}]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Looks it up.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
    },
}
CALL = '<tool_call>{"name": "get_weather", "arguments": {"city": "Oslo"}}</tool_call>'
FIGURES = (
    "total_duration", "load_duration", "prompt_eval_count", "prompt_eval_duration", "eval_count",
    "eval_duration",
)  # fmt: skip


def says(text: str) -> dict[str, Any]:
    """Return options with which a model says a text."""
    return {"options": {"grammar": f"root ::= {json.dumps(text)}"}}


@pytest.fixture(scope="module")
def notes() -> list[str]:
    return []


@pytest.fixture(scope="module")
def server(notes: list[str]) -> Iterator[Any]:
    with application(
        chatting(), template=TEMPLATE, slots=1, alias="parrot", on_note=notes.append
    ) as pair:
        yield pair


@pytest.fixture
def app(server: Any) -> Any:
    return server[0]


@pytest.fixture
def prompts(server: Any, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The prompts that the template wrote."""
    served, texts = server[1], list[str]()
    chat_ids = served.chat_ids

    async def watched(conversation: Any) -> Any:
        texts.append(await served.chat_text(conversation))
        return await chat_ids(conversation)

    monkeypatch.setattr(served, "chat_ids", watched)
    return texts


def lines(app: Any, path: str, body: Any) -> list[dict[str, Any]]:
    """Return the lines of a stream."""
    response = post(app, path, body)
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith("application/x-ndjson")
    return [json.loads(line) for line in response.text.splitlines()]


def both(app: Any, path: str, body: Any) -> dict[str, Any]:
    """Return a whole answer, which equals the streamed one in all but its times."""
    whole = post(app, path, {**body, "stream": False})
    assert whole.status_code == 200, whole.text
    rows, joined = lines(app, path, body), dict[str, Any]()
    assert [row["done"] for row in rows] == [False] * (len(rows) - 1) + [True]
    for row in rows:
        part = row.get("message", row)
        for name in ("response", "content", "thinking"):
            if name in part:
                joined[name] = joined.get(name, "") + part[name]
        for name in ("tool_calls", "logprobs"):
            values = (part if name == "tool_calls" else row).get(name)
            if values:
                joined.setdefault(name, []).extend(values)
    answer: dict[str, Any] = whole.json()
    part = answer.get("message", answer)
    for name, value in joined.items():
        own = part.get(name, answer.get(name))
        if name == "tool_calls":  # ids are drawn
            own, value = ([call["function"] for call in calls] for calls in (own, value))
        if name == "logprobs":  # a prompt that is remembered is computed in other batches
            own, value = ([row["token"] for row in rows] for rows in (own, value))
        assert own == value, name
    for end in (answer, rows[-1]):
        assert all(type(end[name]) is int for name in FIGURES)
        assert end["total_duration"] >= end["eval_duration"] >= 0
        assert datetime.fromisoformat(end["created_at"].replace("Z", "+00:00"))
    for name in ("done_reason", "eval_count", "prompt_eval_count", "context"):
        assert answer.get(name) == rows[-1].get(name)
    return answer


def error(app: Any, path: str, body: Any, status: int = 400) -> str:
    response = post(app, path, body)
    assert response.status_code == status, response.text
    assert list(response.json()) == ["error"]
    return str(response.json()["error"])


def test_a_chat_is_answered(app: Any) -> None:
    answer = both(app, CHAT, {"model": "parrot", "messages": USER, **says("It rains.")})
    assert answer["message"] == {"role": "assistant", "content": "It rains."}
    assert answer["model"] == "parrot"
    assert answer["done_reason"] == "stop"


def test_a_prompt_is_continued(app: Any, prompts: list[str]) -> None:
    answer = both(app, GENERATE, {"prompt": "Weather?", "system": "Be brief.", **says("Rain.")})
    assert answer["response"] == "Rain."
    assert "system\nBe brief.<|im_end|>\n<|im_start|>user\nWeather?<|im_end|>" in prompts[0]
    longer = both(app, GENERATE, {"prompt": "Why?", "context": answer["context"], **says("So.")})
    assert longer["context"][: len(answer["context"])] == answer["context"]
    assert longer["prompt_eval_count"] > answer["prompt_eval_count"]
    bare = both(app, GENERATE, {"prompt": "Weather?", "raw": True, **says("Rain.")})
    assert bare["prompt_eval_count"] < answer["prompt_eval_count"]
    assert "context" not in bare


@pytest.mark.parametrize("text", ["It rains.", "", CALL])
def test_a_reasoning_is_thinking(app: Any, text: str) -> None:
    asked = {"messages": USER, "tools": [TOOL], **says(f"<think>\nClouds.\n</think>\n\n{text}")}
    for think in (None, True, "low"):
        message = both(app, CHAT, {**asked, "think": think})["message"]
        assert message["thinking"] == "Clouds."
        assert message["content"] == ("" if text == CALL else text)
        assert ("tool_calls" in message) == (text == CALL)
    body = {"prompt": "Weather?", **says("<think>\nClouds.\n</think>\n\nRain.")}
    answer = both(app, GENERATE, body)
    assert (answer["thinking"], answer["response"]) == ("Clouds.", "Rain.")


def test_thinking_can_be_switched_off(app: Any, prompts: list[str]) -> None:
    asked = {"messages": USER, "think": False, **says("Rain.")}
    assert both(app, CHAT, asked)["message"] == {"role": "assistant", "content": "Rain."}
    assert prompts[0].endswith("</think>\n\n")
    both(app, GENERATE, {"prompt": "x", "think": False, **says("Rain.")})
    assert prompts[-1].endswith("</think>\n\n")
    assert "think" in error(app, CHAT, {**asked, "think": "deeply"})


def test_calls_have_objects_for_arguments(app: Any) -> None:
    other = CALL.replace("Oslo", "Rome")
    text = f"Let me see.\n{CALL}\n{other}"
    message = both(app, CHAT, {"messages": USER, "tools": [TOOL], **says(text)})["message"]
    assert message["content"].strip() == "Let me see."
    assert [call["function"] for call in message["tool_calls"]] == [
        {"index": 0, "name": "get_weather", "arguments": {"city": "Oslo"}},
        {"index": 1, "name": "get_weather", "arguments": {"city": "Rome"}},
    ]
    rows = lines(app, CHAT, {"messages": USER, "tools": [TOOL], **says(CALL)})
    assert sum("tool_calls" in row["message"] for row in rows) == 1


@pytest.mark.parametrize(
    ("calls", "results"),
    [
        # docs/api.md: neither ids nor anything but the tool's name
        ([{}, {}], [{"tool_name": "get_weather"}, {"tool_name": "get_weather"}]),
        # the ollama package and Open WebUI: ids on both sides, in any order
        ([{"id": "a"}, {"id": "b"}], [{"tool_call_id": "b"}, {"tool_call_id": "a"}]),
        ([{"id": "a"}, {"id": "b"}], [{"name": "get_weather"}, {}]),
        ([{}, {}], [{}, {}]),
    ],
)
def test_a_history_with_calls(app: Any, calls: Any, results: Any, prompts: list[str]) -> None:
    function = {"name": "get_weather", "arguments": {"city": "Oslo"}}
    history = [
        *USER,
        {"role": "assistant", "content": "", "thinking": "Clouds.",
         "tool_calls": [{**call, "function": function} for call in calls]},
        *({"role": "tool", "content": f"{at} C", **row} for at, row in enumerate(results)),
    ]  # fmt: skip
    both(app, CHAT, {"messages": history, "tools": [TOOL], **says("It is cold.")})
    for text in ("Clouds.", '"city": "Oslo"', "0 C", "1 C"):
        assert text in prompts[0]


def test_results_belong_to_their_calls() -> None:
    from mtkit.serve.ollama_request import messages_from_ollama

    def call(name: str, **more: Any) -> dict[str, Any]:
        return {"function": {"name": name, "arguments": {}}, **more}

    rows = messages_from_ollama([
        {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b"), call("a")]},
        {"role": "tool", "content": "", "tool_name": "b"},
        {"role": "tool", "content": "", "tool_name": "a"},
        {"role": "tool", "content": ""},
    ])  # fmt: skip
    ids = [call["id"] for call in rows[0]["tool_calls"]]
    assert len(set(ids)) == 3
    assert all(len(name) == 9 and name.isalnum() for name in ids)
    assert [row.get("tool_call_id") for row in rows[1:]] == [ids[1], ids[0], ids[2]]


@pytest.mark.parametrize("path", [CHAT, GENERATE])
def test_formats(app: Any, path: str) -> None:
    schema = {
        "type": "object", "properties": {"a": {"type": "integer", "enum": [1, 2]}},
        "required": ["a"], "additionalProperties": False,
    }  # fmt: skip
    body = {"messages": USER} if path == CHAT else {"prompt": "Weather?"}
    for form, more in ((schema, {}), ("json", {"options": {"num_predict": 2}}), ("", {})):
        answer = both(app, path, {**body, "format": form, "options": {"num_predict": 40}, **more})
        text = answer.get("response", answer.get("message", {}).get("content"))
        if form == schema:
            assert json.loads(text)["a"] in (1, 2)
        elif form:
            assert text.lstrip().startswith("{")
    assert "format" in error(app, path, {**body, "format": "xml"})
    assert "schema" in error(app, path, {**body, "format": {"type": 5}})


def test_options(app: Any, server: Any, notes: list[str]) -> None:
    body = {"prompt": "Hello"}
    short = both(app, GENERATE, {**body, "options": {"num_predict": 3.0, "seed": 7, "top_k": 40.0}})
    assert (short["eval_count"], short["done_reason"]) == (3, "length")
    asked = {"prompt": "x", "options": {"grammar": 'root ::= "one two three"', "stop": ["two"]}}
    assert both(app, GENERATE, asked)["response"] == "one "
    settings = {
        "temperature": 0.5, "top_p": 0.9, "min_p": 0.1, "typical_p": 0.9, "repeat_last_n": 16,
        "repeat_penalty": 1.1, "presence_penalty": 0.1, "frequency_penalty": 0.1, "seed": 3,
        "mirostat": 0, "mirostat_tau": 5, "mirostat_eta": 0.1, "num_predict": 5, "num_keep": 4,
        "num_ctx": 512,
    }  # fmt: skip
    first, second = (
        post(app, GENERATE, {**body, "stream": False, "options": settings}).json()["response"]
        for _ in range(2)
    )
    assert first == second
    count = len(notes)
    load = {"num_gpu": 1, "num_thread": 4, "use_mmap": True, "num_ctx": 1 << 20, "made_up": 1}
    both(app, GENERATE, {**body, "options": {**load, "num_predict": 1}})
    names = ("num_gpu", "num_thread", "use_mmap", "num_ctx", "made_up")
    assert all(any(name in note for note in notes[count:]) for name in names)
    assert len(notes) - count == len(names)
    both(app, GENERATE, {**body, "options": {**load, "num_predict": 1}})
    assert len(notes) - count == len(names)
    assert server[1].settings.strict is False
    assert "temperature" in error(app, GENERATE, {**body, "options": {"temperature": "hot"}})
    assert "options" in error(app, GENERATE, {**body, "options": [1]})


def test_probabilities(app: Any) -> None:
    asked = {"messages": USER, "logprobs": True, "top_logprobs": 2, "options": {"num_predict": 3}}
    answer = both(app, CHAT, asked)
    assert len(answer["logprobs"]) == 3
    assert all(len(row["top_logprobs"]) == 2 for row in answer["logprobs"])
    assert answer["logprobs"][0]["logprob"] <= 0


def test_a_conversation_that_is_too_long_loses_its_oldest_messages(
    app: Any, server: Any, prompts: list[str]
) -> None:
    rows = [
        {"role": ("user", "assistant")[at % 2], "content": f"word{at} " * 60} for at in range(41)
    ]
    asked = {"messages": [{"role": "system", "content": "Be brief."}, *rows], **says("Yes.")}
    answer = post(app, CHAT, {**asked, "stream": False}).json()
    assert 0 < answer["prompt_eval_count"] < server[1].scheduler.n_slot
    assert "Be brief." in prompts[-1]
    assert "word40 " in prompts[-1]
    assert "word0 " not in prompts[-1]
    assert "exceeds" in error(app, CHAT, {**asked, "truncate": False})
    long = {"prompt": "word " * 9000, "raw": True, "options": {"num_predict": 1}, "stream": False}
    assert post(app, GENERATE, long).json()["done"] is True
    assert "exceeds" in error(app, GENERATE, {**long, "truncate": False})


def test_what_cannot_be_done_is_said(app: Any) -> None:
    from mtkit.serve.ollama_request import messages_from_ollama

    images = {"role": "user", "content": "What is it?", "images": ["aGk="]}
    assert "image input is not supported" in error(app, CHAT, {"messages": [images]})
    answer = {"role": "assistant", "content": "A cat."}
    shown = {"role": "tool", "tool_name": "look", "content": "Here:", "images": ["aGk=", "aGk="]}
    past = [images, answer, {"role": "user", "content": "Look.", "images": None}, shown]
    asked = {"messages": past, "stream": False, **says("Yes.")}
    assert post(app, CHAT, asked).json()["done"] is True
    converted = messages_from_ollama(past)
    left_out = "[image left out: this model takes text]"
    assert converted[0]["content"] == f"What is it?\n{left_out}"
    assert converted[3]["content"] == f"Here:\n{left_out}\n{left_out}"
    assert "image" in error(app, GENERATE, {"prompt": "x", "images": ["aGk="]})
    assert "template" in error(app, GENERATE, {"prompt": "x", "template": "{{ .Prompt }}"})
    assert "raw" in error(app, GENERATE, {"prompt": "x", "raw": True, "system": "y"})
    assert "keep_alive" in error(app, GENERATE, {"prompt": "x", "keep_alive": "soon"})
    assert "gaps" in error(app, GENERATE, {"prompt": "x", "suffix": "y"}, 501)
    assert "JSON" in error(app, CHAT, b"{")
    assert "is not" in error(app, CHAT, {"messages": [{"role": "nobody", "content": ""}]})
    assert "path" in error(app, "/api/nothing", {}, 404)
    for path in ("push", "create", "copy", "blobs/sha256:0"):
        assert "--model" in error(app, f"/api/{path}", {"model": "parrot"}, 501)
    (deleted,) = run(app, ("DELETE", "/api/delete", {"model": "parrot"}))
    assert deleted.status_code == 501
    with application(chatting()) as (plain, served):
        what = f'"{served.name}" does not support thinking'
        assert error(plain, CHAT, {"messages": USER, "think": True}) == what


def test_an_error_in_a_stream_is_a_line(
    app: Any, server: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mtkit.serve.slot import Slot

    choose, count = Slot.choose, [0]

    def fails(slot: Any, *arguments: Any) -> None:
        count[0] += 1
        if count[0] == 3:
            raise RuntimeError
        choose(slot, *arguments)

    monkeypatch.setattr(Slot, "choose", fails)
    rows = lines(app, GENERATE, {"prompt": "Hello", "options": {"num_predict": 9}})
    assert rows[-1] == {"error": "an error inside the server"}
    assert server[1].scheduler.is_open


def test_models_are_described(app: Any) -> None:
    tags, loaded, version, show = run(
        app, ("GET", "/api/tags", None), ("GET", "/api/ps", None), ("GET", "/api/version", None),
        ("POST", "/api/show", {"model": "parrot:latest"}),
    )  # fmt: skip
    (tag,), (running,) = tags.json()["models"], loaded.json()["models"]
    assert tag["name"] == tag["model"] == running["name"] == "parrot"
    assert tag["size"] == chatting().stat().st_size
    assert len(bytes.fromhex(tag["digest"])) == 32
    assert tag["details"]["family"] == "llama"
    assert tag["details"]["parameter_size"]
    assert running["size"] > 0
    assert running["context_length"] == 2048
    for text in (tag["modified_at"], running["expires_at"]):
        assert datetime.fromisoformat(text.replace("Z", "+00:00")).tzinfo == timezone.utc
    assert int(version.json()["version"].split(".")[1]) > 5
    card = show.json()
    assert card["model_info"]["general.architecture"] == "llama"
    assert card["model_info"]["tokenizer.ggml.tokens"] is None
    assert card["template"] == TEMPLATE
    assert card["details"] == tag["details"]
    assert card["capabilities"] == ["completion", "tools", "thinking"]
    whole = post(app, "/api/show", {"name": "parrot", "verbose": True}).json()
    assert len(whole["model_info"]["tokenizer.ggml.tokens"]) > 100
    pulled = lines(app, "/api/pull", {"model": "parrot"})
    assert pulled[-1] == {"status": "success"}
    assert "parrot" in error(app, "/api/pull", {"model": "other"}, 404)


def test_texts_become_vectors(app: Any) -> None:
    one, two, old, none, long = (
        post(app, path, body).json()
        for path, body in (
            ("/api/embed", {"input": "one", "options": {"num_ctx": 512}}),
            ("/api/embed", {"input": ["one", "two"], "dimensions": 8}),
            ("/api/embeddings", {"prompt": "one"}),
            ("/api/embeddings", {}),
            ("/api/embed", {"input": "word " * 3000}),
        )
    )
    (vector,) = one["embeddings"]
    assert sum(x * x for x in vector) == pytest.approx(1, abs=1e-4)
    assert one["prompt_eval_count"] > 0
    assert [len(row) for row in two["embeddings"]] == [8, 8]
    scale = old["embedding"][0] / vector[0]
    assert old["embedding"] == pytest.approx([x * scale for x in vector], rel=1e-3, abs=1e-5)
    assert none == {"embedding": []}
    assert len(long["embeddings"]) == 1
    assert "too long" in error(app, "/api/embed", {"input": "word " * 3000, "truncate": False})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        (300, 300), ("5m", 300), ("1h30m", 5400), ("250ms", 0.25), ("0", 0), (0, 0), (-1, -1),
        ("-1", -1), ("-1m", -1), ("-1s", -1), ("15m0s", 900), ("1.5h", 5400), ("60", 60),
    ],
)  # fmt: skip
def test_durations(text: Any, seconds: float) -> None:
    from mtkit.serve.ollama_request import keep_seconds

    assert keep_seconds(text) == seconds


CLIENTS = {
    "Open WebUI": (CHAT, {
        "model": "parrot", "messages": USER, "stream": True, "format": None, "keep_alive": "5m",
        "options": {"temperature": 0.8, "num_ctx": 2048, "stop": ["<|end|>"]},
    }),
    "Continue": (CHAT, {
        "model": "parrot:latest", "messages": USER, "stream": True, "keep_alive": 1800,
        "raw": False, "options": {
            "num_predict": 4, "num_ctx": 8192, "temperature": None, "top_k": None, "top_p": None,
            "min_p": None, "mirostat": None, "stop": [], "num_thread": None, "use_mmap": None,
            "num_gpu": None,
        },
    }),
    "Zed": (CHAT, {
        "model": "parrot", "messages": USER, "stream": True, "keep_alive": -1, "tools": [TOOL],
        "options": {"num_ctx": 2048, "num_predict": None, "stop": None, "temperature": 1.0,
                    "top_p": None}, "think": True,
    }),
    "Home Assistant": (CHAT, {
        "model": "parrot", "messages": [{"role": "system", "content": "A home."}, *USER],
        "tools": [TOOL], "stream": True, "keep_alive": "-1s", "options": {"num_ctx": 8192},
        "think": False,
    }),
    "autocompletion": (GENERATE, {
        "model": "parrot", "prompt": "def add(", "raw": True, "stream": True, "keep_alive": 1800,
        "options": {"num_predict": 8, "temperature": 0.01, "stop": ["\n\n"], "num_ctx": 4096},
    }),
}  # fmt: skip
"""What clients send, as their sources have it."""


@pytest.mark.parametrize("client", CLIENTS)
def test_requests_of_clients(app: Any, client: str) -> None:
    path, body = CLIENTS[client]
    options = {**body["options"], "grammar": 'root ::= "It rains."'}
    rows = lines(app, path, {**body, "options": options})
    assert rows[-1]["done"] is True
    text = "".join(row.get("response", row.get("message", {}).get("content")) for row in rows)
    assert "It rains.".startswith(text)
    assert text


def test_keep_alive() -> None:
    with pooled(chatting(), alias="parrot") as pool:
        from mtkit.serve.app import application as app_of

        app = app_of(pool)

        def models(*requests: Any) -> Any:
            *_, end, loaded = run(app, *requests, ("GET", "/api/ps", None))
            return end.json(), loaded.json()["models"]

        end, loaded = models(("POST", GENERATE, {"model": "parrot", "keep_alive": "10m"}))
        assert (end["done"], end["done_reason"], end["response"]) == (True, "load", "")
        left = datetime.fromisoformat(loaded[0]["expires_at"].replace("Z", "+00:00"))
        assert 590 < (left - datetime.now(timezone.utc)).total_seconds() < 601
        end, loaded = models(("POST", CHAT, {"messages": [], "keep_alive": -1, "stream": False}))
        assert end["message"]["content"] == ""
        assert loaded[0]["expires_at"] > "2100"
        end, _ = models(("POST", GENERATE, {"keep_alive": 0}), ("GET", "/health", None))
        assert end == {"status": "ok"}
