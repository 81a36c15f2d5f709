"""How the body of a request is read: into its record, the sampler's settings, and what is left.

The settings of the sampler go by their names in docs/settings.md, which are llama.cpp's, too, and
OpenAI's where that has them.

Most fields that nothing reads change no answer, or can be passed over: clients send what they know
of other servers. Such a field is taken, told of once by its name, and counted. One that asks for
what cannot be given is refused by name, and with ``--strict`` every field that is not known is.
"""

from __future__ import annotations

import re
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.serve.reply import Problem
from mtkit.settings import SamplerSettings
from mtkit.settings.declaration import coerce, settings_of, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


_NO_EFFECT = frozenset((
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "truncation", "verbosity", "stream_options", "context_management",
))  # fmt: skip
"""What clients send and what changes no answer here, taken with ``--strict``, too."""
_HARMLESS_VALUES: dict[str, tuple[Any, ...]] = {
    # OpenAI's
    "audio": (), "modalities": (["text"],), "best_of": (1,), "web_search_options": (),
    "previous_response_id": (), "conversation": (), "prompt": (), "background": (False,),
    # Anthropic's
    "mcp_servers": ([],), "container": (),
    # llama-server's
    "image_data": ([],), "multimodal_data": ([],), "lora": ([],),
    # vLLM's
    "guided_json": (), "guided_regex": (), "guided_choice": (), "guided_grammar": (),
    "structured_outputs": (), "use_beam_search": (False,), "prompt_logprobs": (),
}  # fmt: skip
"""Fields that ask for what cannot be given, and the values with which they do not."""
_NOT_SUPPORTED = "is not supported"
_MOST_NAMES = 100
"""That are told apart; any client can make up more."""


class UnknownFields:
    """Sees to the fields that nothing reads, of all requests to a server."""

    def __init__(
        self, *, strict: bool, count: Callable[[str], None], say: Callable[[str], None]
    ) -> None:
        """Begin to see to them."""
        self._strict, self._count, self._say = strict, count, say
        self._told: set[str] = set()

    def see(self, fields: Mapping[str, Any]) -> None:
        """See to the fields of one request."""
        for name, value in fields.items():
            harmless = _HARMLESS_VALUES.get(name)
            if harmless is not None:
                if not any(type(value) is type(one) and value == one for one in harmless):
                    known = " or ".join(msgspec.json.encode(one).decode() for one in harmless)
                    what = f"only {known} is supported" if known else _NOT_SUPPORTED
                    raise Problem(400, f"{name}: {what}", field=name)
            elif self._strict and name not in _NO_EFFECT:
                raise Problem(400, f"{name[:100]}: is not a known field", field=name[:100])
            name = name[:100]
            self._pass(name, f"requests have the field {name}, which has no effect")

    def leave_out(self, kind: str) -> None:
        """See to a tool of a type that only other servers have."""
        if self._strict:
            raise Problem(400, f"tools: the type {kind[:100]} is not supported", field="tools")
        self._pass(f"tools: {kind[:100]}", f"tools of the type {kind[:100]} are left out")

    def _pass(self, name: str, said: str) -> None:
        if name not in self._told and len(self._told) < _MOST_NAMES:
            self._told.add(name)
            self._say(said)
        self._count(name if name in self._told else "others")


MOST_BODY = 4 << 20
MOST_GRAMMAR = 64 << 10
"""Bytes of a grammar or a schema."""

Stop = Annotated[str, Meta(max_length=1000)]
Stops = Annotated[list[Stop], Meta(max_length=256)]
Count = Annotated[int, Meta(ge=1, le=1 << 31)]
Limit = Annotated[int, Meta(ge=-1, le=1 << 31)]
"""Of tokens; -1: as many as fit."""
Id = Annotated[int, Meta(ge=0, lt=1 << 31)]


def object_schema(*required: str, **properties: Any) -> dict[str, Any]:
    """Return what /openapi.json says of an object that is read when it is used."""
    return {"type": "object", "properties": properties, "required": list(required)}


STRING = {"type": "string"}
TEXT = {"anyOf": [STRING, {"type": "array", "items": object_schema("text", text=STRING)}]}
MANY = Meta(min_length=1, max_length=10_000)


_MISSING = re.compile(r"Object missing required field `(.+)`")
_EXPECTED = re.compile(r"Expected `([^`]+)`([^,]*)(?:, got `([^`]+)`)?")
_INVALID = re.compile(r"Invalid enum value (.+)", re.DOTALL)
_KINDS = {
    "int": "a whole number", "float": "a number", "bool": "true or false", "str": "a text",
    "array": "a list", "object": "an object",
}  # fmt: skip

S = TypeVar("S", bound=Struct)


