"""Responses: JSON, server-sent events, and errors in the shape of the API that the path is of."""

from __future__ import annotations

import asyncio
import sys
from contextlib import suppress

import msgspec
from starlette.responses import Response

from mtkit.base.escape import printable
from mtkit.chat.process import ProcessLost
from mtkit.errors import MtkitError
from mtkit.serve.job import DeadlyRequest, PromptTooLong, QueueFull, ServerClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from typing import Any


ANTHROPIC = "/messages"
"""Routes below it, with /v1 or without, answer as Anthropic's API does."""
OLLAMA = "/api/"
"""Routes below it answer as Ollama's."""
_ERROR_KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
    404: "not_found_error", 405: "invalid_request_error", 413: "request_too_large",
    429: "rate_limit_error", 501: "not_supported_error", 503: "overloaded_error",
}  # fmt: skip


class ClientGone(Exception):
    """The client has left."""


class Problem(Exception):
    """A request that cannot be answered.

    Attributes:
        kind: Another name of the error than its status has.
    """

    def __init__(
        self,
        status: int,
        what: str,
        *,
        field: str | None = None,
        code: str | None = None,
        headers: dict[str, str] | None = None,
        kind: str = "",
        figures: dict[str, int] | None = None,
    ) -> None:
        super().__init__(what)
        self.status, self.what, self.field, self.code = status, what, field, code
        self.headers, self.kind, self.figures = headers or {}, kind, figures or {}


def problem_of(error: Exception) -> Problem:
    """Return what a client may read of an error, which is not the path of a file."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, QueueFull):
        return Problem(429, str(error), headers={"retry-after": str(error.seconds)})
    if isinstance(error, ServerClosed):
        return Problem(503, str(error))
    if isinstance(error, DeadlyRequest):  # the header is known to OpenAI's and Anthropic's clients
        return Problem(500, str(error), headers={"x-should-retry": "false"})
    if isinstance(error, ProcessLost):
        return Problem(503, str(error), headers={"retry-after": "1"})
    if isinstance(error, MtkitError):
        what = ": ".join(part for part in (error.field, error.what) if part)
        what = f"{what}; {error.hint}" if error.hint else what
        if isinstance(error, PromptTooLong):  # the code is OpenAI's, the rest llama-server's
            figures = {"n_prompt_tokens": error.tokens, "n_ctx": error.n_slot}
            kind = "exceed_context_size_error"
            return Problem(400, what, code="context_length_exceeded", kind=kind, figures=figures)
        return Problem(400, what, field=error.field or None)
    sys.stderr.write(printable(f"mtkit: serve: {type(error).__name__}: {error}") + "\n")
    return Problem(500, "an error inside the server")


def error_body(path: str, problem: Problem) -> dict[str, Any]:
    """Return the body of an error."""
    kind = _ERROR_KINDS.get(problem.status, "api_error")
    if path.startswith(OLLAMA):
        return {"error": problem.what}
    if path.removeprefix("/v1").startswith(ANTHROPIC):
        return {"type": "error", "error": {"type": kind, "message": problem.what}}
    error = {"message": problem.what, "type": problem.kind or kind, "param": problem.field}
    return {"error": {**error, "code": problem.code, **problem.figures}}


def error_response(path: str, error: Exception) -> Response:
    """Return the response for an error."""
    problem = problem_of(error)
    return json_response(error_body(path, problem), problem.status, problem.headers)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as JSON."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )


def sse_event(value: Any, name: str = "") -> bytes:
    """Return a server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(value) + b"\n\n"


async def while_connected(receive: Callable[[], Awaitable[Any]], work: Awaitable[Any]) -> Any:
    """Do some work as long as the client is there."""

    async def watch() -> None:
        while (await receive())["type"] != "http.disconnect":
            pass

    worker, watcher = asyncio.ensure_future(work), asyncio.ensure_future(watch())
    try:
        await asyncio.wait({worker, watcher}, return_when=asyncio.FIRST_COMPLETED)
        if not worker.done():
            raise ClientGone
        return worker.result()
    finally:
        for task in (worker, watcher):
            task.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await task
