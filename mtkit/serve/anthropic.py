"""Anthropic's routes: ``/v1/messages``, ``/v1/messages/count_tokens``.

Source: the reference of Anthropic's API, and what the ``anthropic`` package reads.
"""

from __future__ import annotations

import secrets
from contextlib import aclosing

import msgspec

from mtkit.chat.answer_parts import CallStart, CallText, Thought
from mtkit.serve.answers import Answers
from mtkit.serve.bodies.anthropic import Message, MessageCount
from mtkit.serve.bodies.fields import MOST_BODY, read
from mtkit.serve.bodies.sampler import read_with_sampler
from mtkit.serve.job import Terms
from mtkit.serve.messages import continuing, from_anthropic, tools_from_anthropic
from mtkit.serve.replies import as_json, body_of, event
from mtkit.serve.sending import reply
from mtkit.serve.tools import Tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.calls import Reading
    from mtkit.serve.served import Served

_REASONS = {
    "eog": "end_turn",
    "grammar": "end_turn",
    "length": "max_tokens",
    "stop": "stop_sequence",
}


def _tools(asked: Message | MessageCount, served: Served) -> Tools:
    given = asked.tool_choice
    kinds: dict[str, Any] = {"any": "required", "tool": {"name": given.name}}
    choice = kinds.get(given.type, given.type)
    several = not given.disable_parallel_tool_use
    return Tools(served.form, tools_from_anthropic(asked.tools), choice, several=several)


async def _ids(asked: Message | MessageCount, tools: Tools, served: Served) -> list[int]:
    given = from_anthropic(asked.messages, asked.system)
    return await served.chat_ids(given, tools.given, **continuing(given))


async def count_tokens(request: Request, served: Served) -> Response:
    """Count the tokens of a conversation."""
    asked = read(MessageCount, await body_of(request, MOST_BODY), served.unknown)
    ids = await _ids(asked, _tools(asked, served), served)
    return as_json({"input_tokens": len(ids)})


async def messages(request: Request, served: Served) -> Response:
    """Answer a conversation."""
    body = await body_of(request, MOST_BODY)
    asked, sampler = read_with_sampler(Message, body, served.settings.sampler, served.unknown)
    tools = _tools(asked, served)
    sampler = await served.held(await tools.forcing(sampler))
    ids = await _ids(asked, tools, served)
    shown = served.markers if tools.shows else frozenset()
    terms = Terms(sampler, asked.max_tokens, asked.stop_sequences, None, shown, asked.speculative)
    answers = Answers(served, [ids], terms)
    head = {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": served.name,
    }
    reading = tools.reading()
    chunks = _stream(asked, answers, reading, head) if asked.stream else None
    return await reply(request, answers, chunks, lambda: _whole(asked, answers, reading, head))


async def _parts(
    answers: Answers, reading: Reading
) -> AsyncGenerator[list[str | CallStart | CallText], None]:
    """Yield what each token settles; reasoning is for those who ask for it, which is refused."""
    async with aclosing(answers.events()) as events:
        async for _, told in events:
            yield [part for part in reading.read(told) if not isinstance(part, Thought)]


async def _whole(
    asked: Message, answers: Answers, reading: Reading, head: dict[str, Any]
) -> dict[str, Any]:
    """Wait for the answer, and return it."""
    content: list[dict[str, Any]] = []
    async with aclosing(_parts(answers, reading)) as found:
        async for parts in found:
            for part in parts:
                if isinstance(part, CallStart):
                    content.append({**_block(part), "input": ""})
                elif isinstance(part, CallText):
                    content[-1]["input"] += part.text
                elif content and content[-1]["type"] == "text":
                    content[-1]["text"] += part
                else:
                    content.append({"type": "text", "text": part})
    for block in content:
        if block["type"] == "tool_use":
            block["input"] = msgspec.json.decode(block["input"])
    content = content or [{"type": "text", "text": ""}]
    return {**head, "content": content, **_end(answers, reading), **_figures(answers, asked)}


async def _stream(
    asked: Message, answers: Answers, reading: Reading, head: dict[str, Any]
) -> AsyncGenerator[bytes, None]:
    def named(name: str, **fields: Any) -> bytes:
        return event({"type": name, **fields}, name)

    blocks = _Blocks(named)
    async with aclosing(_parts(answers, reading)) as found:
        started = False
        async for parts in found:
            if not started:  # the first token: how much was remembered is known now
                started = True
                usage = {**_usage(answers), "output_tokens": 1}
                start: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
                yield named("message_start", message={**head, **start, "usage": usage})
            for part in parts:
                yield blocks.add(part)
    if ending := blocks.end():
        yield ending
    figures = _figures(answers, asked)
    yield named("message_delta", delta=_end(answers, reading), **figures)
    yield named("message_stop")


class _Blocks:
    """The events of an answer's blocks: texts and calls, each opened and closed."""

    def __init__(self, named: Callable[..., bytes]) -> None:
        self._named = named
        self._place, self._open = -1, ""

    def add(self, part: str | CallStart | CallText) -> bytes:
        """Return the events of a part of the answer."""
        if isinstance(part, CallStart):
            return self._close() + self._start({**_block(part), "input": {}})
        if isinstance(part, CallText):
            return self._event(
                "delta", delta={"type": "input_json_delta", "partial_json": part.text}
            )
        made = b""
        if self._open != "text":
            made = self._close() + self._start({"type": "text", "text": ""})
        return made + self._event("delta", delta={"type": "text_delta", "text": part})

    def end(self) -> bytes:
        """Return the last events; an answer without any block has an empty text."""
        if self._place < 0:
            return self.add("") + self._close()
        return self._close()

    def _start(self, block: dict[str, Any]) -> bytes:
        self._place, self._open = self._place + 1, block["type"]
        return self._event("start", content_block=block)

    def _close(self) -> bytes:
        was_open, self._open = self._open, ""
        return self._event("stop") if was_open else b""

    def _event(self, kind: str, **fields: Any) -> bytes:
        return self._named(f"content_block_{kind}", index=self._place, **fields)


def _block(call: CallStart) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name}


def _end(answers: Answers, reading: Reading) -> dict[str, Any]:
    done = answers.done[0]
    called = reading.called and done.end != "length"
    return {
        "stop_reason": "tool_use" if called else _REASONS[done.end],
        "stop_sequence": done.stop,
    }


def _usage(answers: Answers) -> dict[str, int]:
    cached = answers.cached
    return {
        "input_tokens": answers.prompt_tokens - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "output_tokens": answers.generated,
    }


def _figures(answers: Answers, asked: Message) -> dict[str, Any]:
    found: dict[str, Any] = {"usage": _usage(answers)}
    if asked.explain_cache:
        found["cache"] = answers.explanation()
    return found
