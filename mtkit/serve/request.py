"""How the body of a request is read: its record, the settings of the sampler, unknown fields.

The settings of the sampler go by their names in docs/settings.md, which are llama.cpp's, too, and
OpenAI's where that has them.

Clients send fields that they know from other servers. Most can be ignored: such a field is noted
once by its name, and counted. A field that asks for something that mtkit cannot do is refused, and
with ``--strict`` every unknown field is.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextvars import ContextVar
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct
from starlette.requests import ClientDisconnect

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.serve.queue import Pace
from mtkit.serve.reply import ClientGone, Problem, while_connected
from mtkit.settings import SamplerSettings
from mtkit.settings.declaration import settings_of, table

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection, Mapping

    from starlette.requests import Request


_NO_EFFECT = frozenset((
    "user", "metadata", "store", "service_tier", "safety_identifier", "prompt_cache_key",
    "prompt_cache_retention", "verbosity", "stream_options", "context_management",
    # Ollama's: how a model is loaded is the server's
    "num_batch", "num_gpu", "main_gpu", "num_thread", "numa", "low_vram", "f16_kv", "logits_all",
    "vocab_only", "use_mmap", "use_mlock", "penalize_newline", "shift",
))  # fmt: skip
"""Fields of clients that change no answer here, accepted with ``--strict``, too."""
_HARMLESS_VALUES: dict[str, tuple[Any, ...]] = {
    # OpenAI's
    "audio": (), "modalities": (["text"],), "best_of": (1,),
    "conversation": (), "prompt": (), "background": (False,),
    # Anthropic's
    "mcp_servers": ([],), "container": (),
    # llama-server's
    "image_data": ([],), "multimodal_data": ([],),
    # vLLM's
    "guided_json": (), "guided_regex": (), "guided_choice": (), "guided_grammar": (),
    "structured_outputs": (), "use_beam_search": (False,), "prompt_logprobs": (),
}  # fmt: skip
"""Fields that ask for what cannot be given, and the values with which they do not."""
_MOST_NAMES = 100
"""Names that are counted one by one; any client can make up more."""


class UnknownFields:
    """The fields that nothing reads, of all requests to a server."""

    def __init__(
        self, *, strict: bool, count: Callable[[str, int], None], say: Callable[[str], None]
    ) -> None:
        """Take ``count``, called with names of fields and how many, and ``say``, once for each."""
        self._strict, self._count, self._say = strict, count, say
        self._names: set[str] = set()

    def check(self, fields: Mapping[str, Any], known: Collection[str] = ()) -> None:
        """Refuse or pass over the fields of one request that are not known.

        Only so many names are looked at as are ever noted: a body may have some 300,000.
        """
        for name, harmless in _HARMLESS_VALUES.items():
            value = fields.get(name)
            if value is None or name in known:
                continue
            if not any(type(value) is type(same) and value == same for same in harmless):
                values = " or ".join(msgspec.json.encode(same).decode() for same in harmless)
                what = f"only {values} is supported" if values else "is not supported"
                raise Problem(400, f"{name}: {what}", field=name)
        unknown = (n for n, value in fields.items() if value is not None and n not in known)
        names = list(islice(unknown, _MOST_NAMES))
        if self._strict:
            for name in (*names, *unknown):
                if name not in _NO_EFFECT and name not in _HARMLESS_VALUES:
                    raise Problem(400, f"{name[:100]}: is not a known field", field=name[:100])
        for name in names:
            name = name[:100]
            self.note(name, f"requests have the field {name}, which has no effect")
        if len(names) == _MOST_NAMES:
            rest = len(fields) - len(names) - sum(name in fields for name in known)
            if rest:
                self._count("others", rest)

    def leave_out(self, kind: str, field: str = "tools") -> None:
        """Refuse or leave out what is of a type that only other servers have."""
        kind = kind[:100]
        if self._strict:
            raise Problem(400, f"{field}: the type {kind} is not supported", field=field)
        self.note(f"{field}: {kind}", f"{field} of the type {kind} are left out")

    def note(self, name: str, text: str) -> None:
        """Count a name, and report it when it comes for the first time."""
        if name not in self._names and len(self._names) < _MOST_NAMES:
            self._names.add(name)
            self._say(text)
        self._count(name if name in self._names else "others", 1)


_DIGITS = 18
"""More than any length has; int() takes no more than 4,300."""
MOST_BODY = 4 << 20
"""Bytes of a body."""
MOST_MEDIA_BODY = 64 << 20
"""Where a model takes pictures or sounds."""
_FEW_BYTES, _MOST_FIELDS = 1 << 18, 100_000
"""Bytes of a body whose fields are not counted, and fields of a longer one: 300,000 take 150 ms to
be decoded, in which no token is chosen; to count them takes two."""
_SHORT_BYTES, _BYTE_SECONDS, _VALUE_SECONDS, _MOST_WAIT = 1 << 16, 5e-9, 2e-6, 2.0
"""Bytes of a body that is read at once, about the seconds that a byte and a value of a longer one
take until its work begins, and how long it waits for its turn."""
MOST_GRAMMAR = 64 << 10
"""Bytes of a grammar or a schema."""
MOST_GRAMMARS = 256 << 10
"""Bytes of the schemas of all tools of which one has to be called: about two seconds."""

T = TypeVar("T")


_receive: ContextVar[Callable[[], Awaitable[Any]] | None] = ContextVar("receive", default=None)
"""Says when the client of a request leaves, whose body is read."""


class Lane:
    """A thread for what takes long: one request's work after the other's, with pauses."""

    def __init__(self, name: str, pauses: int) -> None:
        self._executor, self._pace = ThreadPoolExecutor(1, name), Pace(pauses)

    async def run(self, work: Callable[[], T]) -> T:
        """Work in the thread, once it is this work's turn, unless the client has left."""
        future, receive = self._executor.submit(self._work, work), _receive.get()
        result = asyncio.wrap_future(future)
        shield = asyncio.shield(result)
        try:
            value: T = await (shield if receive is None else while_connected(receive, shield))
        except BaseException:
            if not future.cancel():  # what has begun needs the model
                await asyncio.wait({result})
                result.exception()
            raise
        return value

    def close(self) -> None:
        """Leave out what has not begun."""
        self._executor.shutdown(cancel_futures=True)

    def _work(self, work: Callable[[], T]) -> T:
        time.sleep(max(self._pace.start() - time.monotonic(), 0))
        start = time.thread_time()
        try:
            return work()
        finally:
            seconds = time.thread_time() - start
            self._pace.end(time.monotonic() - seconds, seconds)


