"""OpenAI's route ``/v1/responses`` and its answers.

Responses are kept for a while: a request may go on from one (``response_store``).

Source: OpenAI's reference of the Responses API, and the records in ``openai.types.responses``.
"""

from __future__ import annotations

import secrets
import time
from itertools import count

from mtkit.chat.answer import CallStart, CallText, Thought
from mtkit.serve.answer import Answers, Reply, send_reply
from mtkit.serve.bodies import Responses, schema_of, template_variables
from mtkit.serve.conversation import messages_from_responses, seal_reasoning
from mtkit.serve.job import Piece, Terms
from mtkit.serve.model import translate
from mtkit.serve.openai import token_rows
from mtkit.serve.reply import json_response, problem_of, sse_event
from mtkit.serve.request import read_json, read_with_sampler
from mtkit.serve.response_items import plain_items
from mtkit.serve.shortening import shorten_conversation
from mtkit.serve.tool import choice_from_responses, functions_from_responses, input_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.chat.answer import Part
    from mtkit.serve.conversation import Conversation
    from mtkit.serve.job import JobEnd, JobProgress
    from mtkit.serve.model import ServedModel
    from mtkit.serve.pool import ModelPool
    from mtkit.serve.tool import AnswerParser, ToolOrigin
    from mtkit.settings import SamplerSettings

_LOGPROBS = "message.output_text.logprobs"
_SEALED_REASONING = "reasoning.encrypted_content"


async def create(request: Request, served: ServedModel) -> Response:
    """Answer a conversation."""
    store = served.responses
    body = await read_json(request)
    fields, sampler = read_with_sampler(Responses, body, served.settings.sampler, served.unknown)
    schema = schema_of(fields.text.format.as_chat, body, "text.format")
    functions, origins = functions_from_responses(fields.tools, served.unknown)
    functions, choice = choice_from_responses(fields.tool_choice, functions, origins)
    new: Sequence[Mapping[str, Any]] = (
        [{"role": "user", "content": fields.input}]
        if isinstance(fields.input, str)
        else fields.input
    )
    previous = store.previous(fields.previous_response_id)
    items = list(plain_items(new, store, served.unknown))
    past = list(plain_items(previous.items, store, served.unknown)) if previous else []
    media = served.open_media()

    def conversation_of() -> Conversation:
        return served.conversation(
            [
                *messages_from_responses(past, fields.instructions, origins, media),
                *messages_from_responses(items, "", origins, media),
            ],
            functions,
            choice,
            template_variables(fields.chat_template_kwargs, None, fields.reasoning.effort),
            several=fields.parallel_tool_calls,
            media=media,
        )

    conversation = await translate(request, conversation_of)
    if fields.truncation == "auto":
        conversation = await shorten_conversation(served, conversation, "truncation")
    top = fields.top_logprobs
    terms = Terms(
        sampler, served.limit(fields.max_output_tokens),
        top=top if top or _LOGPROBS in fields.include else None, speculative=fields.speculative,
        progress=fields.stream and fields.return_progress, adapters=served.adapters(fields.lora),
    )  # fmt: skip
    ids, terms = await served.chat_terms(conversation, terms, schema)
    answers = Answers(served, [ids], terms, timed=fields.timings_per_token and fields.stream)
    parser = conversation.tools.parser(served.tail(ids))
    output = ResponseOutput(origins, seals_thoughts=_SEALED_REASONING in fields.include)
    reply = ResponseReply(served, fields, terms.sampler, answers, parser, output)
    if fields.store:
        reply.keep = lambda response: store.add(response, items, previous)
    return await send_reply(request, reply, streams=fields.stream)


async def read(request: Request, pool: ModelPool) -> Response:
    """Return a response that is kept."""
    return json_response(pool.responses.response(request.path_params["name"]))


async def remove(request: Request, pool: ModelPool) -> Response:
    """Forget a response."""
    name = request.path_params["name"]
    pool.responses.remove(name)
    return json_response({"id": name, "object": "response", "deleted": True})