def read_body(kind: type[S], body: dict[str, Any], unknown: UnknownFields) -> S:
    """Return a body.

    Args:
        unknown: What becomes of fields that the record does not have.
    """
    found, rest = split_body(kind, body)
    unknown.see(rest)
    return found


def split_body(kind: type[S], body: dict[str, Any]) -> tuple[S, dict[str, Any]]:
    """Return a body, and the fields that its record does not have."""
    own = kind.__struct_fields__
    given = {name: value for name, value in body.items() if value is not None}
    rest = {name: value for name, value in given.items() if name not in own}
    try:
        found = msgspec.convert({name: given[name] for name in own if name in given}, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise validation_problem(str(error)) from None
    return found, rest


def validation_problem(said: str) -> Problem:
    """Return msgspec's error in the words of the other errors."""
    what, _, place = said.partition(" - at `$")
    field = place.strip("`.")
    if missing := _MISSING.fullmatch(what):
        field, what = f"{field}.{missing[1]}".strip("."), "is missing"
    elif found := _EXPECTED.fullmatch(what):
        wanted = [_kind_name(kind) for kind in found[1].split(" | ") if kind != "null"]
        given = f"is {_kind_name(found[3])}, not" if found[3] else "is not"
        what = f"{given} {' or '.join(wanted)}{found[2]}"
    elif found := _INVALID.fullmatch(what):
        what = f"is {found[1]}, which is none of what can be chosen"
    return Problem(400, f"{field}: {what}" if field else what, field=field or None)


def _kind_name(kind: str) -> str:
    return _KINDS.get(kind, kind)


_MOST_BIASES = 1024
_PAIR = 2
_ID_DIGITS = 10
"""Of a number that can be an id."""
_SAMPLER_NAMES = {
    alias: name for name, one in table(SamplerSettings).items() for alias in one.names
}


class WithSampler(Struct, kw_only=True):
    """A body that may hold settings of the sampler, too."""


B = TypeVar("B", bound=WithSampler)


def read_with_sampler(
    kind: type[B], body: dict[str, Any], defaults: SamplerSettings, unknown: UnknownFields
) -> tuple[B, SamplerSettings]:
    """Return a body, and the sampler's settings in it."""
    found, rest = split_body(kind, body)
    unknown.see({name: value for name, value in rest.items() if name not in _SAMPLER_NAMES})
    rest = {name: value for name, value in rest.items() if name in _SAMPLER_NAMES}
    given = {_SAMPLER_NAMES[name]: value for name, value in rest.items()}
    if type(given.get("top_k")) is int:
        given["top_k"] = max(given["top_k"], 0) if given["top_k"] >= -1 else given["top_k"]
    if type(given.get("top_n_sigma")) in (int, float):
        given["top_n_sigma"] = max(given["top_n_sigma"], 0)
    if given.get("grammar") == "":
        del given["grammar"]
    if type(given.get("seed")) is int:
        given["seed"] = _read_seed(given["seed"])
    if "logit_bias" in given:
        given["logit_bias"] = _read_biases(given["logit_bias"])
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
        error.field = next((n for n in rest if _SAMPLER_NAMES[n] == error.field), error.field)
        raise
    changed = {name: getattr(made, name) for name in given}
    if given.keys() & {"grammar", "json_schema"}:
        changed = {"grammar": None, "json_schema": None, **changed}
    return found, replace(defaults, **changed)


def _read_seed(given: int) -> int | None:
    """Return the seed of a request: of 64 bits, as clients draw them, half count; -1: none."""
    return None if given == -1 else given % (1 << 32) if -(1 << 63) <= given < 1 << 64 else given


def _read_biases(given: Any) -> list[tuple[int | str, float]]:
    """Return ``logit_bias``: an object from ids or texts to numbers, or a list of such pairs.

    False and -100 are never, 100 and -100 beyond doubt.
    """
    what = f"is not an object from ids to numbers, or a list of pairs, of at most {_MOST_BIASES}"
    pairs = list(given.items()) if isinstance(given, dict) else given
    if not isinstance(pairs, list) or len(pairs) > _MOST_BIASES:
        raise UsageError(what, field="logit_bias")
    found: list[tuple[int | str, float]] = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != _PAIR:
            raise UsageError(what, field="logit_bias")
        name, value = pair
        if isinstance(name, str) and name.isdecimal() and len(name) < _ID_DIGITS:
            name = int(name)
        if type(name) not in (int, str) or not (type(value) in (int, float) or value is False):
            raise UsageError(what, field="logit_bias")
        never = value is False or value <= -100
        found.append((name, float("-inf") if never else coerce(value, float, "logit_bias")))
    return found
