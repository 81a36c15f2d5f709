"""The application: paths to routes, errors to answers."""

from __future__ import annotations

import re

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from mtkit.serve import adapters, anthropic, embeddings, llama, openai, own, responses, slot_actions
from mtkit.serve.bodies import anthropic as anthropic_bodies
from mtkit.serve.bodies import llama as llama_bodies
from mtkit.serve.bodies import openai as openai_bodies
from mtkit.serve.bodies import responses as responses_bodies
from mtkit.serve.guard import Guard
from mtkit.serve.openapi import document
from mtkit.serve.page import page
from mtkit.serve.replies import Gone, Problem, as_json, refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Any

    from starlette.requests import Request

    from mtkit.serve.served import Served

_ROUTES: tuple[tuple[str, str, Any, Any], ...] = (
    ("GET", "/", page, None),
    ("GET", "/v1/models", openai.models, None),
    ("GET", "/v1/models/{name:path}", openai.model, None),
    ("POST", "/v1/completions", openai.completions, openai_bodies.Completion),
    ("POST", "/v1/chat/completions", openai.chat, openai_bodies.Chat),
    ("POST", "/v1/responses", responses.create, responses_bodies.Responses),
    ("POST", "/v1/chat/completions/input_tokens", openai.input_tokens, openai_bodies.Chat),
    ("POST", "/v1/embeddings", embeddings.openai, openai_bodies.Embeddings),
    ("POST", "/v1/messages", anthropic.messages, anthropic_bodies.Message),
    ("POST", "/v1/messages/count_tokens", anthropic.count_tokens, anthropic_bodies.MessageCount),
    ("POST", "/completion", llama.completion, llama_bodies.Complete),
    ("POST", "/completions", llama.completion, llama_bodies.Complete),
    ("POST", "/infill", llama.infill, llama_bodies.Infill),
    ("POST", "/embedding", embeddings.plain, llama_bodies.Embedding),
    ("POST", "/embeddings", embeddings.plain, llama_bodies.Embedding),
    ("POST", "/rerank", embeddings.rerank, llama_bodies.Rerank),
    ("POST", "/reranking", embeddings.rerank, llama_bodies.Rerank),
    ("GET", "/lora-adapters", adapters.told, None),
    ("POST", "/lora-adapters", adapters.scaled, list[llama_bodies.Scale]),
    ("POST", "/tokenize", own.tokenize, llama_bodies.Tokenize),
    ("POST", "/detokenize", own.detokenize, llama_bodies.Detokenize),
    ("POST", "/apply-template", openai.apply_template, openai_bodies.Chat),
    ("GET", "/props", own.props, None),
    ("GET", "/slots", own.slots, None),
    ("POST", "/slots/{slot:int}", slot_actions.act, llama_bodies.Saved),
    ("GET", "/health", own.health, None),
    ("GET", "/metrics", own.metrics, None),
)
"""Method, path, what answers, and the record of the body."""
_PREFIX = "/v1"


def _both(routes: Sequence[tuple[str, str, Any, Any]]) -> list[tuple[str, str, Any, Any]]:
    """Return routes with and without ``/v1``, unless one of the two is another's."""
    own = {(method, path) for method, path, _, _ in routes}
    found = list(routes)
    for method, path, answer, body in routes:
        other = path.removeprefix(_PREFIX) if path.startswith(_PREFIX) else _PREFIX + path
        if path != "/" and (method, other) not in own:
            found.append((method, other, answer, body))
    return found


async def described(_: Request, __: Served) -> Response:
    """Describe the routes."""
    return as_json(document(_ROUTES))


def application(served: Served, keys: Sequence[str] = ()) -> Guard:
    """Return the ASGI application of a model whose scheduler runs."""

    def route(method: str, path: str, answer: Callable[..., Awaitable[Response]]) -> Route:
        async def endpoint(request: Request) -> Response:
            try:
                return await answer(request, served)
            except Gone:
                return Response(status_code=499)  # nobody reads it
            except Exception as error:  # noqa: BLE001  no traceback for clients, nor in the log
                return refusal(request.url.path, error)

        return Route(path, endpoint, methods=[method])

    async def not_routed(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = error.status_code
        said = {
            404: f"there is no such path; there are {paths}",
            405: "this path takes another method",
        }
        found = Problem(status, said.get(status, "refused"), headers=dict(error.headers or {}))
        return refusal(request.url.path, found)

    routes = _ROUTES if served.settings.webui else [one for one in _ROUTES if one[1] != "/"]
    shown = (re.sub(r":\w+}", "}", path) for _, path, _, _ in routes)  # without starlette's types
    paths = ", ".join(dict.fromkeys(shown))
    app = Starlette(
        routes=[
            route("GET", "/openapi.json", described),
            *(route(method, path, answer) for method, path, answer, _ in _both(routes)),
        ],
        exception_handlers={HTTPException: not_routed},
    )
    app.router.redirect_slashes = False
    return Guard(app, served.settings, keys, served.metrics)
