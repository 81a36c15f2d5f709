"""Anthropic's routes: ``/v1/messages``, ``/v1/messages/count_tokens``.

Source: the reference of Anthropic's API, and what the ``anthropic`` package reads.
"""

from __future__ import annotations

import secrets
from contextlib import aclosing

from mtkit.serve.answers import Answers
from mtkit.serve.bodies import MOST_BODY, Message, MessageCount, read, read_with_sampler
from mtkit.serve.job import Done
from mtkit.serve.messages import from_anthropic, tools_from_anthropic
from mtkit.serve.replies import Events, Problem, as_json, body_of, event, while_there

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.served import Served

_REASONS = {
    "eog": "end_turn",
    "grammar": "end_turn",
    "length": "max_tokens",
    "stop": "stop_sequence",
}


async def _ids(asked: Message | MessageCount, served: Served) -> list[int]:
    choice = asked.tool_choice.get("type", "auto")
    if choice not in ("auto", "none"):
        raise Problem(400, "tool_choice: is not auto or none", field="tool_choice")
    if asked.thinking.get("type", "disabled") != "disabled":
        raise Problem(400, "thinking: is not known here", field="thinking")
    tools = tools_from_anthropic(asked.tools) if choice == "auto" else []
    return await served.chat_ids(from_anthropic(asked.messages, asked.system), tools)


async def count_tokens(request: Request, served: Served) -> Response:
    """Count the tokens of a conversation."""
    asked = read(MessageCount, await body_of(request, MOST_BODY))
    return as_json({"input_tokens": len(await _ids(asked, served))})


async def messages(request: Request, served: Served) -> Response:
    """Answer a conversation."""
    body = await body_of(request, MOST_BODY)
    asked, sampler = read_with_sampler(Message, body, served.settings.sampler)
    ids = await _ids(asked, served)
    answers = Answers(served, [ids], sampler, limit=asked.max_tokens, stops=asked.stop_sequences)
    head = {
        "id": f"msg_{secrets.token_hex(12)}",
        "type": "message",
        "role": "assistant",
        "model": served.name,
    }
    try:
        await while_there(request.receive, answers.start())
        if asked.stream:
            return Events(request, _stream(asked, answers, head), b"", answers)
        text = await while_there(request.receive, _collected(answers))
    except BaseException:
        answers.cancel()
        raise
    content = [{"type": "text", "text": text}]
    return as_json({**head, "content": content, **_end(answers), **_figures(answers, asked)})


async def _collected(answers: Answers) -> str:
    async with aclosing(answers.events()) as events:
        return "".join([told.text async for _, told in events])


async def _stream(
    asked: Message, answers: Answers, head: dict[str, Any]
) -> AsyncGenerator[bytes, None]:
    def named(name: str, **fields: Any) -> bytes:
        return event({"type": name, **fields}, name)

    started = False
    async with aclosing(answers.events()) as events:
        async for _, told in events:
            if not started:  # the first token: how much was remembered is known now
                started = True
                usage = {**_usage(answers), "output_tokens": 1}
                start: dict[str, Any] = {
                    "content": [],
                    "stop_reason": None,
                    "stop_sequence": None,
                }
                yield named("message_start", message={**head, **start, "usage": usage})
                block = {"type": "text", "text": ""}
                yield named("content_block_start", index=0, content_block=block)
            if told.text:
                delta = {"type": "text_delta", "text": told.text}
                yield named("content_block_delta", index=0, delta=delta)
            if isinstance(told, Done):
                yield named("content_block_stop", index=0)
    figures = _figures(answers, asked)
    yield named("message_delta", delta=_end(answers), **figures)
    yield named("message_stop")


def _end(answers: Answers) -> dict[str, Any]:
    done = answers.done[0]
    return {"stop_reason": _REASONS[done.end], "stop_sequence": done.stop}


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
