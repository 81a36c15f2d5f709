"""What the JSON of a request may say; whatever else it says is refused by name.

Settings of the sampler go by their names in docs/settings.md, which are llama.cpp's, too, and
OpenAI's where that has them.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeVar

import msgspec
from msgspec import Meta, Struct

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.serve.replies import Problem
from mtkit.settings import SamplerSettings
from mtkit.settings.declaration import fitted, settings_of, table

MOST_BODY = 4 << 20
MOST_CHOICES = 16
MOST_GRAMMAR = 64 << 10
"""Bytes of a grammar or a schema."""
_MOST_BIASES = 1024
_NO_EFFECT = frozenset((
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention",
))  # fmt: skip
"""What the clients send and what changes no answer here."""
_ONLY = {"best_of": 1, "cache_prompt": True, "echo": False}
"""What is done in any case; other values cannot be had."""
_SAMPLER = {alias: name for name, one in table(SamplerSettings).items() for alias in one.names}

Stop = Annotated[str, Meta(max_length=1000)]
Stops = Annotated[list[Stop], Meta(max_length=16)]
Count = Annotated[int, Meta(ge=1, le=1 << 31)]
Id = Annotated[int, Meta(ge=0, lt=1 << 31)]


def _entry(*required: str, **properties: Any) -> dict[str, Any]:
    """Return what /openapi.json says of an object that is read when it is used."""
    return {"type": "object", "properties": properties, "required": list(required)}


_STRING = {"type": "string"}
_TEXT = {"anyOf": [_STRING, {"type": "array", "items": _entry("text", text=_STRING)}]}
_ROLE = {"enum": ["system", "developer", "user", "assistant", "tool"]}
_TURN = {"enum": ["user", "assistant"]}
_FUNCTION = _entry("name", name=_STRING, parameters={"type": "object"})
_OPENAI = Meta(extra_json_schema=_entry("role", role=_ROLE, content=_TEXT))
_ANTHROPIC = Meta(extra_json_schema=_entry("role", "content", role=_TURN, content=_TEXT))
_TOOL = Meta(extra_json_schema=_entry("function", function=_FUNCTION))
_MANY = Meta(min_length=1, max_length=10_000)
Messages = Annotated[list[Annotated[dict[str, Any], _OPENAI]], _MANY]
Turns = Annotated[list[Annotated[dict[str, Any], _ANTHROPIC]], _MANY]
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


class Answer(Struct, kw_only=True):
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


class MessageCount(Struct, kw_only=True):
    """A body of ``/v1/messages/count_tokens``."""

    messages: Turns
    model: str = ""
    system: str | list[dict[str, Any]] = ""
    tools: Annotated[list[Tool], Meta(max_length=1000)] = []
    tool_choice: Choice = Choice()
    thinking: Thinking = Thinking()


class Message(MessageCount, kw_only=True):
    """A body of ``/v1/messages``."""

    max_tokens: Count
    stop_sequences: Stops = []
    stream: bool = False
    explain_cache: bool = False
    speculative: bool | None = None


class Tokenize(Struct, kw_only=True):
    """A body of ``/tokenize``."""

    content: str
    add_special: bool = False
    parse_special: bool = True
    with_pieces: bool = False


class Detokenize(Struct, kw_only=True):
    """A body of ``/detokenize``."""

    tokens: list[Id]
    special: bool = True


class ApplyTemplate(Struct, kw_only=True):
    """A body of ``/apply-template``."""

    messages: Messages
    tools: Tools = []


_MISSING = re.compile(r"Object missing required field `(.+)`")
_EXPECTED = re.compile(r"Expected `([^`]+)`([^,]*)(?:, got `([^`]+)`)?")
_CHOSEN = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_KINDS = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text",
    "array": "a list", "object": "an object",
}  # fmt: skip

WITH_SAMPLER = (Completion, Chat, Message)
"""Bodies that may hold settings of the sampler, too."""

S = TypeVar("S", bound=Struct)


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


def read(kind: type[S], body: dict[str, Any]) -> S:
    """Return a body that says nothing of samplers.

    Raises:
        Problem: Something is missing, of another type, out of range or not known.
    """
    return _split(kind, body)[0]


def read_with_sampler(
    kind: type[S], body: dict[str, Any], defaults: SamplerSettings
) -> tuple[S, SamplerSettings]:
    """Return a body, and the sampler's settings in it.

    Raises:
        Problem: As ``read``.
        UsageError: A setting of the sampler makes no sense.
    """
    found, rest = _split(kind, body, allowed=_SAMPLER)
    given = {_SAMPLER[name]: value for name, value in rest.items()}
    if type(given.get("top_k")) is int:
        given["top_k"] = max(given["top_k"], 0) if given["top_k"] >= -1 else given["top_k"]
    if type(given.get("seed")) is int:
        given["seed"] = _seed(given["seed"])
    if "logit_bias" in given:
        given["logit_bias"] = _biases(given["logit_bias"])
    schema = given.get("json_schema")
    if isinstance(schema, dict):
        given["json_schema"] = msgspec.json.encode(schema).decode()
    for name in ("grammar", "json_schema"):
        text = given.get(name)
        if isinstance(text, str) and len(text.encode("utf-8", "replace")) > MOST_GRAMMAR:
            raise Problem(400, f"{name}: has more than {MOST_GRAMMAR} bytes", field=name)
    try:
        made = settings_of(SamplerSettings, given)
    except UsageError as error:  # by the name that the request has
        error.field = next((n for n in rest if _SAMPLER[n] == error.field), error.field)
        raise
    changed = {name: getattr(made, name) for name in given}
    if given.keys() & {"grammar", "json_schema"}:
        changed = {"grammar": None, "json_schema": None, **changed}
    return found, replace(defaults, **changed)


def _split(
    kind: type[S], body: dict[str, Any], allowed: dict[str, str] | None = None
) -> tuple[S, dict[str, Any]]:
    own = kind.__struct_fields__
    given = {name: value for name, value in body.items() if value is not None}
    rest = {name: value for name, value in given.items() if name not in own}
    for name, value in rest.items():
        only = _ONLY.get(name)
        if only is not None and (type(value) is not type(only) or value != only):
            what = f"{name}: is not {str(only).lower()}; nothing else is done here"
            raise Problem(400, what, field=name)
        if name not in _NO_EFFECT and name not in _ONLY and name not in (allowed or {}):
            raise Problem(400, f"{name[:100]}: is not known here", field=name[:100])
    try:
        found = msgspec.convert({name: given[name] for name in own if name in given}, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise _misread(str(error)) from None
    return found, {name: value for name, value in rest.items() if name in (allowed or {})}


def _seed(given: int) -> int | None:
    """Return the seed of a request: of 64 bits, as clients draw them, half count; -1: none."""
    return None if given == -1 else given % (1 << 32) if -(1 << 63) <= given < 1 << 64 else given


def _misread(said: str) -> Problem:
    """Return msgspec's error in the words of the other errors."""
    what, _, place = said.partition(" - at `$")
    field = place.strip("`.")
    if missing := _MISSING.fullmatch(what):
        field, what = f"{field}.{missing[1]}".strip("."), "is missing"
    elif found := _EXPECTED.fullmatch(what):
        wanted = [_named(kind) for kind in found[1].split(" | ") if kind != "null"]
        given = f"is {_named(found[3])}, not" if found[3] else "is not"
        what = f"{given} {' or '.join(wanted)}{found[2]}"
    elif found := _CHOSEN.fullmatch(what):
        what = f"is {found[1]}, which is none of what can be chosen"
    return Problem(400, f"{field}: {what}" if field else what, field=field or None)


def _named(kind: str) -> str:
    return _KINDS.get(kind, kind)


def _biases(given: Any) -> list[tuple[int, float]]:
    """Return OpenAI's ``logit_bias``: an object from ids to numbers, 100 and -100 beyond doubt."""
    if not isinstance(given, dict) or len(given) > _MOST_BIASES:
        raise UsageError(f"is not an object of at most {_MOST_BIASES} ids", field="logit_bias")
    found = []
    for name, value in given.items():
        if not name.isdecimal() or len(name) > 9 or type(value) not in (int, float):
            raise UsageError("is not an object from ids to numbers", field="logit_bias")
        bias = float("-inf") if value <= -100 else fitted(value, float, "logit_bias")
        found.append((int(name), bias))
    return found


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
