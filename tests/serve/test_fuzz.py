"""Drawn bodies for every route: an answer or a refusal in words, never an error of the server's."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

from route_cases import drive
from serving_http import application, client, server

from mtkit.sources.locate import MODEL, shipped

ASK = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 2}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/completions": {"prompt": "Hi", "max_tokens": 2, "logprobs": 1, "stop": ["x"], "n": 2},
    "/v1/chat/completions": {
        **ASK, "logprobs": True, "top_logprobs": 2, "response_format": {"type": "json_object"},
        "tools": [{"type": "function", "function": {"name": "f", "parameters": {}}}],
    },
    "/v1/messages": {**ASK, "system": "Be.", "stop_sequences": ["x"],
                     "tools": [{"name": "f", "input_schema": {}}]},
    "/v1/messages/count_tokens": {"messages": ASK["messages"], "system": [{"text": "x"}]},
    "/tokenize": {"content": "Hi", "add_special": True, "with_pieces": True},
    "/detokenize": {"tokens": [1, 2, 3], "special": True},
    "/apply-template": {"messages": ASK["messages"], "tools": []},
}  # fmt: skip
SAMPLER = (
    "temperature", "top_k", "top_p", "min_p", "typical", "seed", "dry", "dry_last", "mirostat",
    "repeat_penalty", "penalty_last", "grammar", "json_schema", "logit_bias", "xtc", "stream",
    "ignore_eos", "stream_options", "tool_choice", "thinking", "explain_cache", "speculative",
)  # fmt: skip
VALUES: tuple[Any, ...] = (
    None, True, False, 0, 1, 2, -1, 0.5, 1e308, -1e308, 2**31, 2**63, 10**30, "", "x", "\0", "你😀",
    "<|im_end|>", "x" * 5000, [], {}, [[]], [{}], ["x"], [1], [None], {"x": 1}, {"5": -100},
    {"type": "object"}, {"type": "tool_use", "name": "f", "input": 3}, {"$ref": "#"},
    {"properties": {"a": {"$ref": "#"}}}, 'root ::= "a"*', "root ::= root", "root ::= [", "{{",
)  # fmt: skip


def changed(value: Any, chance: random.Random, depth: int = 0) -> Any:
    """Return a JSON value of which some part is another."""
    if depth and chance.random() < 0.25:
        return chance.choice(VALUES)
    if isinstance(value, dict) and value:
        name = chance.choice(list(value))
        kept = {key: part for key, part in value.items() if key != name or chance.random() > 0.2}
        return {**kept, name: changed(value[name], chance, depth + 1)} if name in kept else kept
    if isinstance(value, list) and value:
        at = chance.randrange(len(value))
        return [*value[:at], changed(value[at], chance, depth + 1), *value[at + 1 :]]
    return chance.choice(VALUES)


def test_drawn_bodies(capfd: Any) -> None:
    count = 20_000 if os.environ.get("MTKIT_FULL") else 400
    statuses: dict[int, int] = {}

    async def send(app: Any) -> None:
        chance = random.Random(17)
        async with client(app) as http:
            for _ in range(count):
                path = chance.choice(list(BODIES))
                body = changed(BODIES[path], chance)
                if path in list(BODIES)[:3] and isinstance(body, dict) and chance.random() < 0.6:
                    body[chance.choice(SAMPLER)] = chance.choice(VALUES)
                data = json.dumps(body).encode()
                answer = await asyncio.wait_for(http.post(path, content=data), 60)
                statuses[answer.status_code] = statuses.get(answer.status_code, 0) + 1
                assert answer.status_code in (200, 400), (path, body, answer.text)
                if answer.status_code == 400:
                    assert answer.json()["error"]["message"], (path, body)
            still = await http.post("/v1/completions", json={"prompt": "Hi", "max_tokens": 3})
            assert still.json()["usage"]["completion_tokens"] == 3

    with application(Path(shipped(MODEL)), n_ctx=1024) as (app, served):
        asyncio.run(send(app))
        assert all(slot.job is None for slot in served.scheduler.slots)
    assert min(statuses[200], statuses[400]) > count / 10
    assert "mtkit: serve:" not in capfd.readouterr().err


def test_requests_drawn_from_the_description() -> None:
    """20,000 of them: ``python -m tools.fuzz_routes``."""
    with server(Path(shipped(MODEL)), "-np", "4", "-c", "256") as started:
        statuses = drive(started.url, 280)
        assert not [line for line in started.said if "mtkit: serve:" in line]
    assert statuses[200] > 20
    assert statuses[400] > 100
