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
    Id,
    Stop,
    Stops,
    entry,
)
from mtkit.serve.bodies.sampler import WithSampler
from mtkit.serve.replies import Problem

MOST_CHOICES = 16
_ROLE = {"enum": ["system", "developer", "user", "assistant", "tool"]}
_FUNCTION = entry("name", name=STRING, parameters={"type": "object"})
_OPENAI = Meta(extra_json_schema=entry("role", role=_ROLE, content=TEXT))
_TOOL = Meta(extra_json_schema=entry("function", function=_FUNCTION))
Messages = Annotated[list[Annotated[dict[str, Any], _OPENAI]], MANY]
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
    """What a request of OpenAI's API for an answer may say."""

    model: str = ""
    stream: bool = False
    stop: Stop | Stops = []
    max_tokens: Count | None = None
    n: Annotated[int, Meta(ge=1, le=MOST_CHOICES)] = 1
    stream_options: StreamOptions = StreamOptions()
    explain_cache: bool = False
    speculative: bool | None = None

    @property
    def stops(self) -> list[str]:
        """Return the stop strings."""
        return [self.stop] if isinstance(self.stop, str) else self.stop


class Completion(Answer, kw_only=True):
    """A body of ``/v1/completions``."""

    prompt: str | list[str | Id | list[Id]]
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None


class Chat(Answer, kw_only=True):
    """A body of ``/v1/chat/completions``."""

    messages: Messages
    max_completion_tokens: Count | None = None
    logprobs: bool = False
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] = 0
    response_format: Format = Format()
    tools: Tools = []
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    continue_final_message: bool | str | None = None
    add_generation_prompt: bool | None = None
    chat_template_kwargs: dict[str, Any] = {}


def prompts_of(given: str | list[str | int | list[int]]) -> list[str | list[int]]:
    """Return the prompts of a completion: one text or list of ids, or several.

    Raises:
        Problem: It is a mixture, or there is none.
    """
    if isinstance(given, str):
        return [given]
    single = [one for one in given if isinstance(one, int)]
    if not given or (single and len(single) < len(given)):
        raise Problem(400, "prompt: is not a text, ids, or a list of them", field="prompt")
    return [single] if single else [one for one in given if not isinstance(one, int)]


def schema_of(asked: Format) -> str | None:
    """Return the JSON schema that OpenAI's ``response_format`` asks for; None: any text.

    Raises:
        UsageError: It names no schema, or a long one.
    """
    if asked.type == "text":
        return None
    schema = {"type": "object"} if asked.schema is None else asked.schema
    if asked.type == "json_schema":
        if asked.json_schema is None:
            raise UsageError("has no schema", field="response_format.json_schema")
        schema = asked.json_schema.schema
    text = msgspec.json.encode(schema).decode()
    if len(text) > MOST_GRAMMAR:
        raise UsageError(f"has more than {MOST_GRAMMAR} bytes", field="response_format")
    return text
