"""Bodies of OpenAI's API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mtkit.errors import UsageError
from mtkit.serve.bodies.fields import (
    MANY,
    MOST_GRAMMAR,
    STRING,
    TEXT,
    Count,
    Limit,
    Stop,
    Stops,
    entry,
)
from mtkit.serve.bodies.sampler import WithSampler

_ROLE = {"enum": ["system", "developer", "user", "assistant", "tool"]}
_FUNCTION = entry("name", name=STRING, parameters={"type": "object"})
_OPENAI = Meta(extra_json_schema=entry("role", role=_ROLE, content=TEXT))
_TOOL = Meta(extra_json_schema=entry("function", function=_FUNCTION))
Messages = Annotated[list[Annotated[dict[str, Any], _OPENAI]], MANY]
Prompts = str | dict[str, Any] | list[Any]
"""What prompts.py reads."""
Tools = Annotated[list[Annotated[dict[str, Any], _TOOL]], Meta(max_length=1000)]


class StreamOptions(Struct, frozen=True):
    """OpenAI's ``stream_options``."""

    include_usage: bool = False


class Schema(Struct, frozen=True):
    """A named schema of OpenAI's ``response_format``."""

    schema: dict[str, Any]


class Format(Struct, frozen=True):
    """OpenAI's ``response_format``."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    schema: dict[str, Any] | None = None
    json_schema: Schema | None = None


class Answer(WithSampler, kw_only=True):
    """What a request for answers may say, in OpenAI's API and llama-server's."""

    model: str = ""
    stream: bool = False
    stream_options: StreamOptions = StreamOptions()
    stop: Stop | Stops = []
    max_tokens: Limit | None = None
    max_completion_tokens: Limit | None = None
    n_predict: Limit | None = None
    n: Count = 1
    n_cmpl: Count | None = None
    cache_prompt: bool = True
    id_slot: Annotated[int, Meta(ge=-1, le=1 << 16)] = -1
    n_keep: Annotated[int, Meta(ge=-1, le=1 << 31)] = 0
    n_indent: Annotated[int, Meta(ge=0, le=1 << 16)] = 0
    t_max_predict_ms: Annotated[float, Meta(ge=-1)] = -1
    timings_per_token: bool = False
    return_progress: bool = False
    post_sampling_probs: bool = False
    verbose: bool = False
    explain_cache: bool = False
    speculative: bool | None = None

    @property
    def stops(self) -> list[str]:
        """Return the stop strings."""
        return [self.stop] if isinstance(self.stop, str) else self.stop

    @property
    def count(self) -> int:
        """Return how many answers to each prompt are asked for."""
        return self.n_cmpl or self.n

    @property
    def limit(self) -> int | None:
        """Return the most tokens of an answer; -1: as many as fit, None: it does not say."""
        given = (self.n_predict, self.max_completion_tokens, self.max_tokens)
        return next((one for one in given if one is not None), None)


class Completion(Answer, kw_only=True):
    """A body of ``/v1/completions``."""

    prompt: Prompts
    suffix: str = ""
    echo: bool = False
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None


class Chat(Answer, kw_only=True):
    """A body of ``/v1/chat/completions``."""

    messages: Messages
    logprobs: bool = False
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] = 0
    response_format: Format = Format()
    tools: Tools = []
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] = "auto"
    functions: Annotated[list[dict[str, Any]], Meta(max_length=1000)] = []
    function_call: Literal["auto", "none"] | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    continue_final_message: bool | str | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] = {}
    enable_thinking: bool | None = None
    reasoning_effort: str | None = None
    reasoning_format: Literal["auto", "none", "deepseek", "deepseek-legacy"] = "auto"


class Embeddings(Struct, kw_only=True):
    """A body of ``/v1/embeddings``."""

    input: Prompts
    model: str = ""
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Count | None = None


def values_of(asked: Chat) -> dict[str, Any]:
    """Return the variables of the chat template that a request sets."""
    return template_values(
        asked.chat_template_kwargs, asked.enable_thinking, asked.reasoning_effort
    )


def template_values(
    given: dict[str, Any], thinks: bool | None, effort: str | None = None
) -> dict[str, Any]:
    """Return the variables of a chat template.

    Args:
        given: By name.
        thinks: Whether the model is to think before it answers; None: as the template has it.
        effort: OpenAI's ``reasoning_effort``.

    Source: llama.cpp, tools/server/server-common.cpp (``oaicompat_chat_params_parse``).
    """
    found = dict(given)
    thinks = False if effort == "none" else thinks
    if thinks is not None:
        found |= {"enable_thinking": thinks, "thinking": thinks}  # Qwen's name, and DeepSeek's
    if effort and effort != "none":
        found["reasoning_effort"] = effort
    return found


def schema_of(asked: Format, body: dict[str, Any], name: str = "response_format") -> str | None:
    """Return the JSON schema that OpenAI's ``response_format`` asks for; None: any text.

    Args:
        asked: The format.
        body: The request, which may ask for something else besides.
        name: What the request calls the format.

    Raises:
        UsageError: It names no schema, or a long one, or the request asks for two things at once.
    """
    wanted = {"text": "", "json_object": "schema"}.get(asked.type, asked.type)
    for field in ("schema", "json_schema"):
        if field != wanted and getattr(asked, field) is not None:
            raise UsageError(f"is not for the type {asked.type}", field=f"{name}.{field}")
    if asked.type == "text":
        return None
    for other in ("grammar", "json_schema"):
        if body.get(other) not in (None, ""):
            raise UsageError(f"and {other} exclude each other", field=name)
    schema = {"type": "object"} if asked.schema is None else asked.schema
    if asked.type == "json_schema":
        if asked.json_schema is None:
            raise UsageError("has no schema", field=f"{name}.json_schema")
        schema = asked.json_schema.schema
    text = msgspec.json.encode(schema).decode()
    if len(text) > MOST_GRAMMAR:
        raise UsageError(f"has more than {MOST_GRAMMAR} bytes", field=name)
    return text
