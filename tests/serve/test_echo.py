"""``echo`` with ``logprobs``: how probable a prompt's own tokens are, which evaluations ask for.

The reference is a forward pass of llama.cpp over the whole prompt, without a server.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from llm_models import tiny
from serving_http import application, post

PROMPTS = [[5, 300, 17, 9, 300, 42], [7], [300 + number % 150 for number in range(200)]]
PATH = "/v1/completions"


@pytest.fixture(scope="module", params=[{}, {"kv_unified": True}, {"draft_lookup": True}])
def made(request: pytest.FixtureRequest) -> Iterator[Any]:
    with application(tiny("llama"), n_ctx=2048, slots=4, **request.param) as pair:
        yield pair


def reference_chances(model: Any, ids: list[int]) -> Any:
    """Return the logarithms of the probabilities behind each token: shape (n, n_vocab)."""
    from mtkit.llama import Context
    from mtkit.settings import ContextSettings

    with Context(model, ContextSettings(n_ctx=512, threads=1)) as context:
        context.decode(ids, outputs="all")
        rows = np.array([context.logits(row) for row in range(len(ids))], np.float64)
    top = rows.max(axis=1, keepdims=True)
    return rows - top - np.log(np.exp(rows - top).sum(axis=1, keepdims=True))


def check(served: Any, ids: list[int], choice: Any, top: int, generated: int) -> None:
    wanted = reference_chances(served.model, ids)
    columns = choice["logprobs"]
    chances, tops = columns["token_logprobs"], columns["top_logprobs"]
    assert len(columns["tokens"]) == len(chances) == len(tops) == len(ids) + generated
    assert "".join(columns["tokens"]) == choice["text"]
    sizes = list(map(len, columns["tokens"]))
    assert columns["text_offset"] == [sum(sizes[:place]) for place in range(len(sizes))]
    assert (chances[0], tops[0]) == (None, None)
    assert columns["tokens"][: len(ids)] == [served.spell([token]) for token in ids]
    for place, token in enumerate(ids[1:]):
        row = wanted[place]
        assert chances[place + 1] == pytest.approx(row[token], abs=2e-2)
        assert len(tops[place + 1]) <= max(top, 1)
        if top:
            best, chance = max(tops[place + 1].items(), key=lambda pair: pair[1])
            assert chance == pytest.approx(row.max(), abs=2e-2)
            is_greedy = row[token] > np.partition(row, -2)[-2] + 4e-2
            assert not is_greedy or best == columns["tokens"][place + 1]


@pytest.mark.parametrize("top", [0, 1, 5])
@pytest.mark.parametrize("limit", [0, 1, 3])
def test_of_several_prompts(made: Any, limit: int, top: int) -> None:
    app, served = made
    body = {"prompt": PROMPTS, "echo": True, "logprobs": top, "max_tokens": limit}
    for _ in range(2):  # also where a slot remembers the prompt
        found = post(app, PATH, {**body, "ignore_eos": True}).json()
        assert [choice["index"] for choice in found["choices"]] == [0, 1, 2]
        for ids, choice in zip(PROMPTS, found["choices"], strict=True):
            check(served, ids, choice, top, limit)
            assert choice["finish_reason"] == "length"
        assert found["usage"]["completion_tokens"] == limit * len(PROMPTS)


def test_of_texts_and_of_several_answers(made: Any) -> None:
    app, served = made
    texts = ["Hello world", "Once upon a time"]
    body = {"prompt": texts, "echo": True, "logprobs": 2, "max_tokens": 2, "n": 2}
    found = post(app, PATH, {**body, "ignore_eos": True}).json()["choices"]
    for index, choice in enumerate(found):
        check(served, served.model.tokenize(texts[index // 2]), choice, 2, 2)


def test_streamed(made: Any) -> None:
    app, served = made
    body = {"prompt": PROMPTS, "echo": True, "logprobs": 1, "max_tokens": 2, "stream": True}
    text = post(app, PATH, {**body, "ignore_eos": True}).text
    events = [json.loads(line[6:]) for line in text.splitlines() if line.startswith("data: {")]
    for index, ids in enumerate(PROMPTS):
        rows = [event["choices"][0] for event in events if event["choices"][0]["index"] == index]
        columns: dict[str, list[Any]] = {}
        for row in rows:
            for name, values in (row["logprobs"] or {}).items():
                columns.setdefault(name, []).extend(values)
        whole = {"text": "".join(row["text"] for row in rows), "logprobs": columns}
        check(served, ids, whole, 1, 2)


def test_the_token_that_ends_an_answer_counts(made: Any) -> None:
    """Evaluations leave out the last row as that of the one generated token."""
    app, served = made
    end = min(served.model.eog_ids)
    body = {"prompt": PROMPTS[0], "echo": True, "logprobs": 1, "max_tokens": 1}
    choice = post(app, PATH, {**body, "logit_bias": {str(end): 100}}).json()["choices"][0]
    check(served, PROMPTS[0], choice, 1, 1)
    assert choice["finish_reason"] == "stop"
    assert choice["logprobs"]["tokens"][-1] == ""
    again = post(app, PATH, {**body, "echo": False, "logit_bias": {str(end): 100}}).json()
    assert again["choices"][0]["logprobs"] is None


def test_beside_other_answers(made: Any) -> None:
    app, served = made
    plain = {"prompt": [9, 8, 7], "max_tokens": 30, "ignore_eos": True}
    alone = post(app, PATH, plain).json()["choices"][0]["text"]
    body = {**plain, "prompt": [[9, 8, 7], PROMPTS[2]], "echo": True, "logprobs": 1}
    first, second = post(app, PATH, body).json()["choices"]
    assert first["text"].endswith(alone)
    check(served, PROMPTS[2], second, 1, 30)
