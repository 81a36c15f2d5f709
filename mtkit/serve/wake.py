"""The answer to a request whose model may have to be loaded first.

A client that waits for a stream gets its head and bytes without meaning meanwhile, as it does while
its prompt is computed.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import msgspec
from msgspec import Struct
from starlette.responses import Response

from mtkit.serve.reply import (
    ANTHROPIC,
    OLLAMA,
    ClientGone,
    error_body,
    error_response,
    problem_of,
    sse_event,
)
from mtkit.serve.request import read_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.requests import Request

    from mtkit.serve.model import ServedModel
    from mtkit.serve.pool import ModelPool, PooledModel


_STREAMED = ("/api/chat", "/api/generate")
"""Ollama's routes that stream unless the request says otherwise."""
_HEADERS = [(b"cache-control", b"no-store"), (b"x-accel-buffering", b"no")]
LINES = "application/x-ndjson"
"""The type of Ollama's streams: lines of JSON, before which there may be spaces."""


class _Choice(Struct):
    """What a body says of the model and of the shape of its answer."""

    model: Any = None
    stream: Any = None


class ModelAnswer:
    """The answer of a route of one model, as an ASGI application."""

    def __init__(
        self,
        request: Request,
        pool: ModelPool,
        answer: Callable[[Request, ServedModel], Awaitable[Response]],
    ) -> None:
        """Take a request and the route that answers it."""
        self._request, self._pool, self._answer = request, pool, answer
        self._path = request.url.path
        self._has_head = False

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Have the model loaded, and answer."""
        model: PooledModel | None = None
        try:
            try:
                model, served = await self._open(send)
                response = await self._answer(self._request, served)
            except ClientGone:
                if self._has_head:
                    return
                response = Response(status_code=499)  # never sent: the client is gone
            except Exception as error:  # noqa: BLE001  no traceback for clients, nor in the log
                if self._has_head:
                    await send({"type": "http.response.body", "body": self._failure(error)})
                    return
                response = error_response(self._path, error)
            await response(scope, receive, self._send_rest(send) if self._has_head else send)
        finally:
            if model is not None:
                self._pool.release(model, getattr(self._request.state, "keep", None))

    async def _open(self, send: Any) -> tuple[PooledModel, ServedModel]:
        pool, request = self._pool, self._request
        model = pool.first
        if len(pool.models) == 1 and model.is_ready:
            return model, await pool.acquire(model)
        choice = await self._read_choice()
        model = pool.choose(choice.model or request.query_params.get("model"))
        if model.is_ready:
            return model, await pool.acquire(model)
        start = time.perf_counter()
        streams = choice.stream is True or (self._path in _STREAMED and choice.stream is not False)
        served = await self._load(model, send, streams=streams)
        request.state.load_seconds = time.perf_counter() - start
        return model, served

    async def _read_choice(self) -> _Choice:
        try:
            return msgspec.json.decode(await read_bytes(self._request), type=_Choice)
        except (msgspec.DecodeError, RecursionError, UnicodeDecodeError):
            return _Choice()  # the route says what is wrong

    async def _load(self, model: PooledModel, send: Any, *, streams: bool) -> ServedModel:
        """Have a model loaded as long as the client is there."""
        load = asyncio.ensure_future(self._pool.acquire(model))
        watcher = asyncio.ensure_future(_watch(self._request))
        seconds = self._pool.settings.keepalive if streams else 0
        try:
            while not load.done() and not watcher.done():
                await asyncio.wait(
                    {load, watcher}, timeout=seconds or None, return_when=asyncio.FIRST_COMPLETED
                )
                if not load.done() and not watcher.done():
                    await self._send_alive(send)
        except BaseException:
            await self._give_up(load, model)
            raise
        finally:
            watcher.cancel()
        if load.done():
            return load.result()
        await self._give_up(load, model)
        raise ClientGone

    async def _give_up(self, load: asyncio.Task[ServedModel], model: PooledModel) -> None:
        load.cancel()
        await asyncio.wait({load})
        if not load.cancelled() and load.exception() is None:  # it was loaded just then
            self._pool.release(model)

    async def _send_alive(self, send: Any) -> None:
        if not self._has_head:
            self._has_head = True
            kind = LINES if self._path.startswith(OLLAMA) else "text/event-stream"
            headers = [(b"content-type", kind.encode()), *_HEADERS]
            await send({"type": "http.response.start", "status": 200, "headers": headers})
        body = b":\n\n"
        if self._path.startswith(OLLAMA):
            body = b" "
        elif self._path.removeprefix("/v1").startswith(ANTHROPIC):
            body = sse_event({"type": "ping"}, "ping")
        await send({"type": "http.response.body", "body": body, "more_body": True})

    def _failure(self, error: Exception) -> bytes:
        """Return what ends a stream that fails before its route begins."""
        body = error_body(self._path, problem_of(error))
        if self._path.startswith(OLLAMA):
            return msgspec.json.encode(body) + b"\n"
        return sse_event(body, "error")

    @staticmethod
    def _send_rest(send: Any) -> Callable[[Any], Awaitable[None]]:
        async def send_rest(message: Any) -> None:
            if message["type"] != "http.response.start":  # which the client has
                await send(message)

        return send_rest


async def _watch(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
