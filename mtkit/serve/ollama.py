"""Ollama's routes for answers: ``/api/chat``, ``/api/generate``, ``/api/embed``.

Source: Ollama, docs/api.md and api/types.go for names and shapes; server/routes.go for what happens
without a prompt; what the ``ollama`` package reads.
"""

from __future__ import annotations

import time
from datetime import datetime, timezone
from typing import Any

import msgspec

from mtkit.base.record import replace
from mtkit.chat.answer import CallStart, CallText, Thought
from mtkit.errors import UsageError
from mtkit.llm.vectors import normalize
from mtkit.serve.answer import Answers, Reply, send_reply
from mtkit.serve.conversation import arguments_of, tools_from_openai
from mtkit.serve.job import JobEnd
from mtkit.serve.model import translate
from mtkit.serve.ollama_request import (
    OllamaChat,
    OllamaEmbed,
    OllamaGenerate,
    keep_seconds,
    messages_from_ollama,
    picture_parts,
    read_answer_request,
    schema_of,
    terms_of,
    variables_of,
)
from mtkit.serve.prompt import Fim, prompt_ids
from mtkit.serve.reply import Problem, error_body, json_response, problem_of, while_connected
from mtkit.serve.request import read_body, read_json
from mtkit.serve.shortening import cut_prompt, shorten_conversation
from mtkit.serve.tool import AnswerParser

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.chat.answer import Part
    from mtkit.serve.job import Piece
    from mtkit.serve.model import ServedModel


async def chat(request: Request, served: ServedModel) -> Response:
    """Answer a conversation, in Ollama's shape."""
    start = time.perf_counter()
    fields, sampler = await read_answer_request(request, OllamaChat, served)
    clock = _Clock(served, request, start)
    if not fields.messages:
        message = {"message": {"role": "assistant", "content": ""}}
        return json_response({**clock.head(), **message, **_loading(request)})
    media = served.open_media()
    conversation = await translate(request, lambda: served.conversation(
        messages_from_ollama(fields.messages, media), tools_from_openai(fields.tools), "auto",
        variables_of(fields, served), several=True, media=media,
    ))  # fmt: skip
    terms, schema = terms_of(fields, sampler, served), schema_of(fields)
    if fields.truncate:
        conversation = await shorten_conversation(served, conversation, "truncate")
    ids, terms = await served.chat_terms(conversation, terms, schema)
    parser = conversation.tools.parser(served.tail(ids))
    reply = ChatReply(clock, Answers(served, [ids], terms), parser)
    return await send_reply(request, reply, streams=fields.stream)


async def generate(request: Request, served: ServedModel) -> Response:
    """Continue a prompt, in Ollama's shape."""
    start = time.perf_counter()
    fields, sampler = await read_answer_request(request, OllamaGenerate, served)
    clock = _Clock(served, request, start)
    media, pictures = served.open_media(), picture_parts(fields.images)
    prompt = "".join(media.mark(part, "images") for part in pictures) + fields.prompt
    if fields.raw and (fields.template or fields.system or fields.context):
        raise Problem(400, "raw mode does not support template, system, or context")
    if fields.template:
        what = "is not supported: the model's own chat template is used"
        raise UsageError(what, field="template", hint="send a whole prompt with raw: true")
    if not fields.prompt and not fields.suffix:
        return json_response({**clock.head(), "response": "", **_loading(request)})
    terms, schema, parser = terms_of(fields, sampler, served), schema_of(fields), AnswerParser(None)
    if fields.suffix:
        if media.media:
            raise UsageError("does not go with pictures and sounds", field="suffix")
        ids = await Fim(served, suffix_first=served.settings.spm_infill).ids(
            fields.prompt, fields.suffix, limit=terms.limit
        )
    elif fields.raw or (served.is_chatml and not fields.system):
        ids = await prompt_ids(served, [prompt], media)
        terms = replace(terms, chunks=media.chunks)
    else:
        texts = (("system", fields.system), ("user", prompt))
        messages = [{"role": role, "content": text} for role, text in texts if text]
        conversation = served.conversation(
            messages, [], "none", variables_of(fields, served), several=True, media=media
        )
        ids, terms = await served.chat_terms(conversation, terms, schema)
        parser = conversation.tools.parser(served.tail(ids))
        schema = None
    if schema is not None:
        sampler = replace(terms.sampler, grammar=None, json_schema=schema)
        terms = replace(terms, sampler=await served.check_grammar(sampler))
    if fields.context:
        begins = served.model.add_bos and ids[:1] == [served.model.bos]
        ids = [*fields.context, *ids[begins:]]
    if fields.truncate and not fields.suffix and not pictures:
        ids = cut_prompt(served, ids, fields.num_keep)
    reply = GenerateReply(clock, Answers(served, [ids], terms), parser, has_context=not fields.raw)
    return await send_reply(request, reply, streams=fields.stream)