grammars, long_texts = Lane("mtkit-compile", 2), Lane("mtkit-text", 1)
"""Eight grammars at once took twenty times as long as a neighbor's token."""


class BodyRoom:
    """Room for what long bodies hold, which takes some twenty times their bytes as objects.

    A request takes it before its body is decoded, and gives it back before what may take seconds:
    its answer, a grammar, vectors.
    """

    def __init__(self, most: int) -> None:
        """Have room for so many bytes of bodies, or for one that is longer."""
        self._most = self._left = most
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, request: Request, size: int) -> None:
        """Wait until there is room, unless the client leaves."""
        size = min(size, self._most)
        if not self._waiting and size <= self._left:
            self._left -= size
        else:
            future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((future, size))
            try:
                await while_connected(request.receive, future)
            except BaseException:
                if future.done() and not future.cancelled():  # just then
                    request.state.room = size
                raise
        request.state.room = size
        _state.set(request.scope["state"])

    def leave(self) -> None:
        """Give back what the current request has, if anything."""
        self.give(_state.get() or {})

    def give(self, state: dict[str, Any]) -> None:
        """Give back what the request of a state has, if anything."""
        self._left += state.pop("room", 0)
        while self._waiting and (self._waiting[0][0].done() or self._waiting[0][1] <= self._left):
            future, size = self._waiting.popleft()
            if not future.done():
                self._left -= size
                future.set_result(None)


_state: ContextVar[dict[str, Any] | None] = ContextVar("state", default=None)
"""The state of a request that has room."""
_reading, room = Pace(4), BodyRoom(1 << 20)
_JSON_KINDS: dict[type[Any], str] = {dict: "object", list: "list"}


