"""What Ollama's requests ask for: options, ``format``, ``think``, ``keep_alive``, messages.

Source: Ollama, docs/api.md and api/types.go.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mtkit.errors import UsageError
from mtkit.serve.bodies import Tools, template_variables
from mtkit.serve.conversation import messages_from_openai
from mtkit.serve.job import Terms
from mtkit.serve.media import NO_MEDIA
from mtkit.serve.reply import Problem
from mtkit.serve.request import (
    MOST_GRAMMAR,
    Count,
    Id,
    Stop,
    Stops,
    WithSampler,
    read_json,
    read_with_sampler,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from starlette.requests import Request

    from mtkit.serve.media import RequestMedia
    from mtkit.serve.model import ServedModel
    from mtkit.settings import SamplerSettings


KeepAlive = float | str
Level = Literal["low", "medium", "high", "max"]


class OllamaAnswer(WithSampler, kw_only=True):
    """The fields that Ollama's requests for answers share; those of ``options`` among them."""

    model: str = ""
    stream: bool = True
    format: str | dict[str, Any] = ""
    keep_alive: KeepAlive | None = None
    think: bool | Level | None = None
    truncate: bool = True
    logprobs: bool = False
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] = 0
    num_predict: Annotated[int, Meta(ge=-(1 << 31), le=1 << 31)] | None = None
    num_ctx: int = 0
    num_keep: Annotated[int, Meta(ge=-1, le=1 << 31)] = 0
    stop: Stop | Stops = []


class OllamaChat(OllamaAnswer, kw_only=True):
    """A body of ``/api/chat``."""

    messages: Annotated[list[dict[str, Any]], Meta(max_length=10_000)] = []
    tools: Tools = []


class OllamaGenerate(OllamaAnswer, kw_only=True):
    """A body of ``/api/generate``."""

    prompt: str = ""
    suffix: str = ""
    system: str = ""
    template: str = ""
    context: list[Id] = []
    raw: bool = False
    images: list[Any] = []


class OllamaEmbed(Struct, kw_only=True):
    """A body of ``/api/embed``, and of the older ``/api/embeddings``, which has a ``prompt``."""

    model: str = ""
    input: str | Annotated[list[str], Meta(max_length=10_000)] = []
    prompt: str = ""
    truncate: bool = True
    dimensions: Count | None = None
    keep_alive: KeepAlive | None = None
    options: dict[str, Any] = {}


_WHOLE = frozenset((
    "num_predict", "num_ctx", "num_keep", "top_k", "seed", "repeat_last_n", "mirostat",
))  # fmt: skip
"""Options that are whole numbers; Ollama takes 40.0 for one."""
_SECONDS = {
    "h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9,
}  # fmt: skip
_DURATION = re.compile(r"([+-]?)((?:\d+\.?\d*(?:h|ms|m|s|us|µs|ns))+|\d+\.?\d*)")
_DURATION_PART = re.compile(r"(\d+\.?\d*)(h|ms|m|s|us|µs|ns)")


def keep_seconds(value: KeepAlive) -> float:
    """Return how long ``keep_alive`` keeps a model: seconds, or a text as Go writes durations."""
    if isinstance(value, str):
        match = _DURATION.fullmatch(value)
        if match is None:
            raise UsageError(f"{value[:100]!r} is not a duration, as in 10m", field="keep_alive")
        parts = _DURATION_PART.findall(match[2]) or [(match[2], "s")]
        seconds = sum(float(number) * _SECONDS[unit] for number, unit in parts)
        return -1.0 if match[1] == "-" else seconds
    return float(value) if value >= 0 else -1.0


async def read_answer_request(
    request: Request, kind: type[Any], served: ServedModel
) -> tuple[Any, SamplerSettings]:
    """Return a request as a record, and the settings of the sampler.

    What ``options`` say counts as said by the body.
    """
    body = await read_json(request)
    options = body.pop("options", None)
    if options is not None and not isinstance(options, dict):
        raise UsageError("is not an object", field="options")
    for name, value in (options or {}).items():
        if value is not None:
            is_whole = name in _WHOLE and isinstance(value, float) and value.is_integer()
            body[name] = int(value) if is_whole else value
    fields, sampler = read_with_sampler(kind, body, served.settings.sampler, served.unknown)
    if fields.keep_alive is not None:
        request.state.keep = keep_seconds(fields.keep_alive)
    n_slot = served.scheduler.n_slot
    if fields.num_ctx > n_slot:
        served.unknown.note(
            "num_ctx", f"requests have a num_ctx of more than the {n_slot} tokens of a slot (--ctx)"
        )
    return fields, sampler