def _loading(request: Request) -> dict[str, Any]:
    """Return the end of an answer to no prompt, which asks for a model to be loaded or unloaded."""
    unloads = getattr(request.state, "keep", None) == 0
    return {"done": True, "done_reason": "unload" if unloads else "load"}


class _Clock:
    """The name of a model, and the times of a request."""

    def __init__(self, served: ServedModel, request: Request, start: float) -> None:
        self.served = served
        self._load = getattr(request.state, "load_seconds", 0.0)
        self._start = start - self._load

    def head(self) -> dict[str, Any]:
        """Return what every line of an answer begins with."""
        return {"model": self.served.name, "created_at": timestamp(time.time())}

    def figures(self, answers: Answers) -> dict[str, Any]:
        """Return the end of an answer; times are in nanoseconds."""
        end = answers.ends[0]
        return {
            "done": True,
            "done_reason": "length" if end.end == "length" else "stop",
            **self.durations(),
            "prompt_eval_count": answers.prompt_tokens,
            "prompt_eval_duration": _nanoseconds(end.prompt_seconds),
            "eval_count": end.generated,
            "eval_duration": _nanoseconds(end.seconds),
        }

    def durations(self) -> dict[str, int]:
        """Return how long the request took, and the loading of its model."""
        return {
            "total_duration": _nanoseconds(time.perf_counter() - self._start),
            "load_duration": _nanoseconds(self._load),
        }


def _nanoseconds(seconds: float) -> int:
    return round(seconds * 1e9)


def timestamp(seconds: float) -> str:
    """Return a time as RFC 3339 has it."""
    text = datetime.fromtimestamp(seconds, timezone.utc).isoformat(timespec="microseconds")
    return text.replace("+00:00", "Z")


