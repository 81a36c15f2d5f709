"""Anthropic's routes: ``/v1/messages``, ``/v1/messages/count_tokens``.

Source: the reference of Anthropic's API, and what the ``anthropic`` package reads.
"""

from __future__ import annotations

import secrets
from contextlib import aclosing

from mtkit.base.record import replace
from mtkit.serve.answer import Answers, send_answers
from mtkit.serve.bodies import Format, Message, MessageCount, Schema, schema_of, template_variables
from mtkit.serve.content import AnthropicContent
from mtkit.serve.conversation import messages_from_anthropic, prompt_end, tools_from_anthropic
from mtkit.serve.job import JobProgress, PromptTooLong, Terms
from mtkit.serve.reply import Problem, json_response, read_json, sse_event
from mtkit.serve.request import MOST_BODY, read_body, read_with_sampler
from mtkit.serve.tool import Tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.model import ServedModel
    from mtkit.serve.tool import AnswerParser

_REASONS = {
    "eog": "end_turn",
    "grammar": "end_turn",
    "length": "max_tokens",
    "stop": "stop_sequence",
}


def _read_tools(asked: MessageCount, served: ServedModel) -> Tools:
    given = asked.tool_choice
    kinds: dict[str, Any] = {"any": "required", "tool": {"name": given.name}}
    choice = kinds.get(given.type, given.type)
    several = not given.disable_parallel_tool_use
    return Tools(
        served.form, tools_from_anthropic(asked.tools, served.unknown), choice, several=several
    )


async def _prompt_ids(asked: MessageCount, tools: Tools, served: ServedModel) -> list[int]:
    if asked.output_config.effort is not None:
        served.unknown.see({"output_config": asked.output_config.effort})
    given = messages_from_anthropic(asked.messages, asked.system)
    values = template_variables(asked.chat_template_kwargs, asked.thinks)
    ending = prompt_end(given, prefill=served.settings.prefill_assistant)
    return await served.chat_ids(given, tools.given, values=values, **ending)


async def count_tokens(request: Request, served: ServedModel) -> Response:
    """Count the tokens of a conversation."""
    asked = read_body(MessageCount, await read_json(request, MOST_BODY), served.unknown)
    ids = await _prompt_ids(asked, _read_tools(asked, served), served)
    return json_response({"input_tokens": len(ids)})


async def messages(request: Request, served: ServedModel) -> Response:
    """Answer a conversation."""
    body = await read_json(request, MOST_BODY)
    asked, sampler = read_with_sampler(Message, body, served.settings.sampler, served.unknown)
    form = asked.output_config.format or asked.output_format
    if form is not None:
        asked_for = Format("json_schema", json_schema=Schema(form.schema))
        schema = schema_of(asked_for, body, "output_config.format")
        sampler = replace(sampler, grammar=None, json_schema=schema)
    tools = _read_tools(asked, served)
    sampler = await served.held(await tools.forcing(sampler))
    ids = await _prompt_ids(asked, tools, served)
    shown = served.markers if tools.shows else frozenset()
    terms = Terms(
        sampler, asked.max_tokens, asked.stop_sequences, None, shown, asked.speculative,
        progress=asked.stream, budget=served.budget(ids, asked.thinking_tokens),
    )  # fmt: skip
    try:
        answers = Answers(served, [ids], terms)
    except PromptTooLong as error:  # in Anthropic's words, which Claude Code looks for
        what = f"prompt is too long: {error.tokens} tokens > {error.n_slot} maximum"
        raise Problem(400, f"{what}; {error.hint}") from None
    content = AnthropicContent(shows_thoughts=asked.thinks is not False)
    reading = tools.reading(served.tail(ids), streams=asked.stream)
    told = _MessageAnswer(asked, answers, reading, content, served.name)
    return await send_answers(request, answers, told.stream() if asked.stream else None, told.whole)


class _MessageAnswer:
    """One message, whole or as events."""

    def __init__(
        self,
        asked: Message,
        answers: Answers,
        reading: AnswerParser,
        content: AnthropicContent,
        name: str,
    ) -> None:
        self._asked, self._answers, self._reading, self._content = asked, answers, reading, content
        self._head = {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": name,
        }

    async def whole(self) -> dict[str, Any]:
        """Wait for the answer, and return it."""
        async with aclosing(self._events()) as events:
            async for _ in events:
                pass
        content = self._content.blocks
        return {**self._head, "content": content, **self._end(), **self._figures()}

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the events."""
        async with aclosing(self._events()) as events:
            async for told in events:
                yield sse_event(told, told["type"])
        ending = {"type": "message_delta", "delta": self._end(), **self._figures()}
        yield sse_event(ending, "message_delta")
        yield sse_event({"type": "message_stop"}, "message_stop")

    async def _events(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of the content; a long prompt lets clients wait, but not in silence."""
        yield self._start()
        async with aclosing(self._answers.with_progress()) as events:
            async for _, told in events:
                if isinstance(told, JobProgress):
                    if told.cached < told.processed < told.total:
                        yield {"type": "ping"}
                    continue
                for part in self._reading.read(told):
                    if part:
                        for one in self._content.add(part):
                            yield one
        for one in self._content.end():
            yield one

    def _start(self) -> dict[str, Any]:
        usage = {**self._usage(), "output_tokens": 1}
        start: dict[str, Any] = {"content": [], "stop_reason": None, "stop_sequence": None}
        return {"type": "message_start", "message": {**self._head, **start, "usage": usage}}

    def _end(self) -> dict[str, Any]:
        done = self._answers.done[0]
        called = self._reading.called and done.end != "length"
        return {
            "stop_reason": "tool_use" if called else _REASONS[done.end],
            "stop_sequence": done.stop,
        }

    def _usage(self) -> dict[str, int]:
        cached = self._answers.cached
        return {
            "input_tokens": self._answers.prompt_tokens - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": self._answers.generated,
        }

    def _figures(self) -> dict[str, Any]:
        found: dict[str, Any] = {"usage": self._usage()}
        if self._asked.explain_cache:
            found["cache"] = self._answers.explanation()
        return found