def terms_of(fields: OllamaAnswer, sampler: SamplerSettings, served: ServedModel) -> Terms:
    """Return how a prompt is to be answered."""
    limit = fields.num_predict
    if limit is not None and limit <= 0:  # -1: without end, -2: as the context has room
        limit = -1
    stops = [fields.stop] if isinstance(fields.stop, str) else fields.stop
    return Terms(
        sampler, served.limit(limit), stops, fields.top_logprobs if fields.logprobs else None,
        keep=fields.num_keep, progress=fields.stream,
    )  # fmt: skip


def schema_of(fields: OllamaAnswer) -> str | None:
    """Return the schema that ``format`` asks for."""
    if not fields.format:
        return None
    if isinstance(fields.format, str):
        if fields.format != "json":
            raise UsageError("is not json or a JSON schema", field="format")
        return '{"type": "object"}'
    text = msgspec.json.encode(fields.format).decode()
    if len(text) > MOST_GRAMMAR:
        raise UsageError(f"has more than {MOST_GRAMMAR} bytes", field="format")
    return text


def variables_of(fields: OllamaAnswer, served: ServedModel) -> dict[str, Any]:
    """Return the variables of the chat template that ``think`` sets."""
    if fields.think is None:
        return {}
    form = served.form
    if fields.think is not False and not (form and (form.thought or form.channels)):
        raise Problem(400, f'"{served.name}" does not support thinking')
    effort = fields.think if isinstance(fields.think, str) else None
    return template_variables({}, fields.think is not False, effort)


def messages_from_ollama(
    messages: Sequence[dict[str, Any]], media: RequestMedia = NO_MEDIA
) -> list[dict[str, Any]]:
    """Return messages in OpenAI's form.

    Calls have no ids there, or not always: results belong to calls of the same name, in order.
    """
    converted, waiting = [], list[tuple[str, str]]()
    count = 0
    for place, message in enumerate(messages):
        field = f"messages[{place}]"
        known = ("role", "content", "tool_call_id", "name")
        own = {name: message[name] for name in known if message.get(name) is not None}
        if images := message.get("images"):
            text = {"type": "text", "text": message.get("content") or ""}
            texts, pictures = [text] if text["text"] else [], picture_parts(images)
            sees = media.takes("image")
            own["content"] = [*pictures, *texts] if sees else [*texts, *pictures]
        if message.get("thinking"):
            own["reasoning_content"] = message["thinking"]
        calls = message.get("tool_calls") or []
        if not isinstance(calls, list) or not all(isinstance(call, dict) for call in calls):
            raise UsageError("is not a list of function calls", field=f"{field}.tool_calls")
        if calls:
            own["tool_calls"] = []
        for call in calls:
            count += 1
            name = call.get("id") or f"call{count:05}"  # nine letters: what Mistral's take
            own["tool_calls"].append({"type": "function", **call, "id": name})
            function = call.get("function")
            waiting.append((str(name), str(isinstance(function, dict) and function.get("name"))))
        if own.get("role") == "tool":
            tool = message.get("tool_name") or message.get("name")
            if isinstance(tool, str):
                own["name"] = tool
            match = next((pair for pair in waiting if pair[0] == own.get("tool_call_id")), None)
            match = match or next((pair for pair in waiting if pair[1] == tool), None)
            match = match or next(iter(waiting), None)
            if match is not None:
                waiting.remove(match)
                own["tool_call_id"] = match[0]
        converted.append(own)
    return messages_from_openai(converted, media)


def picture_parts(images: Any) -> list[dict[str, Any]]:
    """Return Ollama's pictures, which stand before the text, as parts in OpenAI's form."""
    urls = images if isinstance(images, list) else [images]
    return [{"type": "image_url", "image_url": {"url": url}} for url in urls]
