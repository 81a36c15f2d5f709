"""Answers on their way: all at once or as events, and nothing to who has left."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from starlette.responses import Response

from mtkit.serve.replies import Gone, as_json, event, problem, shaped

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable
    from typing import Any

    from starlette.requests import Request

    from mtkit.serve.answers import Answers


async def while_there(receive: Callable[[], Awaitable[Any]], work: Awaitable[Any]) -> Any:
    """Do some work as long as the client is there.

    Args:
        receive: ASGI's; the whole body has been read.
        work: What to do.

    Raises:
        Gone: The client has left; the work is cancelled.
    """

    async def left() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    doing, leaving = asyncio.ensure_future(work), asyncio.ensure_future(left())
    try:
        await asyncio.wait({doing, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not doing.done():
            raise Gone
        return doing.result()
    finally:
        for task in (doing, leaving):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task


class Events(Response):
    """An answer of server-sent events; ends with an event of its own where one fails."""

    media_type = "text/event-stream"

    def __init__(
        self,
        request: Request,
        answers: Answers,
        chunks: AsyncGenerator[bytes, None],
        last: bytes,
    ) -> None:
        """Take the events.

        Args:
            request: What is answered.
            answers: What they tell; cancelled in any case, also where not one event was asked for.
            chunks: The events; closed in any case.
            last: What ends the stream after an error.
        """
        super().__init__(headers={"cache-control": "no-store", "x-accel-buffering": "no"})
        del self.headers["content-length"]
        self._path, self._answers = request.url.path, answers
        self._chunks, self._last = chunks, last

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:  # noqa: ARG002
        """Send the events until they end or the client leaves."""

        async def write() -> None:
            start = {"type": "http.response.start", "status": 200, "headers": self.raw_headers}
            await send(start)
            parts: list[bytes] = []
            try:
                async for chunk in self._chunks:
                    parts.append(chunk)
                    if not self._answers.has_more():  # what is there at once is sent at once
                        body, parts = b"".join(parts), []
                        await send({"type": "http.response.body", "body": body, "more_body": True})
            except Exception as error:  # noqa: BLE001  the status is sent: it is told as an event
                parts += event(shaped(self._path, problem(error)), "error"), self._last
            body = b"".join(parts)
            await send({"type": "http.response.body", "body": body, "more_body": False})

        try:
            with suppress(Gone):
                await while_there(receive, write())
        finally:
            self._answers.cancel()
            await self._chunks.aclose()


async def reply(
    request: Request,
    answers: Answers,
    chunks: AsyncGenerator[bytes, None] | None,
    whole: Callable[[], Awaitable[dict[str, Any]]],
    last: bytes = b"",
) -> Response:
    """Have a request answered.

    Args:
        request: The request.
        answers: Its answers, not started.
        chunks: The events of a stream; None: all is sent at once.
        whole: Returns all of it.
        last: As in ``Events``.
    """
    try:
        await while_there(request.receive, answers.start(whole=chunks is None))
        if chunks is not None:
            return Events(request, answers, chunks, last)
        return as_json(await while_there(request.receive, whole()))
    except BaseException:
        answers.cancel()
        raise
