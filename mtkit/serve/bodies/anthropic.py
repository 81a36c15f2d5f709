"""Bodies of Anthropic's API."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from msgspec import Meta, Struct

from mtkit.serve.bodies.fields import TEXT, Count, Stops, entry
from mtkit.serve.bodies.sampler import WithSampler

_TURN = {"enum": ["user", "assistant", "system"]}
_ANTHROPIC = Meta(extra_json_schema=entry("role", "content", role=_TURN, content=TEXT))
Turns = Annotated[list[Annotated[dict[str, Any], _ANTHROPIC]], Meta(max_length=10_000)]


class Tool(Struct, frozen=True):
    """A tool of Anthropic's API; of those that Anthropic's servers know there is less."""

    name: str = ""
    input_schema: dict[str, Any] | None = None
    description: str = ""
    type: str | None = None


class Choice(Struct, frozen=True):
    """Anthropic's ``tool_choice``."""

    type: Literal["auto", "any", "tool", "none"] = "auto"
    name: str = ""
    disable_parallel_tool_use: bool = False


class Thinking(Struct, frozen=True):
    """Anthropic's ``thinking``."""

    type: Literal["enabled", "adaptive", "disabled"]
    budget_tokens: Count | None = None


class Output(Struct, frozen=True):
    """The form of an answer's text: a JSON schema."""

    type: Literal["json_schema"]
    schema: dict[str, Any]


class OutputConfig(Struct, frozen=True):
    """Anthropic's ``output_config``."""

    effort: str | None = None
    format: Output | None = None


class MessageCount(Struct, kw_only=True):
    """A body of ``/v1/messages/count_tokens``."""

    messages: Turns
    model: str = ""
    system: str | list[dict[str, Any]] = ""
    tools: Annotated[list[Tool], Meta(max_length=1000)] = []
    tool_choice: Choice = Choice()
    thinking: Thinking | None = None
    output_config: OutputConfig = OutputConfig()
    output_format: Output | None = None
    chat_template_kwargs: dict[str, Any] = {}

    @property
    def thinking_tokens(self) -> int | None:
        """How many tokens the model may think; None: the request does not say."""
        return self.thinking.budget_tokens if self.thinking is not None else None

    @property
    def thinks(self) -> bool | None:
        """Whether the model is to think before it answers; None: as it does by itself."""
        kind = self.thinking.type if self.thinking is not None else "adaptive"
        return None if kind == "adaptive" else kind == "enabled"


class Message(MessageCount, WithSampler, kw_only=True):
    """A body of ``/v1/messages``."""

    max_tokens: Count
    stop_sequences: Stops = []
    stream: bool = False
    explain_cache: bool = False
    speculative: bool | None = None