class ResponseReply(Reply):
    """The reply of ``/v1/responses``: one response.

    Attributes:
        keep: Called with the whole response.
    """

    keep: Callable[[dict[str, Any]], None] = staticmethod(lambda _: None)

    def __init__(
        self,
        served: ServedModel,
        fields: Responses,
        sampler: SamplerSettings,
        answers: Answers,
        parser: AnswerParser,
        output: ResponseOutput,
    ) -> None:
        super().__init__(
            answers, has_progress=fields.return_progress, has_times=fields.timings_per_token
        )
        self._served = served
        self._pieces: list[Piece] = []
        self._parser, self._output, self._numbers = parser, output, count()
        self._is_queued = False
        self._head = {
            "id": f"resp_{secrets.token_hex(16)}",
            "object": "response",
            "created_at": int(time.time()),
            "status": "in_progress",
            "background": False,
            "error": None,
            "incomplete_details": None,
            "instructions": fields.instructions or None,
            "max_output_tokens": fields.max_output_tokens,
            "metadata": fields.metadata,
            "model": served.name,
            "output": [],
            "parallel_tool_calls": fields.parallel_tool_calls,
            "previous_response_id": fields.previous_response_id,
            "reasoning": {"effort": fields.reasoning.effort, "summary": None},
            "store": fields.store,
            "temperature": sampler.temperature,
            "text": {"format": {"type": fields.text.format.type}},
            "tool_choice": fields.tool_choice,
            "tools": fields.tools,
            "top_logprobs": fields.top_logprobs,
            "top_p": sampler.top_p,
            "truncation": fields.truncation,
            "usage": None,
        }

    def encode(self, value: dict[str, Any]) -> bytes:
        """Return an event with its number."""
        kind = value["type"]
        return sse_event({"type": kind, "sequence_number": next(self._numbers), **value}, kind)

    def opening(self) -> Iterator[dict[str, Any]]:
        """Yield the start of the response."""
        if not self._is_queued:
            yield {"type": "response.created", "response": self._head}
        yield self._in_progress()

    def waiting(self) -> bytes:
        """Return that the response is queued."""
        head = {**self._head, "status": "queued"}
        kinds = ("response.queued",) if self._is_queued else ("response.created", "response.queued")
        self._is_queued = True
        return b"".join(self.encode({"type": kind, "response": head}) for kind in kinds)

    def keep_alive(self) -> bytes:
        """Return that the response is in progress."""
        return self.encode(self._in_progress())

    def progress(self, index: int, event: JobProgress) -> dict[str, Any]:
        """Return how far the prompt is."""
        return {
            **self._in_progress(), "prompt_progress": event.fields(), **self.times(index),
        }  # fmt: skip

    def _in_progress(self) -> dict[str, Any]:
        return {"type": "response.in_progress", "response": self._head}

    def handle(self, _: int, event: Piece | JobEnd) -> Iterator[dict[str, Any]]:
        """Yield the events of the output."""
        if isinstance(event, Piece) and event.chances is not None:
            self._pieces.append(event)
        for part in self._parser.read(event):
            if part:
                for value in self._output.add(part, self._chances_of(part)):
                    yield {**value, **self.times()} if "delta" in value else value

    def _chances_of(self, part: Part) -> list[dict[str, Any]]:
        """Return how probable the tokens of a text were: the last ones that came."""
        pieces, self._pieces = self._pieces, []
        left, start = len(part) if isinstance(part, str) else 0, len(pieces)
        while left > 0 and start:
            start -= 1
            left -= len(pieces[start].raw.decode("utf-8", "ignore"))
        return token_rows(self._served, pieces[start:])

    def closing(self) -> Iterator[dict[str, Any]]:
        """Yield the end of the output and of the response."""
        yield from self._output.end(self._status)
        response = self._response()
        kind = f"response.{response['status']}"
        yield {"type": kind, "response": response, **self.times()}

    def failure(self, path: str, error: Exception) -> bytes:  # noqa: ARG002  the shape is known
        """Return the event of a response that fails."""
        problem = problem_of(error)
        details = {"code": problem.code or "server_error", "message": problem.what}
        response = {**self._head, "status": "failed", "error": details}
        return self.encode({"type": "response.failed", "response": response})

    def whole(self) -> dict[str, Any]:
        """Return the response."""
        list(self._output.end(self._status))
        return self._response()

    @property
    def _status(self) -> str:
        return "incomplete" if self.answers.ends[0].end == "length" else "completed"

    def _response(self) -> dict[str, Any]:
        answers, status = self.answers, self._status
        prompt, generated = answers.prompt_tokens, answers.generated
        response = {
            **self._head,
            "status": status,
            "incomplete_details": {"reason": "max_output_tokens"}
            if status == "incomplete"
            else None,
            "output": self._output.items,
            "usage": {
                "input_tokens": prompt,
                "input_tokens_details": {"cached_tokens": answers.cached},
                "output_tokens": generated,
                "output_tokens_details": {"reasoning_tokens": self._parser.reasoning_tokens},
                "total_tokens": prompt + generated,
            },
        }
        self.keep(response)
        return response