class OllamaReply(Reply):
    """A reply of lines of JSON, or of one object."""

    media_type = "application/x-ndjson"

    def __init__(self, clock: _Clock, answers: Answers, parser: AnswerParser) -> None:
        super().__init__(answers)
        self._clock, self._parser = clock, parser
        self._text, self._thoughts = list[str](), list[str]()
        self._calls, self._rows = list[dict[str, Any]](), list[dict[str, Any]]()
        self._call: CallStart | None = None
        self._arguments = list[str]()
        self.ids: list[int] = []

    def encode(self, value: Any) -> bytes:
        """Return a line."""
        return msgspec.json.encode(value) + b"\n"

    def keep_alive(self) -> bytes:
        """Return a space, which may stand before any JSON."""
        return b" "

    def failure(self, path: str, error: Exception) -> bytes:
        """Return a line with the error."""
        return self.encode(error_body(path, problem_of(error)))

    def shape(self, text: str, thoughts: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a part of the answer, or all of it."""
        raise NotImplementedError

    def handle(self, _: int, event: Piece | JobEnd) -> Iterator[dict[str, Any]]:
        """Yield the lines of an event."""
        rows = self._read_token(event)
        for part in self._parser.read(event):
            for line in self._add(part):
                yield {**line, **rows}
                rows = {}
        if rows:
            yield {**self._line("", "", []), **rows}

    def closing(self) -> Iterator[dict[str, Any]]:
        """Yield the last lines."""
        if call := self._end_call():
            yield self._line("", "", [call])
        yield {
            **self._clock.head(), **self.shape("", "", []), **self._clock.figures(self.answers),
            **self.extra(),
        }  # fmt: skip

    def whole(self) -> dict[str, Any]:
        """Return the answer."""
        self._end_call()
        return {
            **self._clock.head(),
            **self.shape("".join(self._text), "".join(self._thoughts), self._calls),
            **({"logprobs": self._rows} if self._rows else {}),
            **self._clock.figures(self.answers),
            **self.extra(),
        }

    def extra(self) -> dict[str, Any]:
        """Return what else the end of the answer has."""
        return {}

    def _line(self, text: str, thoughts: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        return {**self._clock.head(), **self.shape(text, thoughts, calls), "done": False}

    def _add(self, part: Part) -> Iterator[dict[str, Any]]:
        if isinstance(part, CallText):
            self._arguments.append(part.text)
            return
        if call := self._end_call():
            yield self._line("", "", [call])
        if isinstance(part, CallStart):
            self._call = part
        elif isinstance(part, Thought):
            if part.text:
                self._thoughts.append(part.text)
                yield self._line("", part.text, [])
        elif part:
            self._text.append(part)
            yield self._line(part, "", [])

    def _end_call(self) -> dict[str, Any] | None:
        """Return the call that is whole now: its arguments are an object here, so they come last.

        Those of a call that the limit cut have none.
        """
        call, self._call = self._call, None
        if call is None:
            return None
        arguments = arguments_of("".join(self._arguments))
        self._arguments.clear()
        own = {
            "index": len(self._calls),
            "name": call.name,
            "arguments": arguments if isinstance(arguments, dict) else {},
        }
        self._calls.append({"id": call.id, "function": own})
        return self._calls[-1]

    def _read_token(self, event: Piece | JobEnd) -> dict[str, Any]:
        """Keep a token, and return how probable it was."""
        if isinstance(event, JobEnd):
            return {}
        self.ids.append(event.id)
        if event.chances is None:
            return {}
        piece_of = self._clock.served.model.piece
        top = [
            _row(piece_of(token_id, special=True), chance) for token_id, chance in event.chances.top
        ]
        row = _row(event.raw, event.chances.logprob)
        self._rows.append({**row, "top_logprobs": top} if top else row)
        return {"logprobs": self._rows[-1:]}


def _row(raw: bytes, chance: float) -> dict[str, Any]:
    return {"token": raw.decode("utf-8", "replace"), "logprob": chance, "bytes": list(raw)}


class ChatReply(OllamaReply):
    """The reply of ``/api/chat``."""

    def shape(self, text: str, thoughts: str, calls: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a message."""
        message: dict[str, Any] = {"role": "assistant", "content": text}
        if thoughts:
            message["thinking"] = thoughts
        if calls:
            message["tool_calls"] = calls
        return {"message": message}


class GenerateReply(OllamaReply):
    """The reply of ``/api/generate``."""

    def __init__(
        self, clock: _Clock, answers: Answers, parser: AnswerParser, *, has_context: bool
    ) -> None:
        super().__init__(clock, answers, parser)
        self._has_context = has_context

    def shape(self, text: str, thoughts: str, _: list[dict[str, Any]]) -> dict[str, Any]:
        """Return a text."""
        return {"response": text, **({"thinking": thoughts} if thoughts else {})}

    def extra(self) -> dict[str, Any]:
        """Return the tokens of prompt and answer, which the next request may send back."""
        if not self._has_context or min(self.answers.prompt(0), default=0) < 0:  # a picture's rows
            return {}
        return {"context": [*self.answers.prompt(0), *self.ids]}


async def embed(request: Request, served: ServedModel) -> Response:
    """Return the vectors of texts, in Ollama's shape."""
    clock = _Clock(served, request, time.perf_counter())
    fields = await _read_embed(request, served)
    texts = [fields.input] if isinstance(fields.input, str) else fields.input
    prompts = await _embedded_ids(texts, fields, served)
    vectors = await while_connected(request.receive, served.vectors.of(prompts))
    size = fields.dimensions
    return json_response({
        "model": served.name,
        "embeddings": [normalize(vector[:size]).tolist() for vector in vectors],
        **clock.durations(),
        "prompt_eval_count": sum(map(len, prompts)),
    })  # fmt: skip


async def old_embed(request: Request, served: ServedModel) -> Response:
    """Return the vector of one text, in Ollama's older shape."""
    fields = await _read_embed(request, served)
    if not fields.prompt:
        return json_response({"embedding": []})
    prompts = await _embedded_ids([fields.prompt], fields, served)
    (vector,) = await while_connected(request.receive, served.vectors.of(prompts))
    return json_response({"embedding": vector.tolist()})


async def _read_embed(request: Request, served: ServedModel) -> OllamaEmbed:
    fields = read_body(OllamaEmbed, await read_json(request), served.unknown)
    if fields.keep_alive is not None:
        request.state.keep = keep_seconds(fields.keep_alive)
    served.unknown.check(fields.options)
    return fields


async def _embedded_ids(
    texts: Sequence[str], fields: OllamaEmbed, served: ServedModel
) -> list[list[int]]:
    prompts = [await prompt_ids(served, [text]) for text in texts]
    most = served.vectors.most
    return [ids[:most] for ids in prompts] if fields.truncate else prompts