async def _wait_for_turn(body: bytes) -> None:
    """Wait until a long body may be read."""
    start, now = _reading.start(), time.monotonic()
    if start - now > _MOST_WAIT:
        headers = {"retry-after": str(round(start - now))}
        raise Problem(503, "too many long requests at once", headers=headers)
    _reading.end(start, _BYTE_SECONDS * len(body) + _VALUE_SECONDS * body.count(b","))
    if start > now:
        await asyncio.sleep(start - now)


async def read_bytes(request: Request) -> bytes:
    """Return a request's body."""
    if hasattr(request.state, "body"):  # read for the name of a model
        body: bytes = request.state.body
        return body
    most = getattr(request.state, "most_body", MOST_BODY)
    too_long = Problem(413, f"the body has more than {most} bytes")
    length = request.headers.get("content-length", "0")
    if not length.isdecimal() or len(length) > _DIGITS or int(length) > most:
        raise too_long
    parts, size = [], 0
    try:
        async for part in request.stream():
            size += len(part)
            if size > most:
                raise too_long
            parts.append(part)
    except ClientDisconnect:
        raise ClientGone from None
    request.state.body = body = b"".join(parts)
    _receive.set(request.receive)
    if len(body) > _SHORT_BYTES:
        await _wait_for_turn(body)
    if len(body) > _FEW_BYTES:
        fields = body.count(b'":') + body.count(b'" :') - body.count(b'\\":')
        if fields > _MOST_FIELDS:
            raise Problem(413, f"the body has more than {_MOST_FIELDS} fields")
    return body


async def read_json(request: Request, kind: type[Any] = dict) -> Any:
    """Return the JSON of a request's body."""
    try:
        data = await read_bytes(request)
        if len(data) > _SHORT_BYTES:
            await room.take(request, len(data))
        body = msgspec.json.decode(data)
    except (msgspec.DecodeError, RecursionError) as error:
        raise Problem(400, f"the body is not valid JSON: {error}") from None
    except UnicodeDecodeError:
        raise Problem(400, "the body is not valid UTF-8") from None
    if not isinstance(body, kind):
        raise UsageError(f"is not a JSON {_JSON_KINDS[kind]}", field="body")
    return body


Stop = Annotated[str, Meta(max_length=1000)]
Stops = Annotated[list[Stop], Meta(max_length=256)]
Count = Annotated[int, Meta(ge=1, le=1 << 31)]
Limit = Annotated[int, Meta(ge=-1, le=1 << 31)]
"""A number of tokens; -1: as many as fit."""
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
    """Return a body as a record."""
    record = _record_of(kind, body)
    unknown.check(body, kind.__struct_fields__)
    return record


def _record_of(kind: type[S], body: dict[str, Any]) -> S:
    """Return the fields of a body that a record has."""
    values = {name: body[name] for name in kind.__struct_fields__ if body.get(name) is not None}
    try:
        return msgspec.convert(values, kind)
    except (msgspec.ValidationError, RecursionError) as error:
        raise validation_problem(str(error)) from None


def validation_problem(message: str) -> Problem:
    """Return msgspec's error in the words of the other errors."""
    what, _, place = message.partition(" - at `$")
    field = place.strip("`.")
    if missing := _MISSING.fullmatch(what):
        field, what = f"{field}.{missing[1]}".strip("."), "is missing"
    elif match := _EXPECTED.fullmatch(what):
        kinds = [_kind_name(kind) for kind in match[1].split(" | ") if kind != "null"]
        start = f"is {_kind_name(match[3])}, not" if match[3] else "is not"
        what = f"{start} {' or '.join(kinds)}{match[2]}"
    elif match := _INVALID.fullmatch(what):
        what = f"is {match[1]}, which is none of what can be chosen"
    return Problem(400, f"{field}: {what}" if field else what, field=field or None)


def _kind_name(kind: str) -> str:
    return _KINDS.get(kind, kind)


_MOST_BIASES = 1024
_PAIR = 2
_SAMPLER_NAMES = {
    alias: name for name, setting in table(SamplerSettings).items() for alias in setting.names
}


