"""Several models in one server: chosen by name, loaded on demand, unloaded when idle."""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
from llm_models import chatting, tiny
from serving_http import ASK, client, post, run, server
from support import reference

reference("msgspec")

CHAT = "/v1/chat/completions"


@pytest.fixture
def notes() -> list[str]:
    return []


@pytest.fixture
def pool(notes: list[str], request: pytest.FixtureRequest) -> Any:
    from mtkit.serve.pool import ModelPool
    from mtkit.settings import ServeSettings
    from mtkit.settings.declaration import settings_of

    models = [f"{name}={chatting()}" for name in "abc"]
    more = getattr(request, "param", {})
    values = {"threads": 1, "trial": False, "n_ctx": 512, "slots": 1, "models": models, **more}
    with_models = ModelPool(settings_of(ServeSettings, values), on_note=notes.append)
    with_models.first.load(with_models, None)
    yield with_models
    with_models.close()


@pytest.fixture
def app(pool: Any) -> Any:
    from mtkit.serve.app import application

    return application(pool)


def asked(name: str, **more: Any) -> tuple[str, str, Any]:
    return "POST", CHAT, {**ASK, "model": name, "grammar": 'root ::= "Yes."', **more}


def change(pool: Any, **values: Any) -> None:
    pool.settings = pool.settings.__class__(**{**vars(pool.settings), **values})


def loaded(pool: Any) -> str:
    return "".join(model.name for model in pool.models if model.served is not None)


def test_a_request_chooses_its_model(app: Any, pool: Any) -> None:
    answers = [row.json() for row in run(app, *map(asked, ("b", "a", "b:latest", "gpt-4o", "")))]
    assert [answer["model"] for answer in answers] == ["b", "a", "b", "a", "a"]
    assert loaded(pool) == "ab"
    models, one, props = run(
        app, ("GET", "/v1/models", None), ("GET", "/v1/models/c", None),
        ("GET", "/props?model=b", None),
    )  # fmt: skip
    rows = models.json()["data"]
    assert [(row["id"], row["status"]["value"]) for row in rows] == [
        ("a", "loaded"), ("b", "loaded"), ("c", "unloaded"),
    ]  # fmt: skip
    assert [row["context_length"] for row in rows] == [512, 512, None]
    assert one.json()["meta"] == rows[0]["meta"]
    assert props.json()["model_alias"] == "b"
    names = [row["name"] for row in run(app, ("GET", "/api/tags", None))[0].json()["models"]]
    assert names == ["a", "b", "c"]
    assert [row["name"] for row in run(app, ("GET", "/api/ps", None))[0].json()["models"]] == [
        "a", "b",
    ]  # fmt: skip
    assert run(app, ("POST", "/api/show", {"model": "d"}))[0].json() == {
        "error": "model 'd' not found"
    }


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/completions", {"prompt": "Hi", "max_tokens": 1}),
        ("/v1/messages", {"messages": ASK["messages"], "max_tokens": 1}),
        ("/v1/responses", {"input": "Hi", "max_output_tokens": 1}),
        ("/v1/embeddings", {"input": "Hi"}),
        ("/tokenize", {"content": "Hi"}),
        ("/completion", {"prompt": "Hi", "n_predict": 1}),
        ("/api/generate", {"prompt": "Hi", "options": {"num_predict": 1}}),
        ("/api/embed", {"input": "Hi"}),
        ("/lora-adapters?model=c", []),
    ],
)
def test_every_route_chooses(app: Any, pool: Any, path: str, body: Any) -> None:
    response = post(app, path, {**body, "model": "c"} if body else body)
    assert response.status_code == 200, response.text
    assert loaded(pool) == "ac"


@pytest.mark.parametrize("pool", [{"models_max": 1}], indirect=True)
def test_the_one_used_least_recently_goes(app: Any, pool: Any, notes: list[str]) -> None:
    for name in "abacb":
        assert run(app, asked(name))[0].json()["model"] == name
        assert loaded(pool) == name
    assert sum("unloaded" in note for note in notes) == 4
    text = run(app, ("GET", "/metrics", None))[0].text
    assert float(re.search(r"^mtkit_answers_total{.*} (.*)", text, re.MULTILINE)[1]) == 5  # type: ignore[index]
    assert float(re.search(r"^mtkit_batches_total (.*)", text, re.MULTILINE)[1]) >= 5  # type: ignore[index]
    assert re.search(r"^mtkit_slots 1", text, re.MULTILINE)


