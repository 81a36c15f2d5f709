"""The application: paths to routes, errors to answers, and ``/openapi.json``.

``/openapi.json`` says what every route takes and answers, from the records that read the bodies.
"""

from __future__ import annotations

import re

import msgspec
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.routing import Route

from mtkit._version import __version__
from mtkit.base.escape import printable
from mtkit.serve import (
    anthropic,
    bodies,
    embeddings,
    llama,
    ollama,
    ollama_models,
    ollama_request,
    openai,
    responses,
)
from mtkit.serve.guard import Guard
from mtkit.serve.page import page_and_policy
from mtkit.serve.reply import OLLAMA, Problem, error_response, json_response
from mtkit.serve.request import MOST_BODY, MOST_MEDIA_BODY, Scale, WithSampler
from mtkit.serve.wake import ModelAnswer
from mtkit.settings import SamplerSettings
from mtkit.settings.declaration import table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Sequence
    from typing import Any

    from starlette.requests import Request

    from mtkit.serve.pool import ModelPool
    from mtkit.settings.declaration import Setting


STATUSES = {
    400: "The request makes no sense.", 401: "The key is missing or wrong.",
    403: "Not under this name, or not from this page.", 413: "The body is too long.",
    429: "All slots and the queue are full.",
    501: "The server was started without it, or the model has nothing for it.",
    503: "The server is ending.",
}  # fmt: skip
"""The statuses of all routes but 200 and 404; 500 is a fault in mtkit."""
_PATH_PARAMETER = re.compile(r"\{(\w+)(?::path)?\}")
_JSON_TYPES = {"float": "number", "int": "integer", "str": "string", "bool": "boolean"}


def openapi_document(routes: Iterable[tuple[str, str, Any, Any]]) -> dict[str, Any]:
    """Return the description of routes, each of method, path, function and the body's record."""
    routes = list(routes)
    kinds = list(dict.fromkeys(body for *_, body in routes if body is not None))
    references, schemas = msgspec.json.schema_components(
        kinds, ref_template="#/components/schemas/{name}"
    )
    schema_of = dict(zip(kinds, references, strict=True))
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, WithSampler):
            for name, setting in table(SamplerSettings).items():
                schemas[kind.__name__]["properties"].setdefault(name, _setting_schema(setting))
    paths: dict[str, dict[str, Any]] = {}
    for method, path, answer, body in routes:
        operation: dict[str, Any] = {
            "summary": answer.__doc__.partition("\n")[0],
            "responses": {
                str(status): {"description": text}
                for status, text in {200: "The answer.", 404: "Not there.", **STATUSES}.items()
            },
        }
        if body is not None:
            content = {"application/json": {"schema": schema_of[body]}}
            operation["requestBody"] = {"required": True, "content": content}
        if match := _PATH_PARAMETER.search(path):
            path = path.replace(match[0], f"{{{match[1]}}}")
            operation["parameters"] = [
                {"name": match[1], "in": "path", "required": True, "schema": {"type": "string"}}
            ]
        paths.setdefault(path, {})[method.lower()] = operation
    keys = {
        "bearer": {"type": "http", "scheme": "bearer"},
        "key": {"type": "apiKey", "in": "header", "name": "x-api-key"},
    }
    return {
        "openapi": "3.1.0",
        "info": {"title": "mtkit serve", "version": __version__},
        "paths": paths,
        "components": {"schemas": schemas, "securitySchemes": keys},
        "security": [{}, {"bearer": []}, {"key": []}],
    }


def _setting_schema(setting: Setting) -> dict[str, Any]:
    if setting.name == "logit_bias":
        bias = {"type": "number"}
        return {"type": "object", "additionalProperties": bias, "description": setting.help}
    kinds = [_JSON_TYPES[kind] for kind in setting.annotation.split(" | ") if kind in _JSON_TYPES]
    schema: dict[str, Any] = {"type": [*kinds, "null"], "description": setting.help}
    if setting.name == "json_schema":
        schema["type"] = ["string", "object", "null"]
    if setting.low is not None:
        schema |= {"minimum": setting.low, "maximum": setting.high}
    return schema


async def show_page(_: Request, __: ModelPool) -> Response:
    """Return the page."""
    text, policy = page_and_policy()
    headers = {"content-security-policy": policy, "cache-control": "no-cache"}
    return Response(text, headers=headers, media_type="text/html")


async def show_state(_: Request, __: ModelPool) -> Response:
    """Say that the server is there, where there is no page; Ollama's clients ask for it."""
    return Response("mtkit is running", media_type="text/plain")


