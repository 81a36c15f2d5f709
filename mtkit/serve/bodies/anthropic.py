"""Bodies of Anthropic's API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from mtkit.serve.bodies.fields import MANY, TEXT, Count, Stops, entry
from mtkit.serve.bodies.sampler import WithSampler

_TURN = {"enum": ["user", "assistant"]}
_ANTHROPIC = Meta(extra_json_schema=entry("role", "content", role=_TURN, content=TEXT))
Turns = Annotated[list[Annotated[dict[str, Any], _ANTHROPIC]], MANY]


class Tool(Struct, frozen=True):
    """A tool of Anthropic's API."""

    name: str
    input_schema: dict[str, Any]
    description: str = ""


class Choice(Struct, frozen=True):
    """Anthropic's ``tool_choice``."""

    type: Literal["auto", "any", "tool", "none"] = "auto"
    name: str = ""
    disable_parallel_tool_use: bool = False


class Thinking(Struct, frozen=True):
    """Anthropic's ``thinking``, which models here are not told of."""

    type: Literal["disabled"] = "disabled"


class MessageCount(Struct, kw_only=True):
    """A body of ``/v1/messages/count_tokens``."""

    messages: Turns
    model: str = ""
    system: str | list[dict[str, Any]] = ""
    tools: Annotated[list[Tool], Meta(max_length=1000)] = []
    tool_choice: Choice = Choice()
    thinking: Thinking = Thinking()


class Message(MessageCount, WithSampler, kw_only=True):
    """A body of ``/v1/messages``."""

    max_tokens: Count
    stop_sequences: Stops = []
    stream: bool = False
    explain_cache: bool = False
    speculative: bool | None = None