def test_a_model_that_does_not_fit_takes_the_place_of_another(
    app: Any, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(app, asked("b"), asked("a"))
    monkeypatch.setattr(type(pool), "_room", lambda *_: 1 << 20)
    assert run(app, asked("c"))[0].json()["model"] == "c"
    assert loaded(pool) == "c"  # neither left as much


def test_requests_end_before_their_model_goes(pool: Any, app: Any) -> None:
    change(pool, models_max=1)
    long = {"max_tokens": 300, "grammar": 'root ::= "a"{300}'}

    async def both() -> list[Any]:
        async with client(app) as http:
            first = asyncio.create_task(http.post(CHAT, json=asked("a", **long)[2]))
            while not pool.first.users:
                await asyncio.sleep(0.001)
            other = asyncio.create_task(http.post(CHAT, json=asked("b")[2]))
            await asyncio.sleep(0.01)
            third = asyncio.create_task(http.post(CHAT, json=asked("a")[2]))
            return [row.json() for row in await asyncio.gather(first, other, third)]

    answers = asyncio.run(both())
    assert [answer["model"] for answer in answers] == ["a", "b", "a"]
    assert answers[0]["choices"][0]["message"]["content"].count("a") > 100
    assert loaded(pool) == "a"
    assert not any(model.users for model in pool.models)


def test_many_requests_at_once(pool: Any, app: Any) -> None:
    change(pool, models_max=2)

    async def all_of_them() -> list[str]:
        async with client(app) as http:
            rows = [http.post(CHAT, json=asked(name)[2]) for name in "abcabcccba"]
            return [row.json()["model"] for row in await asyncio.gather(*rows)]

    assert asyncio.run(all_of_them()) == list("abcabcccba")
    assert not any(model.users for model in pool.models)


@pytest.mark.parametrize("pool", [{"sleep_idle_seconds": 0}], indirect=True)
def test_an_idle_model_sleeps(app: Any, pool: Any, notes: list[str]) -> None:
    async def work() -> list[Any]:
        async with client(app) as http:
            assert (await http.post(CHAT, json=asked("a")[2])).status_code == 200
            while loaded(pool):
                await asyncio.sleep(0.01)
            paths = "/props /slots /health /metrics /v1/models /api/ps /api/tags"
            rows = [await http.get(path) for path in paths.split()]
            assert not loaded(pool)
            return [*rows, await http.post(CHAT, json=asked("a")[2])]

    props, slots, health, *_, again = asyncio.run(work())
    assert props.json()["is_sleeping"] is True
    assert props.json()["total_slots"] == 1
    assert slots.json() == []
    assert health.json() == {"status": "ok"}
    assert again.json()["choices"][0]["message"]["content"] == "Yes."
    assert any("unloaded" in note for note in notes)


@pytest.mark.parametrize(
    ("path", "body", "alive"),
    [
        (CHAT, {"stream": True}, ":\n\n"),
        ("/v1/messages", {"stream": True}, 'event: ping\ndata: {"type":"ping"}\n\n'),
        ("/api/chat", {}, " "),
    ],
)
def test_a_stream_gets_bytes_while_its_model_loads(
    app: Any, pool: Any, monkeypatch: pytest.MonkeyPatch, path: str, body: Any, alive: str
) -> None:
    from mtkit.serve.pool import PooledModel

    load = PooledModel.load

    def slow(*arguments: Any) -> None:
        time.sleep(0.3)
        load(*arguments)

    monkeypatch.setattr(PooledModel, "load", slow)
    change(pool, keepalive=0.05)
    asked_for = {**ASK, "model": "b", "grammar": 'root ::= "Yes."', **body}
    response = post(app, path, asked_for)
    assert response.status_code == 200
    kind = "application/x-ndjson" if path.startswith("/api") else "text/event-stream"
    assert response.headers["content-type"] == kind
    assert response.text.startswith(3 * alive)
    assert all(text in response.text for text in ("Y", "es", "."))
    assert "error" not in response.text
    whole = post(app, path, {**asked_for, "model": "c", "stream": False})
    assert whole.json()
    assert whole.headers["content-type"] == "application/json"


@pytest.mark.parametrize("path", [CHAT, "/v1/messages", "/api/chat"])
def test_a_model_that_cannot_be_loaded(
    app: Any, pool: Any, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    from mtkit.errors import ResourceError
    from mtkit.serve.pool import PooledModel

    load = PooledModel.load

    def fails(model: Any, *arguments: Any) -> None:
        if model.name != "b":
            load(model, *arguments)
            return
        time.sleep(0.2)
        raise ResourceError("needs 9 GB", source="/a/path", hint="use less")

    monkeypatch.setattr(PooledModel, "load", fails)
    change(pool, keepalive=0.05)
    what = "b cannot be loaded: needs 9 GB; use less"
    for streams in (False, True):
        response = post(app, path, {**ASK, "model": "b", "stream": streams})
        assert response.status_code == (200 if streams else 503)
        text = response.text.strip().rpartition("data: ")[2]
        error = json.loads(text)["error"]
        assert (error if isinstance(error, str) else error["message"]) == what
    assert run(app, asked("a"))[0].json()["model"] == "a"


def test_a_client_that_leaves_while_a_model_loads(
    app: Any, pool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from mtkit.serve.pool import PooledModel

    load = PooledModel.load

    def slow(*arguments: Any) -> None:
        time.sleep(0.2)
        load(*arguments)

    monkeypatch.setattr(PooledModel, "load", slow)

    async def work() -> Any:
        async with client(app) as http:
            gone = asyncio.create_task(http.post(CHAT, json=asked("b")[2]))
            await asyncio.sleep(0.1)
            gone.cancel()
            return await http.post(CHAT, json=asked("c")[2])

    assert asyncio.run(work()).json()["model"] == "c"
    assert not any(model.users for model in pool.models)


@pytest.mark.parametrize(
    ("values", "what"),
    [
        ({"models": ["a={m}", "a={m}"]}, "two models have the name a"),
        ({"models": ["{m}", "{m}"]}, "two models have the name chat.gguf"),
        ({"models": ["a={m}", "b={m}"], "alias": "x"}, "is for one model"),
        ({"models": ["a={m}", "b={m}"], "lora": ["x"]}, "is for one model"),
        ({"models": ["a={m}", "b=/none.gguf"]}, "none.gguf"),
    ],
)
def test_what_the_models_of_a_server_cannot_be(values: Any, what: str) -> None:
    from mtkit.errors import MtkitError
    from mtkit.serve.pool import ModelPool
    from mtkit.settings import ServeSettings
    from mtkit.settings.declaration import settings_of

    models = [text.replace("{m}", str(chatting())) for text in values["models"]]
    with pytest.raises(MtkitError, match=re.escape(what)):
        ModelPool(settings_of(ServeSettings, {**values, "models": models}))


def test_names_of_models(tmp_path: Path) -> None:
    from mtkit.serve.load import split_model

    odd = tmp_path / "a=b.gguf"
    odd.touch()
    assert split_model("x=file.gguf") == ("x", "file.gguf")
    assert split_model("file.gguf") == (None, "file.gguf")
    assert split_model(str(odd)) == (None, str(odd))
    assert split_model(f"x={odd}") == ("x", str(odd))
    assert split_model("some/folder=1/file.gguf") == (None, "some/folder=1/file.gguf")


def _status(pid: int, name: str) -> int:
    text = Path(f"/proc/{pid}/status").read_text(encoding="utf-8")
    match = re.search(rf"^{name}:\s+(\d+)", text, re.MULTILINE)
    assert match
    return int(match[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs /proc")
def test_memory_comes_back() -> None:
    import urllib.request

    large = tiny("llama", n_embd=512, n_ff=2048, n_layer=8)
    options = ("--model", f"b={large}", "--models-max", 1, "-c", 2048, "-np", 1, "--no-mmap")
    with server(f"a={chatting()}", *options) as started:  # type: ignore[arg-type]
        parent = started.process.pid  # which watches; its child computes
        pid = int(Path(f"/proc/{parent}/task/{parent}/children").read_text().split()[0])

        def memory_with(name: str) -> int:
            body = json.dumps(asked(name, max_tokens=1)[2]).encode()
            head = {"content-type": "application/json"}
            request = urllib.request.Request(f"{started.url}{CHAT}", body, head)
            with urllib.request.urlopen(request, timeout=60) as response:
                assert json.load(response)["model"] == name
            return _status(pid, "RssAnon")

        sizes = [(memory_with("b"), memory_with("a")) for _ in range(10)]
        weights = os.stat(large).st_size >> 10
        assert all(with_b - with_a > 0.8 * weights for with_b, with_a in sizes)
        assert sizes[-1][1] - sizes[4][1] < 0.1 * weights  # another ten loads
        assert len(os.listdir(f"/proc/{pid}/fd")) < 40
        assert _status(pid, "Threads") < 40