class Scale(Struct, frozen=True):
    """An adapter with its scale."""

    id: Annotated[int, Meta(ge=0, le=1 << 16)]
    scale: Annotated[float, Meta(ge=-1e6, le=1e6)] = 0.0


Scales = Annotated[list[Scale], Meta(max_length=1000)]


class WithSampler(Struct, kw_only=True):
    """A body that may hold settings of the sampler, too."""


B = TypeVar("B", bound=WithSampler)


def read_with_sampler(
    kind: type[B], body: dict[str, Any], defaults: SamplerSettings, unknown: UnknownFields
) -> tuple[B, SamplerSettings]:
    """Return a body as a record, and the settings of the sampler in it."""
    record, own = _record_of(kind, body), kind.__struct_fields__
    unknown.check(body, _names_with_sampler(kind))
    rest = {
        name: body[name]
        for name in _SAMPLER_NAMES
        if name not in own and body.get(name) is not None
    }
    if not rest:
        return record, defaults
    values = {_SAMPLER_NAMES[name]: value for name, value in rest.items()}
    if type(values.get("top_k")) is int:
        values["top_k"] = max(values["top_k"], 0) if values["top_k"] >= -1 else values["top_k"]
    if type(values.get("top_n_sigma")) in (int, float):
        values["top_n_sigma"] = max(values["top_n_sigma"], 0)
    if values.get("grammar") == "":
        del values["grammar"]
    if type(values.get("seed")) is int:
        values["seed"] = _read_seed(values["seed"])
    biases = _read_biases(values.pop("logit_bias")) if "logit_bias" in values else None
    schema = values.get("json_schema")
    if isinstance(schema, dict):
        values["json_schema"] = msgspec.json.encode(schema).decode()
    for name in ("grammar", "json_schema"):
        text = values.get(name)
        if isinstance(text, str) and len(text.encode("utf-8", "replace")) > MOST_GRAMMAR:
            raise Problem(400, f"{name}: has more than {MOST_GRAMMAR} bytes", field=name)
    try:
        settings = settings_of(SamplerSettings, values)
    except UsageError as error:  # by the name that the request has
        error.field = next((n for n in rest if _SAMPLER_NAMES[n] == error.field), error.field)
        raise
    changed = {name: getattr(settings, name) for name in values}
    if biases is not None:
        changed["logit_bias"] = tuple(biases)
    if values.keys() & {"grammar", "json_schema"}:
        changed = {"grammar": None, "json_schema": None, **changed}
    return record, replace(defaults, **changed)


@lru_cache
def _names_with_sampler(kind: type[WithSampler]) -> frozenset[str]:
    return frozenset((*kind.__struct_fields__, *_SAMPLER_NAMES))


def _read_seed(seed: int) -> int | None:
    """Return the seed of a request: of 64 bits, as clients draw them, half count; -1: none."""
    return None if seed == -1 else seed % (1 << 32) if -(1 << 63) <= seed < 1 << 64 else seed


def _read_biases(value: Any) -> list[tuple[int | str, float]]:
    """Return ``logit_bias``: an object from ids or texts to numbers, or a list of such pairs.

    False and -100 are never, 100 and -100 beyond doubt.
    """
    what = f"is not an object from ids to numbers, or a list of pairs, of at most {_MOST_BIASES}"
    pairs = list(value.items()) if isinstance(value, dict) else value
    if not isinstance(pairs, list) or len(pairs) > _MOST_BIASES:
        raise UsageError(what, field="logit_bias")
    biases: list[tuple[int | str, float]] = []
    for pair in pairs:
        if not isinstance(pair, (list, tuple)) or len(pair) != _PAIR:
            raise UsageError(what, field="logit_bias")
        name, bias = pair
        if type(name) not in (int, str) or not (type(bias) in (int, float) or bias is False):
            raise UsageError(what, field="logit_bias")
        never = bias is False or bias <= -100
        try:
            biases.append((name, float("-inf") if never else float(bias)))
        except OverflowError:
            raise UsageError("has a number of too many digits", field="logit_bias") from None
    return biases
