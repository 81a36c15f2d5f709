"""Drawn bodies for every route: an answer or a refusal in words, never an error of the server's."""

from __future__ import annotations

import asyncio
import json
import os
import random
from pathlib import Path
from typing import Any

from route_cases import ASK, BODIES, SAMPLER, VALUES, changed, drive
from serving_http import application, client, server

from mtkit.sources.locate import MODEL, shipped


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


def test_ids_that_are_no_text_and_lengths_of_many_digits() -> None:
    """Ids are looked up, and int() takes no more than 4,300 digits: both were a 500."""
    odd: tuple[Any, ...] = (["1"], {"a": 1}, [])
    requests: list[tuple[str, Any]] = []
    for odd_id in odd[:2]:
        call = {"id": odd_id, "type": "function", "function": {"name": "f", "arguments": "{}"}}
        result = {"role": "tool", "tool_call_id": odd_id, "content": "5"}
        for more in ([result], [{"role": "assistant", "tool_calls": [call]}]):
            requests.append(
                ("/v1/chat/completions", {**ASK, "messages": [*ASK["messages"], *more]})
            )
        block = {"type": "tool_result", "tool_use_id": odd_id, "content": "5"}
        requests.append(
            ("/v1/messages", {**ASK, "messages": [{"role": "user", "content": [block]}]})
        )
        item = {"type": "function_call_output", "call_id": odd_id, "output": "5"}
        requests.append(("/v1/responses", {"input": [item], "max_output_tokens": 2}))

    async def send(app: Any) -> None:
        async with client(app) as http:
            for path, body in requests:
                answer = await http.post(path, json=body)
                assert answer.status_code == 400, (path, body, answer.text)
                assert "is not a text" in answer.json()["error"]["message"], answer.text
            heads = {"content-length": "9" * 5000}
            answer = await http.post("/v1/completions", content=b"{}", headers=heads)
            assert answer.status_code == 413

    with application(Path(shipped(MODEL)), n_ctx=256) as (app, _):
        asyncio.run(send(app))
