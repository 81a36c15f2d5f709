"""The records of requests' JSON: OpenAI's, Anthropic's and llama-server's bodies.

Their names are those of the schemas in ``/openapi.json``. ``request`` reads them.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct

from mtkit.errors import UsageError
from mtkit.serve.request import (
    MANY,
    MOST_GRAMMAR,
    STRING,
    TEXT,
    Count,
    Id,
    Limit,
    Scales,
    Stop,
    Stops,
    WithSampler,
    object_schema,
)

_ROLE = {"enum": ["system", "developer", "user", "assistant", "tool"]}
_FUNCTION = object_schema("name", name=STRING, parameters={"type": "object"})
_OPENAI = Meta(extra_json_schema=object_schema("role", role=_ROLE, content=TEXT))
_OPENAI_TOOL = Meta(extra_json_schema=object_schema("function", function=_FUNCTION))
Messages = Annotated[list[Annotated[dict[str, Any], _OPENAI]], MANY]
Prompts = str | dict[str, Any] | list[Any]
"""See ``prompts_of``."""
Tools = Annotated[list[Annotated[dict[str, Any], _OPENAI_TOOL]], Meta(max_length=1000)]


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


class AnswerRequest(WithSampler, kw_only=True):
    """The fields that all requests for answers share in OpenAI's API and llama-server's."""

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
    lora: Scales = []

    @property
    def stops(self) -> list[str]:
        """Return the stop strings."""
        return [self.stop] if isinstance(self.stop, str) else self.stop

    @property
    def count(self) -> int:
        """Return the number of answers to each prompt."""
        return self.n_cmpl or self.n

    @property
    def limit(self) -> int | None:
        """Return the most tokens of an answer; -1: as many as fit, None: it does not say."""
        limits = (self.n_predict, self.max_completion_tokens, self.max_tokens)
        return next((limit for limit in limits if limit is not None), None)


class Completion(AnswerRequest, kw_only=True):
    """A body of ``/v1/completions``."""

    prompt: Prompts
    suffix: str = ""
    echo: bool = False
    logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None


class Chat(AnswerRequest, kw_only=True):
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


def template_variables(
    values: dict[str, Any], thinks: bool | None, effort: str | None = None
) -> dict[str, Any]:
    """Return the variables of a chat template.

    Args:
        thinks: Whether the model is to think before it answers; None: as the template has it.

    Source: llama.cpp, tools/server/server-common.cpp (``oaicompat_chat_params_parse``).
    """
    variables = dict(values)
    thinks = False if effort == "none" else thinks
    if thinks is not None:
        variables |= {"enable_thinking": thinks, "thinking": thinks}  # Qwen's name, and DeepSeek's
    if effort and effort != "none":
        variables["reasoning_effort"] = effort
    return variables


def schema_of(form: Format, body: dict[str, Any], name: str = "response_format") -> str | None:
    """Return the JSON schema that OpenAI's ``response_format`` asks for; None: any text."""
    own = {"text": "", "json_object": "schema"}.get(form.type, form.type)
    for field in ("schema", "json_schema"):
        if field != own and getattr(form, field) is not None:
            raise UsageError(f"is not for the type {form.type}", field=f"{name}.{field}")
    if form.type == "text":
        return None
    for other in ("grammar", "json_schema"):
        if body.get(other) not in (None, ""):
            raise UsageError(f"and {other} exclude each other", field=name)
    schema = {"type": "object"} if form.schema is None else form.schema
    if form.type == "json_schema":
        if form.json_schema is None:
            raise UsageError("has no schema", field=f"{name}.json_schema")
        schema = form.json_schema.schema
    text = msgspec.json.encode(schema).decode()
    if len(text) > MOST_GRAMMAR:
        raise UsageError(f"has more than {MOST_GRAMMAR} bytes", field=name)
    return text


_RESPONSES_ITEM = Meta(extra_json_schema=object_schema(type=STRING, role=STRING, content=TEXT))
_RESPONSES_TOOL = Meta(extra_json_schema=object_schema("type", type=STRING, name=STRING))
Items = Annotated[list[Annotated[dict[str, Any], _RESPONSES_ITEM]], MANY]


class TextFormat(Struct, frozen=True):
    """The form of the answer's text."""

    type: Literal["text", "json_object", "json_schema"] = "text"
    schema: dict[str, Any] | None = None

    @property
    def as_chat(self) -> Format:
        """Return it in the form of chat completions."""
        schema = Schema(self.schema) if self.schema is not None else None
        return Format(self.type, json_schema=schema)


class Text(Struct, frozen=True):
    """The options of the answer's text."""

    format: TextFormat = TextFormat()


class Reasoning(Struct, frozen=True):
    """The options of the reasoning."""

    effort: str | None = None


class Responses(WithSampler, kw_only=True):
    """A body of ``/v1/responses``."""

    input: str | Items
    model: str = ""
    instructions: str = ""
    stream: bool = False
    max_output_tokens: Count | None = None
    tools: Annotated[list[Annotated[dict[str, Any], _RESPONSES_TOOL]], Meta(max_length=1000)] = []
    tool_choice: Literal["auto", "none", "required"] | dict[str, Any] = "auto"
    parallel_tool_calls: bool = True
    text: Text = Text()
    reasoning: Reasoning = Reasoning()
    include: list[str] = []
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] = 0
    previous_response_id: str | None = None
    truncation: Literal["auto", "disabled"] = "disabled"
    store: bool = True
    metadata: dict[str, Any] = {}
    chat_template_kwargs: dict[str, Any] = {}
    timings_per_token: bool = False
    return_progress: bool = False
    speculative: bool | None = None
    lora: Scales = []


_TURN = {"enum": ["user", "assistant", "system"]}
_ANTHROPIC = Meta(extra_json_schema=object_schema("role", "content", role=_TURN, content=TEXT))
Turns = Annotated[list[Annotated[dict[str, Any], _ANTHROPIC]], MANY]


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
    lora: Scales = []


Probabilities = Annotated[int, Meta(ge=0, le=1000)]


class Complete(AnswerRequest, kw_only=True):
    """A body of ``/completion``."""

    prompt: Prompts
    n_probs: Probabilities = 0
    logprobs: Probabilities = 0
    return_tokens: bool = False
    response_fields: list[str] = []


class Extra(Struct, frozen=True):
    """A piece of another file in ``/infill``."""

    text: str
    filename: str = "tmp"


class Infill(Complete, kw_only=True):
    """A body of ``/infill``."""

    prompt: str = ""
    input_prefix: str
    input_suffix: str
    input_extra: list[Extra] = []


class Saved(Struct, kw_only=True):
    """A body of ``/slots/ID`` that names a file."""

    filename: str = ""


class Tokenize(Struct, kw_only=True):
    """A body of ``/tokenize``."""

    content: Prompts
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class Detokenize(Struct, kw_only=True):
    """A body of ``/detokenize``."""

    tokens: list[Id]
    special: bool = True


class Embedding(Struct, kw_only=True):
    """A body of ``/embedding``."""

    content: Prompts | None = None
    input: Prompts | None = None
    embd_normalize: Annotated[int, Meta(ge=-1, le=64)] = 2


class Rerank(Struct, kw_only=True):
    """A body of ``/rerank``; ``texts`` is what text-embeddings-inference calls the documents."""

    query: str
    documents: Annotated[list[str], Meta(max_length=10_000)] = []
    texts: Annotated[list[str], Meta(max_length=10_000)] = []
    top_n: Annotated[int, Meta(ge=0)] | None = None
    return_text: bool = False
