"""llama-server's own routes: what its clients send, and the shape of what they get."""

from __future__ import annotations

import asyncio
import json
import math
import subprocess
import sys
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from llm_models import tiny
from serving_http import ASK, application, client, message, post, run

from mtkit.sources.locate import MODEL, shipped

TEXTS = ("/completion", "/v1/completions")
TEXT = {"prompt": "Hello world, this", "n_predict": 6}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    given = {
        "n_ctx": 1024, "n_batch": 32, "alias": "tiny,docs", "tags": "a", "seed": 5,
        "slot_save_path": str(tmp_path_factory.mktemp("slots")),
    }  # fmt: skip
    with application(Path(shipped(MODEL)), **given) as pair:
        yield pair


@pytest.fixture(scope="module")
def app(made: Any) -> Any:
    return made[0]


def events(app: Any, path: str, body: Any) -> list[Any]:
    answer = post(app, path, {**body, "stream": True})
    assert answer.status_code == 200, answer.text
    lines = [line[6:] for line in answer.text.splitlines() if line.startswith("data: ")]
    assert lines.pop() == "[DONE]"
    return [json.loads(line) for line in lines]


def test_a_completion_has_what_clients_read(made: Any) -> None:
    app, served = made
    found = post(app, "/completion", {**TEXT, "return_tokens": True, "cache_prompt": False}).json()
    prompt = served.model.tokenize(TEXT["prompt"], add_special=True)
    assert (found["tokens_predicted"], len(found["tokens"])) == (6, 6)
    assert found["tokens_evaluated"] == found["timings"]["prompt_n"] == len(prompt)
    assert (found["stop"], found["stop_type"], found["stopping_word"]) == (True, "limit", "")
    assert (found["truncated"], found["model"]) == (False, "docs")
    assert found["prompt"].endswith(TEXT["prompt"])
    assert found["generation_settings"]["n_predict"] == 6
    assert found["generation_settings"]["seed"] == 5
    raw = b"".join(served.model.piece(token_id) for token_id in found["tokens"])
    assert raw.decode("utf-8", "replace") == found["content"]
    parts = events(app, "/completion", TEXT)
    assert "".join(part["content"] for part in parts) == found["content"]
    assert [part["stop"] for part in parts] == [False] * 6 + [True]
    assert [token_id for part in parts for token_id in part["tokens"]] == found["tokens"]
    assert parts[-1]["timings"]["cache_n"] > 0


def test_it_is_what_openais_route_says(app: Any) -> None:
    text = post(app, "/completion", TEXT).json()["content"]
    other = {"prompt": TEXT["prompt"], "max_tokens": 6}
    assert post(app, "/v1/completions", other).json()["choices"][0]["text"] == text


def test_prompts_of_every_form(made: Any) -> None:
    app, served = made
    text = TEXT["prompt"]
    ids = served.model.tokenize(text, add_special=True)
    alone = post(app, "/completion", TEXT).json()["content"]
    forms = [text, ids, {"prompt_string": text}]
    for form in forms:
        found = post(app, "/completion", {**TEXT, "prompt": form}).json()
        assert found["content"] == alone
    several = post(app, "/completion", {**TEXT, "prompt": forms}).json()
    assert [one["content"] for one in several] == [alone] * 3
    assert [one["index"] for one in several] == [0, 1, 2]
    mixed = post(app, "/completion", {**TEXT, "prompt": [*ids, " again", 5]}).json()
    plain = served.model.tokenize(" again", add_special=False)
    assert mixed["tokens_evaluated"] == len(ids) + len(plain) + 1
    twice = post(app, "/completion", {**TEXT, "n_cmpl": 2}).json()
    assert [one["content"] for one in twice] == [alone] * 2


@pytest.mark.parametrize("limit", [0, 1, 5])
def test_limits(app: Any, limit: int) -> None:
    for path in (*TEXTS, "/v1/chat/completions"):
        for name in ("n_predict", "max_tokens", "max_completion_tokens"):
            body = {**({"prompt": "Hello"} if path in TEXTS else ASK), name: limit}
            found = post(app, path, body).json()
            count = found["usage"]["completion_tokens"] if "usage" in found else 0
            assert (count or found.get("tokens_predicted", 0)) == limit
            assert found.get("stop_type") or found["choices"][0]["finish_reason"] == "length"


def test_no_limit_is_what_fits(app: Any) -> None:
    found = post(app, "/completion", {**TEXT, "n_predict": -1, "ignore_eos": True}).json()
    assert found["truncated"]
    assert found["tokens_evaluated"] + found["tokens_predicted"] == 256
    assert found["generation_settings"]["logit_bias"][0]["bias"] is None