_ROUTES: tuple[tuple[str, str, Any, Any], ...] = (
    ("GET", "/", show_page, None),
    ("GET", "/v1/models", openai.models, None),
    ("GET", "/v1/models/{name:path}", openai.model, None),
    ("POST", "/v1/completions", openai.completions, bodies.Completion),
    ("POST", "/v1/chat/completions", openai.chat, bodies.Chat),
    ("POST", "/v1/responses", responses.create, bodies.Responses),
    ("GET", "/v1/responses/{name}", responses.read, None),
    ("DELETE", "/v1/responses/{name}", responses.remove, None),
    ("POST", "/v1/chat/completions/input_tokens", openai.input_tokens, bodies.Chat),
    ("POST", "/v1/embeddings", embeddings.openai_embeddings, bodies.Embeddings),
    ("POST", "/v1/messages", anthropic.messages, bodies.Message),
    ("POST", "/v1/messages/count_tokens", anthropic.count_tokens, bodies.MessageCount),
    ("POST", "/completion", llama.completion, bodies.Complete),
    ("POST", "/completions", llama.completion, bodies.Complete),
    ("POST", "/infill", llama.infill, bodies.Infill),
    ("POST", "/embedding", embeddings.llama_embeddings, bodies.Embedding),
    ("POST", "/embeddings", embeddings.llama_embeddings, bodies.Embedding),
    ("POST", "/rerank", embeddings.rerank, bodies.Rerank),
    ("POST", "/reranking", embeddings.rerank, bodies.Rerank),
    ("GET", "/lora-adapters", llama.list_adapters, None),
    ("POST", "/lora-adapters", llama.scale_adapters, list[Scale]),
    ("POST", "/tokenize", llama.tokenize, bodies.Tokenize),
    ("POST", "/detokenize", llama.detokenize, bodies.Detokenize),
    ("POST", "/apply-template", openai.apply_template, bodies.Chat),
    ("POST", "/api/chat", ollama.chat, ollama_request.OllamaChat),
    ("POST", "/api/generate", ollama.generate, ollama_request.OllamaGenerate),
    ("POST", "/api/embed", ollama.embed, ollama_request.OllamaEmbed),
    ("POST", "/api/embeddings", ollama.old_embed, ollama_request.OllamaEmbed),
    ("GET", "/api/tags", ollama_models.tags, None),
    ("GET", "/api/ps", ollama_models.loaded, None),
    ("POST", "/api/show", ollama_models.show, ollama_models.OllamaShow),
    ("GET", "/api/version", ollama_models.version, None),
    ("POST", "/api/pull", ollama_models.pull, ollama_models.OllamaPull),
    ("POST", "/api/push", ollama_models.refuse, None),
    ("POST", "/api/create", ollama_models.refuse, None),
    ("POST", "/api/copy", ollama_models.refuse, None),
    ("DELETE", "/api/delete", ollama_models.refuse, None),
    ("HEAD", "/api/blobs/{digest}", ollama_models.refuse, None),
    ("POST", "/api/blobs/{digest}", ollama_models.refuse, None),
    ("GET", "/props", llama.props, None),
    ("GET", "/slots", llama.slots, None),
    ("POST", "/slots/{slot}", llama.change_slot, bodies.Saved),
    ("GET", "/health", llama.health, None),
    ("GET", "/metrics", llama.metrics, None),
)
"""Method, path, the function that answers, and the record of the body."""
_PREFIX = "/v1"


def _with_both_prefixes(
    routes: Sequence[tuple[str, str, Any, Any]],
) -> list[tuple[str, str, Any, Any]]:
    """Return routes with and without ``/v1``, unless one of the two is another's."""
    own = {(method, path) for method, path, _, _ in routes}
    both = list(routes)
    for method, path, answer, body in routes:
        other = path.removeprefix(_PREFIX) if path.startswith(_PREFIX) else _PREFIX + path
        if path != "/" and not path.startswith(OLLAMA) and (method, other) not in own:
            both.append((method, other, answer, body))
    return both


async def describe_routes(_: Request, __: ModelPool) -> Response:
    """Describe the routes."""
    return json_response(openapi_document(_ROUTES))


_OF_ALL_MODELS = frozenset((
    show_page, describe_routes, openai.models, openai.model, llama.props, llama.slots,
    llama.health, llama.metrics, ollama_models.tags, ollama_models.loaded, ollama_models.show,
    ollama_models.version, ollama_models.pull, ollama_models.refuse, show_state,
    responses.read, responses.remove,
))  # fmt: skip
"""Functions that answer for all models, also while none is loaded."""


def _elsewhere(request: Request) -> str:
    """Return where those find what they look for who ask for a path that is not there."""
    path = request.url.path.rstrip("/")
    if path == "/v1":
        return "it is a base URL: clients add /chat/completions and the like"
    if path.startswith(("/api/v0", "/api/v1")):
        return "LM Studio's own API is not served; OpenAI's is, under /v1"
    return "GET /openapi.json lists those that there are"


def application(pool: ModelPool, keys: Sequence[str] = ()) -> Guard:
    """Return the ASGI application of the models of a server."""

    def route(method: str, path: str, answer: Callable[..., Awaitable[Response]]) -> Route:
        async def endpoint(request: Request) -> ModelAnswer | Response:
            if answer not in _OF_ALL_MODELS:
                return ModelAnswer(request, pool, answer)
            try:
                return await answer(request, pool)
            except Exception as error:  # noqa: BLE001  no traceback for clients, nor in the log
                return error_response(request.url.path, error)

        return Route(path, endpoint, methods=[method])

    async def refuse(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        status = error.status_code
        texts = {
            404: f"there is no path {printable(request.url.path[:100])}; {_elsewhere(request)}",
            405: "this path takes another method",
        }
        problem = Problem(status, texts.get(status, "refused"), headers=dict(error.headers or {}))
        return error_response(request.url.path, problem)

    routes = list(_ROUTES)
    if not pool.settings.webui:
        routes[0] = ("GET", "/", show_state, None)
    app = Starlette(
        routes=[
            route("GET", "/openapi.json", describe_routes),
            *(
                route(method, path, answer)
                for method, path, answer, _ in _with_both_prefixes(routes)
            ),
        ],
        exception_handlers={HTTPException: refuse},
    )
    app.router.redirect_slashes = False
    pool.describe = llama.properties
    takes_media = any(model.header.projector is not None for model in pool.models)
    most_body = MOST_MEDIA_BODY if takes_media else MOST_BODY
    return Guard(app, pool.settings, keys, pool.metrics, most_body)
