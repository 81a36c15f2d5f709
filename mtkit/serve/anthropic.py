"""Anthropic's routes: ``/v1/messages``, ``/v1/messages/count_tokens``.

Source: the reference of Anthropic's API, and what the ``anthropic`` package reads.
"""

from __future__ import annotations

import secrets

import msgspec

from mtkit.chat.answer import CallStart, CallText, Thought
from mtkit.serve.answer import Answers, Reply, send_reply
from mtkit.serve.bodies import Format, Message, MessageCount, Schema, schema_of, template_variables
from mtkit.serve.conversation import messages_from_anthropic, tools_from_anthropic
from mtkit.serve.job import PromptTooLong, Terms
from mtkit.serve.model import translate
from mtkit.serve.reply import Problem, json_response, sse_event
from mtkit.serve.request import read_body, read_json, read_with_sampler

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.chat.answer import Part
    from mtkit.serve.conversation import Conversation
    from mtkit.serve.job import JobEnd, Piece
    from mtkit.serve.model import ServedModel
    from mtkit.serve.tool import AnswerParser


async def count_tokens(request: Request, served: ServedModel) -> Response:
    """Count the tokens of a conversation."""
    fields = read_body(MessageCount, await read_json(request), served.unknown)
    conversation = await translate(request, lambda: _conversation_of(fields, served))
    ids = await served.chat_ids(conversation)
    return json_response({"input_tokens": len(ids)})


async def messages(request: Request, served: ServedModel) -> Response:
    """Answer a conversation."""
    body = await read_json(request)
    fields, sampler = read_with_sampler(Message, body, served.settings.sampler, served.unknown)
    output, schema = fields.output_config.format or fields.output_format, None
    if output is not None:
        form = Format("json_schema", json_schema=Schema(output.schema))
        schema = schema_of(form, body, "output_config.format")
    conversation = await translate(request, lambda: _conversation_of(fields, served))
    terms = Terms(
        sampler, fields.max_tokens, fields.stop_sequences, speculative=fields.speculative,
        adapters=served.adapters(fields.lora),
    )  # fmt: skip
    ids, terms = await served.chat_terms(conversation, terms, schema, fields.thinking_tokens)
    try:
        answers = Answers(served, [ids], terms)
    except PromptTooLong as error:  # in Anthropic's words, which Claude Code looks for
        what = f"prompt is too long: {error.tokens} tokens > {error.n_slot} maximum"
        raise Problem(400, f"{what}; {error.hint}") from None
    parser = conversation.tools.parser(served.tail(ids))
    reply = MessageReply(fields, answers, parser, served.name)
    return await send_reply(request, reply, streams=fields.stream)


def _conversation_of(fields: MessageCount, served: ServedModel) -> Conversation:
    choice = fields.tool_choice
    kinds: dict[str, Any] = {"any": "required", "tool": {"name": choice.name}}
    if fields.output_config.effort is not None:
        served.unknown.check({"output_config": fields.output_config.effort})
    media = served.open_media()
    return served.conversation(
        messages_from_anthropic(fields.messages, fields.system, media),
        tools_from_anthropic(fields.tools, served.unknown),
        kinds.get(choice.type, choice.type),
        template_variables(fields.chat_template_kwargs, fields.thinks),
        several=not choice.disable_parallel_tool_use,
        media=media,
    )


_REASONS = {
    "eog": "end_turn",
    "grammar": "end_turn",
    "length": "max_tokens",
    "stop": "stop_sequence",
}


