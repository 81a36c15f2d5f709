"""What goes back: errors in the shape of the API that was asked, JSON, events; what came in."""

from __future__ import annotations

import sys

import msgspec
from starlette.requests import ClientDisconnect
from starlette.responses import Response

from mtkit.base.escape import printable
from mtkit.chat.process import ProcessLost
from mtkit.errors import MtkitError, UsageError
from mtkit.serve.job import PromptTooLong, QueueFull, ServerClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from starlette.requests import Request


ANTHROPIC = "/messages"
"""Routes below it, with /v1 or without, answer as Anthropic's API does."""
_ERROR_KINDS = {
    400: "invalid_request_error", 401: "authentication_error", 403: "permission_error",
    404: "not_found_error", 405: "invalid_request_error", 413: "request_too_large",
    429: "rate_limit_error", 501: "not_supported_error", 503: "overloaded_error",
}  # fmt: skip
_JSON_KINDS: dict[type[Any], str] = {dict: "object", list: "list"}


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
    """Return what a client is told of an error; paths of files are not for it."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, QueueFull):
        return Problem(429, str(error), headers={"retry-after": str(error.seconds)})
    if isinstance(error, ServerClosed):
        return Problem(503, str(error))
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


def error_body(path: str, found: Problem) -> dict[str, Any]:
    """Return the body of an error."""
    kind = _ERROR_KINDS.get(found.status, "api_error")
    if path.removeprefix("/v1").startswith(ANTHROPIC):
        return {"type": "error", "error": {"type": kind, "message": found.what}}
    error = {"message": found.what, "type": found.kind or kind, "param": found.field}
    return {"error": {**error, "code": found.code, **found.figures}}


def error_response(path: str, error: Exception) -> Response:
    """Return the answer that an error is."""
    found = problem_of(error)
    return json_response(error_body(path, found), found.status, found.headers)


def json_response(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> Response:
    """Return a value as JSON."""
    return Response(
        msgspec.json.encode(value), status, headers=headers, media_type="application/json"
    )


def sse_event(value: Any, name: str = "") -> bytes:
    """Return a server-sent event."""
    head = f"event: {name}\n".encode() if name else b""
    return head + b"data: " + msgspec.json.encode(value) + b"\n\n"


async def read_json(request: Request, most: int, kind: type[Any] = dict) -> Any:
    """Return the JSON of a request's body."""
    too_long = Problem(413, f"the body has more than {most} bytes")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or int(length) > most:
        raise too_long
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise too_long
            parts.append(part)
    except ClientDisconnect:
        raise ClientGone from None
    try:
        found = msgspec.json.decode(b"".join(parts))
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not valid JSON: {error}") from None
    except UnicodeDecodeError:
        raise Problem(400, "the body is not valid UTF-8") from None
    if not isinstance(found, kind):
        raise UsageError(f"is not a JSON {_JSON_KINDS[kind]}", field="body")
    return found