class ResponseOutput:
    """The items of a response."""

    def __init__(self, origins: Mapping[str, ToolOrigin], *, seals_thoughts: bool) -> None:
        """Begin an output."""
        self._origins, self._seals_thoughts = origins, seals_thoughts
        self.items: list[dict[str, Any]] = []
        self._open: dict[str, Any] = {}
        self._text: list[str] = []
        self._logprobs: list[dict[str, Any]] = []

    def add(self, part: Part, logprobs: Sequence[dict[str, Any]] = ()) -> Iterator[dict[str, Any]]:
        """Add a part of the answer, a text with how probable its tokens were; yields its events."""
        if isinstance(part, CallStart):
            yield from self.close()
            yield from self._begin(self._call(part))
            return
        if isinstance(part, CallText):
            text = part.text
        elif isinstance(part, Thought):
            text = part.text
            if self._open.get("type") != "reasoning":
                yield from self._begin_text("reasoning", "rs_", {"summary": []})
        else:
            text = part
            if self._open.get("type") != "message":
                yield from self._begin_text("message", "msg_", {"role": "assistant"})
        self._text.append(text)
        self._logprobs += logprobs
        if self._open["type"] != "custom_tool_call":  # its input is known at its end
            yield self._event("delta", logprobs, delta=text)

    def close(self, status: str = "completed") -> Iterator[dict[str, Any]]:
        """End the item that is open; yields its events."""
        if not self._open:
            return
        item, text = self._open, "".join(self._text)
        kind, field = _ITEM_KINDS[item["type"]][:2]
        if item["type"] == "custom_tool_call":
            text = input_of(text)
            yield self._event("delta", delta=text)
        yield self._event("done", self._logprobs, **{field: text})
        if item["type"] in ("function_call", "custom_tool_call"):
            item[field] = text
        else:
            part = _content_part(kind, text, self._logprobs)
            item["content"] = [part]
            yield self._at("response.content_part.done", content_index=0, part=part)
        if item["type"] != "custom_tool_call":
            item["status"] = status
        if item["type"] == "reasoning" and self._seals_thoughts:
            item["encrypted_content"] = seal_reasoning(text)
        yield {"type": "response.output_item.done", "output_index": self._place, "item": item}
        self._open = {}

    def end(self, status: str) -> Iterator[dict[str, Any]]:
        """End the answer; one without an item has an empty text."""
        if not self.items:
            yield from self.add("")
        yield from self.close(status)

    @property
    def _place(self) -> int:
        return len(self.items) - 1

    def _call(self, part: CallStart) -> dict[str, Any]:
        origin = self._origins.get(part.name)
        kind = "custom_tool_call" if origin and origin.is_custom else "function_call"
        item = {
            "type": kind,
            "id": _new_id("ctc_" if kind == "custom_tool_call" else "fc_"),
            "call_id": part.id,
            "name": origin.name if origin else part.name,
            _ITEM_KINDS[kind][1]: "",
        }
        if origin and origin.namespace:
            item["namespace"] = origin.namespace
        return item if kind == "custom_tool_call" else {**item, "status": "in_progress"}

    def _begin(self, item: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.items.append(item)
        self._open, self._text, self._logprobs = item, [], []
        yield {
            "type": "response.output_item.added",
            "output_index": self._place,
            "item": dict(item),
        }

    def _begin_text(
        self, kind: str, prefix: str, fields: dict[str, Any]
    ) -> Iterator[dict[str, Any]]:
        yield from self.close()
        item = {
            "type": kind,
            "id": _new_id(prefix),
            "status": "in_progress",
            "content": [],
            **fields,
        }
        yield from self._begin(item)
        part = _content_part(_ITEM_KINDS[kind][0], "")
        yield self._at("response.content_part.added", content_index=0, part=part)

    def _event(
        self, what: str, logprobs: Sequence[dict[str, Any]] = (), **fields: Any
    ) -> dict[str, Any]:
        kind, _, more = _ITEM_KINDS[self._open["type"]]
        if "logprobs" in more:
            more = {**more, "logprobs": list(logprobs)}
        return self._at(f"response.{kind}.{what}", **more, **fields)

    def _at(self, kind: str, **fields: Any) -> dict[str, Any]:
        place = {"item_id": self._open["id"], "output_index": self._place}
        return {"type": kind, **place, **fields}


_ITEM_KINDS: dict[str, tuple[str, str, dict[str, Any]]] = {
    "message": ("output_text", "text", {"content_index": 0, "logprobs": []}),
    "reasoning": ("reasoning_text", "text", {"content_index": 0}),
    "function_call": ("function_call_arguments", "arguments", {}),
    "custom_tool_call": ("custom_tool_call_input", "input", {}),
}
"""The events of each kind of item: their name, the field of its text, further fields."""


def _content_part(kind: str, text: str, logprobs: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    if kind == "output_text":
        return {"type": kind, "text": text, "annotations": [], "logprobs": list(logprobs)}
    return {"type": kind, "text": text}


def _new_id(prefix: str) -> str:
    return prefix + secrets.token_hex(16)