class MessageReply(Reply):
    """The reply of ``/v1/messages``: one message."""

    def __init__(self, fields: Message, answers: Answers, parser: AnswerParser, model: str) -> None:
        super().__init__(answers)
        self._parser, self._explains_cache = parser, fields.explain_cache
        self._content = MessageContent(shows_thoughts=fields.thinks is not False)
        self._head = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": model,
        }

    def encode(self, value: dict[str, Any]) -> bytes:
        """Return an event, which has the name of its type."""
        return sse_event(value, value["type"])

    def keep_alive(self) -> bytes:
        """Return a ping."""
        return self.encode({"type": "ping"})

    def opening(self) -> Iterator[dict[str, Any]]:
        """Yield the start of the message."""
        usage = {**self._usage(), "output_tokens": 1}
        start: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
        yield {"type": "message_start", "message": {**self._head, **start, "usage": usage}}

    def handle(self, _: int, event: Piece | JobEnd) -> Iterator[dict[str, Any]]:
        """Yield the events of the content."""
        for part in self._parser.read(event):
            if part:
                yield from self._content.add(part)

    def closing(self) -> Iterator[dict[str, Any]]:
        """Yield the end of the content and of the message."""
        yield from self._content.end()
        yield {"type": "message_delta", "delta": self._end(), **self._figures()}
        yield {"type": "message_stop"}

    def whole(self) -> dict[str, Any]:
        """Return the message."""
        list(self._content.end())
        return {
            **self._head, "content": self._content.blocks, **self._end(), **self._figures(),
        }  # fmt: skip

    def _end(self) -> dict[str, Any]:
        end = self.answers.ends[0]
        is_call = self._parser.calls and end.end != "length"
        return {
            "stop_reason": "tool_use" if is_call else _REASONS[end.end],
            "stop_sequence": end.stop,
        }

    def _usage(self) -> dict[str, int]:
        cached = self.answers.cached
        return {
            "input_tokens": self.answers.prompt_tokens - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": self.answers.generated,
        }

    def _figures(self) -> dict[str, Any]:
        cache = {"cache": self.answers.explain_cache()} if self._explains_cache else {}
        return {"usage": self._usage(), **cache}


_SIGNATURE = "mtkit"
"""The signature of a reasoning: clients send it back, and nothing here asks for it."""


class MessageContent:
    """The blocks of a message."""

    def __init__(self, *, shows_thoughts: bool = True) -> None:
        self._shows_thoughts = shows_thoughts
        self.blocks: list[dict[str, Any]] = []
        self._open, self._text = "", list[str]()

    def add(self, part: Part) -> Iterator[dict[str, Any]]:
        """Add a part of the answer; yields its events."""
        if isinstance(part, CallStart):
            yield from self.close()
            block = {"type": "tool_use", "id": part.id, "name": part.name, "input": {}}
            yield from self._begin(block)
            return
        if isinstance(part, CallText):
            delta = {"type": "input_json_delta", "partial_json": part.text}
        elif isinstance(part, Thought):
            if not self._shows_thoughts:
                return
            if self._open != "thinking":
                yield from self.close()
                yield from self._begin({"type": "thinking", "thinking": "", "signature": ""})
            delta = {"type": "thinking_delta", "thinking": part.text}
        else:
            if self._open != "text":
                yield from self.close()
                yield from self._begin({"type": "text", "text": ""})
            delta = {"type": "text_delta", "text": part}
        self._text.append(part if isinstance(part, str) else part.text)
        yield self._event("delta", delta=delta)

    def close(self) -> Iterator[dict[str, Any]]:
        """End the block that is open; yields its events."""
        if not self._open:
            return
        block, text = self.blocks[-1], "".join(self._text)
        if self._open == "tool_use":
            block["input"] = _parse_arguments(text)
        else:
            block[self._open] = text
        if self._open == "thinking":
            block["signature"] = _SIGNATURE
            delta = {"type": "signature_delta", "signature": _SIGNATURE}
            yield self._event("delta", delta=delta)
        self._open = ""
        yield self._event("stop")

    def end(self) -> Iterator[dict[str, Any]]:
        """End the answer; one without a block has an empty text."""
        if not self.blocks:
            yield from self.add("")
        yield from self.close()

    def _begin(self, block: dict[str, Any]) -> Iterator[dict[str, Any]]:
        self.blocks.append(block)
        self._open, self._text = block["type"], []
        yield self._event("start", content_block=dict(block))

    def _event(self, kind: str, **fields: Any) -> dict[str, Any]:
        return {"type": f"content_block_{kind}", "index": len(self.blocks) - 1, **fields}


def _parse_arguments(text: str) -> dict[str, Any]:
    """Return the arguments of a call; none of a call that was cut."""
    try:
        arguments = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return {}
    return arguments if isinstance(arguments, dict) else {}
