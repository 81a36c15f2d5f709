"""Bodies of OpenAI's ``/v1/responses``."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from mtkit.serve.bodies.fields import MANY, STRING, TEXT, Count, entry
from mtkit.serve.bodies.openai import Format, Schema
from mtkit.serve.bodies.sampler import WithSampler

_ITEM = Meta(extra_json_schema=entry(type=STRING, role=STRING, content=TEXT))
_TOOL = Meta(extra_json_schema=entry("type", type=STRING, name=STRING))
Items = Annotated[list[Annotated[dict[str, Any], _ITEM]], MANY]


class TextFormat(Struct, frozen=True):
    """The form of the answer's text."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    schema: dict[str, Any] | None = None

    @property
    def as_chat(self) -> Format:
        """Return it in the form of chat completions."""
        named = Schema(self.schema) if self.schema is not None else None
        return Format(self.type, json_schema=named)


class Text(Struct, frozen=True):
    """What is asked of the answer's text."""

    format: TextFormat = TextFormat()


class Reasoning(Struct, frozen=True):
    """What is asked of the reasoning."""

    effort: str | None = None


class Responses(WithSampler, kw_only=True):
    """A body of ``/v1/responses``."""

    input: str | Items
    model: str = ""
    instructions: str = ""
    stream: bool = False
    max_output_tokens: Count | None = None
    tools: Annotated[list[Annotated[dict[str, Any], _TOOL]], Meta(max_length=1000)] = []
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    text: Text = Text()
    reasoning: Reasoning = Reasoning()
    include: list[str] = []
    top_logprobs: Literal[0] = 0
    metadata: dict[str, Any] = {}
    chat_template_kwargs: dict[str, Any] = {}
    timings_per_token: bool = False
    return_progress: bool = False
    speculative: bool | None = None
