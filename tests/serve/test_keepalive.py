"""A stream is never silent for long: while it waits for a slot, or while its prompt is computed."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator
from typing import Any

import pytest
from llm_models import chatting
from serving_http import application, post

ENDLESS = {"prompt": "a", "max_tokens": 100_000, "ignore_eos": True, "stream": True}
CHAT = {"messages": [{"role": "user", "content": "Hi."}], "max_tokens": 2}
MESSAGE = {"model": "any", **CHAT}
RESPONSE = {"model": "any", "input": "Hi.", "max_output_tokens": 2}
TEXT = {"prompt": "Once", "max_tokens": 2}
ROUTES = {
    "/v1/completions": (TEXT, b":"), "/v1/chat/completions": (CHAT, b":"),
    "/completion": (TEXT, b":"), "/v1/messages": (MESSAGE, b"event: ping"),
    "/v1/responses": (RESPONSE, b"event: response.queued"),
}  # fmt: skip


@pytest.fixture(scope="module")
def made() -> Iterator[Any]:
    with application(
        chatting(), n_ctx=4096, slots=1, queue=2, keepalive=0.2, context_shift=True
    ) as found:
        yield found


class Asked:
    """A request whose answer is looked at while it comes."""

    def __init__(self, app: Any, path: str, body: dict[str, Any]) -> None:
        self.status, self.text, self.is_over = 0, b"", False
        self._body, self._gone = json.dumps(body).encode(), asyncio.Event()
        scope = {
            "type": "http", "method": "POST", "path": path, "raw_path": path.encode(),
            "query_string": b"", "headers": [(b"host", b"localhost")], "scheme": "http",
            "server": ("localhost", 80), "client": ("127.0.0.1", 1), "http_version": "1.1",
            "root_path": "",
        }  # fmt: skip
        self.task = asyncio.ensure_future(app(scope, self._receive, self._send))

    async def _receive(self) -> dict[str, Any]:
        if self._body is not None:
            body, self._body = self._body, None  # type: ignore[assignment]
            return {"type": "http.request", "body": body, "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
        else:
            self.text += message["body"]
            self.is_over = not message.get("more_body")

    async def until(self, sign: bytes = b"", count: int = 1) -> None:
        """Wait until its text has a sign so often; with none, until there is a text."""
        end = time.monotonic() + 10
        while not self.text or self.text.count(sign) < count:
            assert time.monotonic() < end, (self.status, self.text)
            await asyncio.sleep(0.01)

    async def end(self) -> None:
        """Wait for its end."""
        await asyncio.wait_for(self.task, 10)
        assert self.is_over

    async def leave(self) -> None:
        """Leave, as a client does."""
        self._gone.set()
        await self.task


def test_a_stream_that_waits_for_a_slot_says_so_at_once(made: Any) -> None:
    async def work() -> None:
        busy = Asked(made[0], "/v1/completions", ENDLESS)
        await busy.until(b"data: ")
        for path, (body, sign) in ROUTES.items():
            start = time.monotonic()
            asked = Asked(made[0], path, {**body, "stream": True})
            await asked.until()
            assert time.monotonic() - start < 2
            assert asked.status == 200
            await asked.until(sign, 3)
            assert asked.text.count(b"response.created") == 2 * (path == "/v1/responses")
            await asked.leave()
        await busy.leave()

    asyncio.run(work())


def test_a_stream_that_has_waited_is_answered_as_any_other(made: Any) -> None:
    async def work() -> None:
        for path, (body, sign) in ROUTES.items():
            busy = Asked(made[0], "/v1/completions", ENDLESS)
            await busy.until(b"data: ")
            asked = Asked(made[0], path, {**body, "stream": True})
            await asked.until(sign)
            await busy.leave()
            await asked.end()
            told = asked.text.decode().split("\n\n")
            kinds = [text.partition("\n")[0] for text in told if text.startswith("event: ")]
            if path == "/v1/messages":
                assert kinds[kinds.index("event: message_start") :][-1] == "event: message_stop"
            elif path == "/v1/responses":
                start = ["event: response.created", "event: response.queued"]
                assert kinds[:2] == start
                assert kinds.count("event: response.created") == 1
                assert kinds[-1] == "event: response.incomplete"
                numbers = [json.loads(text.partition("data: ")[2]) for text in told if text]
                assert [one["sequence_number"] for one in numbers] == list(range(len(numbers)))
            else:
                assert sum(text.startswith("data: {") for text in told) >= 2

    asyncio.run(work())


def test_what_can_be_refused_at_once_has_a_status(made: Any) -> None:
    async def work() -> None:
        busy = Asked(made[0], "/v1/completions", ENDLESS)
        await busy.until(b"data: ")
        for path, (body, _) in ROUTES.items():
            for field in ({"grammar": "root ::= ("}, {"logit_bias": {"99999999": 1}}):
                asked = Asked(made[0], path, {**body, **field, "stream": True})
                await asked.end()
                assert asked.status == 400, (path, field, asked.text)
        waiting = [Asked(made[0], "/completion", {**TEXT, "stream": True}) for _ in range(2)]
        for one in waiting:
            await one.until()
        for path, (body, _) in ROUTES.items():
            asked = Asked(made[0], path, {**body, "stream": True})
            await asked.end()
            assert asked.status == 429
        for one in (*waiting, busy):
            await one.leave()

    asyncio.run(work())


@pytest.mark.parametrize("path", ROUTES)
def test_an_error_behind_the_headers_is_an_event_of_the_api(path: str) -> None:
    async def work() -> bytes:
        with application(chatting(), n_ctx=1024, slots=1, keepalive=0.2) as (app, served):
            busy = Asked(app, "/v1/completions", ENDLESS)
            await busy.until(b"data: ")
            asked = Asked(app, path, {**ROUTES[path][0], "stream": True})
            await asked.until()
            await asyncio.to_thread(served.scheduler.drain)
            await asked.end()
            await busy.leave()
            return asked.text

    told = [part for part in asyncio.run(work()).decode().split("\n\n") if "data: {" in part]
    event = json.loads(told[-1].partition("data: ")[2])
    if path == "/v1/responses":
        assert told[-1].startswith("event: response.failed")
        assert event["response"]["error"]["message"] == "the server is ending"
    else:
        kind = {"type": "error"} if path == "/v1/messages" else {}
        assert told[-1].startswith("event: error")
        assert event == {**event, **kind}
        assert event["error"]["message"] == "the server is ending"


def test_a_long_prompt_is_not_computed_in_silence(made: Any) -> None:
    text = " ".join(f"word{number}" for number in range(900))
    with application(chatting(), n_ctx=8192, slots=1, n_batch=64, keepalive=0.02) as (app, _):
        asked = {"prompt": text, "max_tokens": 2, "stream": True}
        before, _, _ = post(app, "/v1/completions", asked).text.partition("data: {")
        assert before.count(":\n\n") > 2
    for path in ("/v1/completions", "/completion"):  # nor is a short one talked about
        assert ":\n\n" not in post(made[0], path, {**TEXT, "stream": True}).text.replace("data", "")
