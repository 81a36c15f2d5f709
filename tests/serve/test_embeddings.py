"""Vectors of texts, scores of documents, and adapters whose scale changes while a server runs."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from adapters import linear_layers, write_adapter
from hf_models import cases, folder
from llm_models import tiny
from model_folders import write_folder
from serving_http import ASK, application, client, message, post, run
from support import reference

from mtkit.conversion.adapter import convert_adapter
from mtkit.conversion.model import convert_model
from mtkit.gguf import open_gguf

LOSSES = ("ids", "ids-possible")
"""Of the fixtures' tokenizer, which is no model's."""


@pytest.fixture(scope="module")
def said() -> list[str]:
    return []


@pytest.fixture(scope="module")
def made(said: list[str]) -> Iterator[Any]:
    with application(tiny("llama"), n_ctx=1024, on_note=said.append) as pair:
        yield pair


def vector(app: Any, given: Any, **fields: Any) -> Any:
    found = post(app, "/embedding", {"content": given, "embd_normalize": -1, **fields})
    assert found.status_code == 200, found.text
    return np.array(found.json()[0]["embedding"][0], np.float32)


def test_of_a_model_that_answers_the_mean_of_its_hidden_states(made: Any, said: list[str]) -> None:
    from mtkit.llama import Context
    from mtkit.settings import ContextSettings

    app, served = made
    text = "Hello world, this is a text"
    ids = served.model.tokenize(text)
    with Context(served.model, ContextSettings(n_ctx=64, embeddings=True)) as context:
        context.decode(ids, outputs="all")
        mean = np.mean([context.hidden(row) for row in range(len(ids))], axis=0)
    for given in (text, ids, [*ids[:3], *ids[3:]]):
        assert np.allclose(vector(app, given), mean, atol=1e-5)
    assert said.count("the model does not say how it embeds: the mean is taken") == 1


def test_in_the_shapes_of_both_apis(made: Any) -> None:
    app, served = made
    plain = vector(app, "Hello")
    unit = plain / np.linalg.norm(plain)
    body = {"input": ["Hello", served.model.tokenize("Bye")], "model": "any"}
    found = post(app, "/v1/embeddings", body).json()
    assert [one["index"] for one in found["data"]] == [0, 1]
    assert np.allclose(found["data"][0]["embedding"], unit, atol=1e-6)
    count = len(served.model.tokenize("Hello")) + len(served.model.tokenize("Bye"))
    assert found["usage"] == {"prompt_tokens": count, "total_tokens": count}
    packed = post(app, "/v1/embeddings", {**body, "encoding_format": "base64", "dimensions": 8})
    raw = base64.b64decode(packed.json()["data"][0]["embedding"])
    first = np.frombuffer(raw, "<f4")
    assert np.allclose(first, plain[:8] / np.linalg.norm(plain[:8]), atol=1e-6)
    for norm, size in ((1, np.abs(plain).sum()), (2, np.linalg.norm(plain)), (-1, 1.0),
                       (0, np.abs(plain).max() / 32760)):  # fmt: skip
        assert np.allclose(vector(app, "Hello", embd_normalize=norm), plain / size, rtol=1e-4)
    assert np.allclose(post(app, "/embeddings", {"input": "Hello"}).json()[0]["embedding"], unit)


@pytest.mark.parametrize("pooling", ["mean", "cls", "last"])
def test_a_long_text_is_computed_in_parts(pooling: str) -> None:
    ids = [5 + number % 200 for number in range(1500)]
    options = {"pooling": pooling, "n_ctx": 4096}
    with application(tiny("llama"), **options) as (app, served):
        found = vector(app, ids)
        assert served.vectors._pooler.open().n_batch == 512
        assert np.allclose(vector(app, ids[:9]), vector(app, ids[:9]))
    with application(tiny("llama"), n_ubatch=2048, **options) as (app, _):
        assert np.allclose(found, vector(app, ids), atol=1e-4)


def test_a_text_whose_tokens_see_all_is_computed_at_once(tmp_path: Any) -> None:
    reference("llama_cpp")
    base = write_folder(
        tmp_path / "bert", "BertModel", optional=(".bias", "pooler"),
        config={"max_position_embeddings": 1024},
    )  # fmt: skip
    convert_model(base, tmp_path / "bert.gguf", kind="f32", allow_loss=LOSSES)
    ids = [5 + number % 20 for number in range(700)]
    with application(tmp_path / "bert.gguf", n_ctx=256) as (app, _):
        short, found = vector(app, ids[:400]), vector(app, ids)
        assert np.allclose(vector(app, ids[:400]), short, atol=1e-5)
    with application(tmp_path / "bert.gguf", n_ctx=256, n_ubatch=1024) as (app, _):
        assert np.allclose(found, vector(app, ids), atol=1e-5)


def test_answers_and_vectors_do_not_disturb_each_other(made: Any) -> None:
    app, _ = made
    before = post(app, "/v1/completions", {"prompt": "Hello", "max_tokens": 8}).json()["choices"]
    first = vector(app, "Another text")
    assert np.array_equal(vector(app, "Another text"), first)
    after = post(app, "/v1/completions", {"prompt": "Hello", "max_tokens": 8}).json()["choices"]
    assert before == after


@pytest.mark.parametrize(("path", "body", "status", "named"), [
    ("/v1/embeddings", {"input": "word " * 30000}, 400, "too long: an embedding takes "),
    ("/v1/embeddings", {"input": []}, 400, "input"),
    ("/v1/embeddings", {"input": [10**8]}, 400, "100000000"),
    ("/v1/embeddings", {"input": "x", "dimensions": 9999}, 400, "dimensions: is 9999"),
    ("/v1/embeddings", {"input": "x", "encoding_format": "hex"}, 400, "encoding_format"),
    ("/embedding", {}, 400, "content: is missing"),
    ("/rerank", {"query": "x", "documents": ["y"]}, 501, "its pooling is mean"),
    ("/rerank", {"query": "x"}, 400, "documents: is empty"),
    ("/lora-adapters", [{"id": 0, "scale": 1}], 400, "no adapter 0: there are 0"),
    ("/lora-adapters", {"id": 0}, 400, "not a JSON list"),
    ("/lora-adapters", [{"scale": 1}], 400, "id: is missing"),
])  # fmt: skip
def test_what_cannot_be_had(made: Any, path: str, body: Any, status: int, named: str) -> None:
    answer = post(made[0], path, body)
    assert answer.status_code == status
    assert named in message(answer)


def test_of_a_model_that_only_embeds() -> None:
    reference("llama_cpp")
    golden = cases()["bert"]["transformers"]
    base = folder("bert")
    path = convert_model(base, base / "served.gguf", kind="f32", allow_loss=LOSSES, force=True).path
    from pathlib import Path

    with application(Path(path), n_ctx=256) as (app, _):
        found = vector(app, golden["ids"])
        for place, value in golden["top"]:
            assert found[place] == pytest.approx(value, abs=2e-4)
        for where in ("/v1/completions", "/v1/chat/completions"):
            body = ASK if "chat" in where else {"prompt": "x"}
            answer = post(app, where, body)
            assert answer.status_code == 400
            assert "makes vectors of texts" in message(answer)


def test_documents_are_ranked_by_the_head_of_a_model(tmp_path: Any) -> None:
    reference("llama_cpp")
    base = write_folder(
        tmp_path / "rank", "BertForSequenceClassification", optional=(".bias", "pooler"),
        config={"id2label": {"0": "score"}},
    )  # fmt: skip
    path = tmp_path / "rank.gguf"
    convert_model(base, path, kind="f32", allow_loss=LOSSES)
    file = open_gguf(path)

    def weight(name: str) -> Any:
        tensor = next(one for one in file.tensors if one.name == name)
        rows = np.frombuffer(file.tensor_data(tensor), "<f4")
        return rows.reshape(tensor.shape[::-1])

    with application(path, n_ctx=256) as (app, served), application(path, pooling="cls") as (by, _):
        texts = ["one two", "three", "four five six", "seven"]
        asked = {"query": "what", "documents": texts}
        found = post(app, "/rerank", asked).json()
        scores = {one["index"]: one["relevance_score"] for one in found["results"]}
        assert list(scores.values()) == sorted(scores.values(), reverse=True)
        begin, end, between = served.model.around
        for place, text in enumerate(texts):
            ids = [*begin, *served.model.tokenize("what", add_special=False), *end, *between,
                   *served.model.tokenize(text, add_special=False), *end]  # fmt: skip
            hidden = np.tanh(weight("cls.weight") @ vector(by, ids) + weight("cls.bias"))
            score = weight("cls.output.weight") @ hidden + weight("cls.output.bias")
            assert scores[place] == pytest.approx(float(score[0]), abs=1e-4)
        best = post(app, "/v1/rerank", {**asked, "top_n": 2}).json()["results"]
        assert best == found["results"][:2]
        tei = post(app, "/reranking", {"query": "what", "texts": texts, "return_text": True}).json()
        assert [one["text"] for one in tei] == [texts[one["index"]] for one in found["results"]]
        assert [one["score"] for one in tei] == [one["relevance_score"] for one in found["results"]]
        assert post(app, "/v1/embeddings", {"input": "x"}).status_code == 501


def test_adapters_are_scaled_while_the_server_runs(tmp_path: Any) -> None:
    reference("llama_cpp")
    base = write_folder(tmp_path / "base", optional=())
    model = tmp_path / "m.gguf"
    convert_model(base, model, kind="f32")
    layers = linear_layers(base, ("q_proj", "up_proj"))
    adapter = convert_adapter(write_adapter(tmp_path / "a", base, layers)).path
    asked = {"prompt": [5, 6, 7, 8], "n_predict": 1, "n_probs": 8, "id_slot": 0}

    def chances(app: Any) -> list[float]:
        found = post(app, "/completion", asked).json()["completion_probabilities"][0]
        return [one["logprob"] for one in found["top_logprobs"]]

    with application(model, n_ctx=256) as (app, _):
        plain = chances(app)
    with application(model, n_ctx=256, lora=[f"{adapter}:1"]) as (app, _):
        added = chances(app)
        assert not np.allclose(added, plain, atol=1e-3)
        for scale, wanted in ((0, plain), (1, added), (None, plain)):
            body = [{"id": 0, "scale": scale}] if scale is not None else []
            assert post(app, "/lora-adapters", body).json() == {"success": True}
            assert np.allclose(chances(app), wanted, atol=1e-5)
        (told,) = run(app, ("GET", "/lora-adapters", None))[0].json()
        assert (told["id"], told["scale"]) == (0, 0)


def test_each_request_has_adapters_of_its_own(tmp_path: Any) -> None:
    """Slots with other scales are in no batch together, and remember nothing of each other."""
    reference("llama_cpp")
    base = write_folder(tmp_path / "base", optional=())
    model = tmp_path / "m.gguf"
    convert_model(base, model, kind="f32")
    options = []
    for number in range(2):
        layers = linear_layers(base, ("q_proj", "up_proj")[number : number + 1])
        adapter = convert_adapter(write_adapter(tmp_path / f"a{number}", base, layers)).path
        options.append(f"{adapter}:0")
    text = {"prompt": [5, 6, 7, 8, 9], "n_predict": 12, "n_probs": 4, "ignore_eos": True}

    def chances(answer: Any) -> list[float]:
        assert answer.status_code == 200, answer.text
        rows = answer.json()["completion_probabilities"]
        return [one["logprob"] for row in rows for one in row["top_logprobs"]]

    asked: list[list[dict[str, float]]] = [
        [], [{"id": 0, "scale": 1}], [{"id": 1, "scale": 2}], [{"id": 0, "scale": 1}, {"id": 1}],
        [{"id": 0, "scale": 1}, {"id": 1, "scale": 1}],
    ]  # fmt: skip
    wanted = []
    for scales in asked:
        with application(model, n_ctx=512, lora=options) as (app, _):
            assert post(app, "/lora-adapters", scales).status_code == 200
            wanted.append(chances(post(app, "/completion", text)))
    assert not np.allclose(wanted[0], wanted[1], atol=1e-3)
    assert not np.allclose(wanted[1], wanted[4], atol=1e-3)
    for more in ({}, {"kv_unified": True}):
        with application(model, n_ctx=512, slots=5, lora=options, **more) as (app, served):

            async def together(app: Any = app) -> list[Any]:
                async with client(app) as http:
                    bodies = ({**text, "lora": scales} for scales in asked)
                    answers = (http.post("/completion", json=body) for body in bodies)
                    return list(await asyncio.gather(*answers))

            for _ in range(2):
                found = [chances(answer) for answer in asyncio.run(together())]
                assert np.abs(np.subtract(found, wanted)).max(axis=1).tolist() == pytest.approx(
                    [0] * len(asked), abs=1e-3
                )
            again = post(app, "/completion", {**text, "lora": asked[2]}).json()
            assert again["timings"]["cache_n"] == 4
            rounds = served.scheduler.rounds
            assert post(app, "/lora-adapters", []).status_code == 200  # nothing changes
            plain = post(app, "/completion", text).json()
            assert plain["timings"]["cache_n"] == 4
            assert served.scheduler.rounds <= rounds + 13
    chat = {**ASK, "lora": [{"id": 0, "scale": 1}]}
    with application(model, n_ctx=512, lora=options) as (app, _):
        for path, body in (
            ("/v1/completions", {"prompt": [5], "max_tokens": 2, "lora": chat["lora"]}),
            ("/v1/responses", {"input": "x", "max_output_tokens": 2, "lora": chat["lora"]}),
            ("/v1/messages", chat), ("/v1/chat/completions", chat),
        ):  # fmt: skip
            assert post(app, path, body).status_code == 200, path
            refused = post(app, path, {**body, "lora": [{"id": 2, "scale": 1}]})
            assert message(refused) == "lora: no adapter 2: there are 2"