def test_fields_that_are_asked_for(app: Any) -> None:
    fields = ["content", "timings/prompt_n", "generation_settings/seed", "no/such"]
    found = post(app, "/completion", {**TEXT, "response_fields": fields}).json()
    assert list(found) == fields[:3]
    assert found["generation_settings/seed"] == 5


def test_probabilities(app: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    before = post(app, "/completion", {**TEXT, "n_probs": 4}).json()["completion_probabilities"]
    assert len(before) == 6
    for one in before:
        assert len(one["top_logprobs"]) == 4
        assert one["logprob"] == max(other["logprob"] for other in one["top_logprobs"]) <= 0
        assert bytes(one["bytes"]).decode("utf-8", "replace") == one["token"]
    drawn = {**TEXT, "n_probs": 9, "post_sampling_probs": True, "temperature": 2.0, "top_k": 3,
             "top_p": 1.0, "min_p": 0.0}  # fmt: skip
    for one in post(app, "/completion", drawn).json()["completion_probabilities"]:
        chances = [other["prob"] for other in one["top_probs"]]
        assert len(chances) == 3
        assert math.isclose(sum(chances), 1, rel_tol=1e-4)
        assert one["prob"] in chances
    parts = events(app, "/completion", {**TEXT, "n_probs": 2})
    assert all(len(part["completion_probabilities"]) == 1 for part in parts[:-1])

    from mtkit.serve import answer
    from mtkit.serve.llama import LlamaReply

    threads, whole, own = [], LlamaReply.whole, threading.get_ident()

    def record(self: Any) -> Any:
        threads.append(threading.get_ident() == own)
        return whole(self)

    monkeypatch.setattr(LlamaReply, "whole", record)
    for most in (30, 29):  # six tokens of five rows; more are put together in another thread
        monkeypatch.setattr(answer, "_MOST_ROWS", most)
        again = post(app, "/completion", {**TEXT, "n_probs": 4}).json()
        assert again["completion_probabilities"] == before
    assert threads == [True, False]


@pytest.mark.parametrize("form", ["pairs", "object", "texts", "false"])
def test_biases_of_every_form(made: Any, form: str) -> None:
    app, served = made
    first = post(app, "/completion", {**TEXT, "n_predict": 1, "return_tokens": True}).json()
    (token_id,) = first["tokens"]
    text = served.model.piece(token_id).decode()
    bias = {
        "pairs": [[token_id, -100]], "object": {str(token_id): -100}, "texts": [[text, -100]],
        "false": [[token_id, False]],
    }[form]  # fmt: skip
    asked = {**TEXT, "n_predict": 1, "return_tokens": True, "logit_bias": bias}
    assert post(app, "/completion", asked).json()["tokens"] != [token_id]


def test_what_ends_an_answer(app: Any) -> None:
    whole = post(app, "/completion", {**TEXT, "n_predict": 12}).json()["content"]
    stop = whole[3:5]
    found = post(app, "/completion", {**TEXT, "n_predict": 12, "stop": ["never said", stop]}).json()
    assert (found["stop_type"], found["stopping_word"]) == ("word", stop)
    assert found["content"] == whole[: whole.index(stop)]
    grammar = post(app, "/completion", {**TEXT, "grammar": 'root ::= "ab"'}).json()
    assert (grammar["content"], grammar["stop_type"]) == ("ab", "eos")


@pytest.mark.parametrize("path", ["/completion", "/v1/completions", "/v1/chat/completions"])
def test_progress_and_times_token_by_token(app: Any, path: str) -> None:
    long = "word " * 50
    said = {"prompt": long} if path in TEXTS else {"messages": [{"role": "user", "content": long}]}
    body = {**said, "max_tokens": 3, "return_progress": True, "timings_per_token": True,
            "cache_prompt": False}  # fmt: skip
    told = events(app, path, body)
    progress = [one for one in told if "prompt_progress" in one]
    counts = [one["prompt_progress"]["processed"] for one in progress]
    assert counts[0] == progress[0]["prompt_progress"]["cache"] == 0
    assert counts[-1] == progress[0]["prompt_progress"]["total"]
    assert counts == sorted(set(counts))
    assert len(counts) > 2
    assert progress[0]["timings"]["prompt_ms"] == progress[0]["timings"]["predicted_n"] == 0
    timed = [one["timings"] for one in told if "timings" in one]
    assert all(value >= 0 for one in timed for value in one.values())
    predicted = [one["predicted_n"] for one in timed]
    assert predicted == sorted(predicted)
    assert predicted[-1] == 3


def test_slots_can_be_named_saved_restored_and_erased(app: Any) -> None:
    asked = {"prompt": "A text that is remembered", "n_predict": 4, "id_slot": 1}

    def cached(slot: int) -> int:
        found = post(app, "/completion", {**asked, "id_slot": slot, "n_predict": 1}).json()
        assert found["id_slot"] == slot
        count: int = found["timings"]["cache_n"]
        return count

    post(app, "/completion", {**asked, "cache_prompt": False})
    saved = post(app, "/slots/1?action=save", {"filename": "a.slot"}).json()
    assert saved["n_saved"] > 4
    assert saved["timings"]["save_ms"] > 0
    assert post(app, "/slots/1?action=erase", None).json()["n_erased"] == saved["n_saved"]
    assert cached(1) == 0
    restored = post(app, "/v1/slots/2?action=restore", {"filename": "a.slot"}).json()
    assert restored["n_restored"] == saved["n_saved"]
    assert restored["n_read"] == saved["n_written"]
    assert cached(2) > 3
    for path, body, status in (
        ("/slots/9?action=erase", None, 400), ("/slots/x?action=erase", None, 404),
        ("/slots/1?action=burn", None, 400), ("/slots/1?action=save", {}, 400),
        ("/slots/1?action=save", {"filename": "../x"}, 400),
        ("/slots/1?action=save", {"filename": ".x"}, 400),
        ("/slots/1?action=restore", {"filename": "none"}, 400),
    ):  # fmt: skip
        assert post(app, path, body).status_code == status


def test_what_the_server_tells_of_itself(made: Any) -> None:
    app, served = made
    props, models, slots = (
        one.json()
        for one in run(app, *(("GET", path, None) for path in ("/props", "/models", "/slots")))
    )
    assert props["total_slots"] == 4
    assert props["default_generation_settings"]["n_ctx"] == 256
    assert props["default_generation_settings"]["params"]["seed"] == 5
    assert props["model_path"] == served.file_name
    assert props["chat_template"] == served.template
    assert props["eos_token"]
    card = models["data"][0]
    assert (card["id"], card["aliases"], card["tags"]) == ("docs", ["docs", "tiny"], ["a"])
    assert [one["is_processing"] for one in slots] == [False] * 4
    assert slots[0]["next_token"][0]["n_remain"] == -1
    for name in ("docs", "tiny"):
        assert run(app, ("GET", f"/v1/models/{name}", None))[0].status_code == 200


def test_metrics_by_llama_servers_names(app: Any) -> None:
    (text,) = (one.text for one in run(app, ("GET", "/metrics", None)))
    rows = dict(
        line.split(" ", 1) for line in text.splitlines() if line.startswith("llamacpp:")
    )  # fmt: skip
    assert float(rows["llamacpp:n_decode_total"]) > 0
    assert float(rows["llamacpp:requests_processing"]) == 0
    for name in rows:
        assert f"# HELP {name} " in text
        assert f"# TYPE {name} " in text


BODIES: dict[str, Any] = {
    "/completion": {"prompt": "x"}, "/completions": {"prompt": "x"},
    "/v1/completions": {"prompt": "x"}, "/tokenize": {"content": "x"},
    "/detokenize": {"tokens": [5]}, "/apply-template": ASK, "/chat/completions": ASK,
    "/chat/completions/input_tokens": ASK, "/messages": ASK, "/messages/count_tokens": ASK,
}  # fmt: skip


@pytest.mark.parametrize("path", BODIES)
def test_paths_with_and_without_v1_and_with_a_slash(app: Any, path: str) -> None:
    body = BODIES[path]
    other = path.removeprefix("/v1") if path.startswith("/v1") else f"/v1{path}"
    for spelled in (path, other, f"{path}/", f"{other}/"):
        assert post(app, spelled, body).status_code == 200, spelled
    refused = post(app, path, dict.fromkeys(body, 0.5))
    assert refused.status_code == 400
    assert ("type" in refused.json()) == path.startswith("/messages")


def test_a_path_that_is_not_there_is_said_in_a_line(app: Any) -> None:
    for path in ("/v1/nothing", "/x%1b[31m", "/x" * 900):
        answer = run(app, ("GET", path, None))[0]
        assert answer.status_code == 404
        assert "/openapi.json" in message(answer)
        assert message(answer).isprintable()
        assert len(message(answer)) < 200


def test_a_model_answers_to_every_name_in_the_shape_of_both_apis(app: Any) -> None:
    paths = ("/v1/models", "/v1/models/gpt-4o", "/models/a/b")
    for answer in run(app, *(("GET", path, None) for path in paths)):
        body = answer.json()
        assert body["object"] in ("list", "model")
        assert body.get("data", [body])[0]["id"] == "docs"
    headers = {"anthropic-version": "2023-06-01"}
    listed, one = run(app, *(("GET", path, None) for path in paths[:2]), headers=headers)
    assert listed.json() == {
        "data": [one.json()], "first_id": "docs", "last_id": "docs", "has_more": False
    }  # fmt: skip
    assert one.json() == {**one.json(), "type": "model", "id": "docs", "display_name": "docs"}
    assert datetime.fromisoformat(one.json()["created_at"].replace("Z", "+00:00"))


def test_what_is_switched_off_is_said() -> None:
    given = {"show_slots": False, "metrics": False, "webui": False}
    with application(tiny("llama"), **given) as (app, _):
        answers = run(app, *(("GET", path, None) for path in ("/slots", "/metrics", "/", "/props")))
        assert [one.status_code for one in answers] == [501, 501, 200, 200]
        assert answers[2].headers["content-type"].startswith("text/plain")  # no page
        assert answers[2].text == "mtkit is running"
        assert post(app, "/slots/0?action=save", {"filename": "x"}).status_code == 501
        for path in ("/infill", "/v1/completions"):
            body = {"prompt": "x", "suffix": "y", "input_prefix": "a", "input_suffix": "b"}
            assert post(app, path, body).status_code == 501


def test_what_was_asked_is_told_where_it_is_wanted(app: Any) -> None:
    for path in ("/v1/completions", "/v1/chat/completions"):
        body = {**({"prompt": "Hello", "max_tokens": 4} if path in TEXTS else ASK), "verbose": True}
        found = post(app, path, body).json()
        assert "Hello" in found["__verbose"]["prompt"]
        assert found["__verbose"]["content"] == (
            found["choices"][0].get("text") or found["choices"][0]["message"]["content"]
        )
        last = events(app, path, body)[-1]
        assert last["__verbose"]["content"] == found["__verbose"]["content"]
        assert "__verbose" not in post(app, path, {**body, "verbose": False}).json()


CONTEXT_OF_LITELLM = "this model's maximum context length is 256 tokens"
"""Its rule for OpenAI-compatible servers: without these words, aider gives a full context up."""


def test_a_prompt_that_is_too_long(app: Any) -> None:
    for path in ("/completion", "/v1/completions"):
        for stream in (False, True):
            error = post(app, path, {"prompt": [5] * 300, "stream": stream}).json()["error"]
            assert error["type"] == "exceed_context_size_error"
            assert (error["n_prompt_tokens"], error["n_ctx"]) == (300, 256)
            for words in ("tokens exceeds the available context size", CONTEXT_OF_LITELLM):
                assert words in error["message"]


def test_prompts_are_echoed(app: Any) -> None:
    body = {"prompt": ["Hello", "Bye"], "max_tokens": 3, "n": 2}
    plain = [one["text"] for one in post(app, "/v1/completions", body).json()["choices"]]
    found = post(app, "/v1/completions", {**body, "echo": True}).json()["choices"]
    said = ["Hello", "Hello", "Bye", "Bye"]
    assert [one["text"] for one in found] == [a + b for a, b in zip(said, plain, strict=True)]
    texts = [""] * 4
    for event in events(app, "/v1/completions", {**body, "echo": True}):
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
    assert texts == [one["text"] for one in found]


@pytest.fixture(scope="module")
def filling(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    """A tiny model whose vocabulary has tokens for gaps."""
    path = tmp_path_factory.mktemp("fim") / "fim.gguf"
    marks = {"pre": 300, "suf": 301, "mid": 302, "rep": 303, "sep": 304}
    sets = [
        part for name, number in marks.items()
        for part in ("--set", f"tokenizer.ggml.fim_{name}_token_id=u32:{number}")
    ]  # fmt: skip
    argv = [sys.executable, "-m", "mtkit", "edit", str(tiny("llama")), "-o", str(path), *sets]
    subprocess.run(argv, check=True, capture_output=True)
    with application(path, n_ctx=4096, slots=1, n_batch=64) as (app, served):
        assert served.model.fim == {**marks, **{k: v for k, v in served.model.fim.items()
                                                if k == "pad"}}  # fmt: skip
        yield app, served, marks


def test_gaps_are_filled(filling: Any) -> None:
    app, served, marks = filling

    def plain(text: str) -> list[int]:
        found: list[int] = served.model.tokenize(text, add_special=False, parse_special=False)
        return found

    def prompt(path: str, **fields: Any) -> list[int]:
        body = {"n_predict": 2, "verbose": True, **fields}
        found = post(app, path, body)
        assert found.status_code == 200, found.text
        return list(served.scheduler.slots[0].ids[: found.json().get("tokens_evaluated")])

    bos = [served.model.bos] if served.model.add_bos else []
    gap = [*bos, marks["pre"], *plain("before"), marks["suf"], *plain("behind"), marks["mid"]]
    head = [marks["rep"], *plain("myproject\n")]
    last = [marks["sep"], *plain("filename\n")]
    asked = {"input_prefix": "before", "input_suffix": "behind"}
    assert prompt("/infill", **asked) == head + last + gap
    extra = [{"text": "other", "filename": "o.py"}, {"text": "third"}]
    files = [marks["sep"], *plain("o.py\n"), *plain("other"), marks["sep"], *plain("tmp\n"),
             *plain("third")]  # fmt: skip
    assert prompt("/infill", **asked, input_extra=extra) == head + files + last + gap
    begun = [*bos, marks["pre"], *plain("before"), *plain("it"), *gap[gap.index(marks["suf"]) :]]
    assert prompt("/infill", **asked, prompt="it") == head + last + begun
    found = post(app, "/v1/completions", {"prompt": "before", "suffix": "behind", "max_tokens": 2})
    assert found.json()["usage"]["prompt_tokens"] == len(head + last + gap)
    assert post(app, "/v1/completions", {"prompt": [5], "suffix": "x"}).status_code == 400
    assert post(app, "/infill", {"input_prefix": "x"}).status_code == 400


def test_long_texts_around_a_gap_are_cut(filling: Any) -> None:
    app, _, _ = filling
    asked = {"input_prefix": "a " * 9000, "input_suffix": "b " * 9000, "n_predict": 64,
             "input_extra": [{"text": "c " * 9000}]}  # fmt: skip
    found = post(app, "/infill", asked).json()
    assert found["tokens_evaluated"] == 4096 - 64
    assert found["tokens_predicted"] == 64 or found["stop_type"] == "eos"


def test_a_request_for_one_slot_waits_for_it(made: Any) -> None:
    app, _ = made

    async def both() -> list[int]:
        async with client(app) as http:
            body = {"prompt": "Hello", "n_predict": 20, "id_slot": 3}
            answers = await asyncio.gather(*(http.post("/completion", json=body) for _ in "ab"))
            return [one.json()["id_slot"] for one in answers]

    assert asyncio.run(both()) == [3, 3]


@pytest.mark.parametrize(("text", "indent", "kept"), [
    ("a\n    b\n  c\n", 4, "a\n    b\n  "), ("a\n    b\n    c", 4, None), ("a\nb", 1, "a\n"),
    ("  a\n\n    \n    b\nc", 4, "  a\n\n    \n    b\n"), ("\tx\n\ty\nz", 1, "\tx\n\ty\n"),
    ("no line", 4, None), ("a\nb", 0, None),
])  # fmt: skip
@pytest.mark.parametrize("size", [1, 3, 100])
def test_a_line_that_is_indented_less_ends_an_answer(
    text: str, indent: int, kept: str | None, size: int
) -> None:
    from mtkit.serve.slot import Lines

    lines, found, is_over = Lines(None, indent), "", False
    for at in range(0, len(text), size):
        part, is_over = lines.push(text[at : at + size], 0.0)
        found += part
        if is_over:
            break
    assert (found, is_over) == (text if kept is None else kept, kept is not None)


def test_a_time_ends_an_answer_that_has_a_line(app: Any) -> None:
    from mtkit.serve.slot import Lines

    lines = Lines(0.5, 0)
    assert [lines.push(text, at)[1] for text, at in (("a", 9), ("b\n", 0.4), ("c", 0.6))] == [
        False, False, True,
    ]  # fmt: skip
    body = {**TEXT, "n_predict": 200, "ignore_eos": True, "t_max_predict_ms": 0.001,
            "grammar": 'root ::= ("ab" "\\n")+'}  # fmt: skip
    found = post(app, "/completion", body).json()
    assert (found["stop_type"], found["has_new_line"]) == ("limit", True)
    assert found["tokens_predicted"] < 20
