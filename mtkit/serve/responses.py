"""OpenAI's ``/v1/responses``.

Nothing is stored: a request brings its whole conversation.

Source: OpenAI's reference of the Responses API, and what the ``openai`` package reads.
"""

from __future__ import annotations

import secrets
import time
from contextlib import aclosing
from itertools import count

from mtkit.base.record import replace
from mtkit.serve.answer import Answers, send_answers
from mtkit.serve.bodies import Responses, schema_of, template_variables
from mtkit.serve.content import ResponsesOutput
from mtkit.serve.conversation import messages_from_responses, prompt_end
from mtkit.serve.job import JobProgress, Terms
from mtkit.serve.reply import problem_of, read_json, sse_event
from mtkit.serve.request import MOST_BODY, read_with_sampler
from mtkit.serve.tool import Tools, choice_from_responses, functions_from_responses

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.serve.model import ServedModel
    from mtkit.serve.tool import AnswerParser
    from mtkit.settings import SamplerSettings

_SEALED_REASONING = "reasoning.encrypted_content"


async def create(request: Request, served: ServedModel) -> Response:
    """Answer a conversation."""
    body = await read_json(request, MOST_BODY)
    asked, sampler = read_with_sampler(Responses, body, served.settings.sampler, served.unknown)
    schema = schema_of(asked.text.format.as_chat, body, "text.format")
    if schema is not None:
        sampler = replace(sampler, grammar=None, json_schema=schema)
    functions, origins = functions_from_responses(asked.tools, served.unknown)
    functions, choice = choice_from_responses(asked.tool_choice, functions, origins)
    tools = Tools(served.form, functions, choice, several=asked.parallel_tool_calls)
    sampler = await served.held(await tools.forcing(sampler))
    given = messages_from_responses(asked.input, asked.instructions, origins)
    values = template_variables(asked.chat_template_kwargs, None, asked.reasoning.effort)
    ending = prompt_end(given, prefill=served.settings.prefill_assistant)
    ids = await served.chat_ids(given, tools.given, values=values, **ending)
    shown = served.markers if tools.shows else frozenset()
    terms = Terms(
        sampler, served.limit(asked.max_output_tokens), (), None, shown, asked.speculative,
        progress=asked.stream, budget=served.budget(ids),
    )  # fmt: skip
    answers = Answers(served, [ids], terms, timed=asked.timings_per_token and asked.stream)
    output = ResponsesOutput(origins, keeps_thoughts=_SEALED_REASONING in asked.include)
    reading = tools.reading(served.tail(ids), streams=asked.stream)
    told = _ResponseAnswer(asked, answers, reading, output, served, _head(asked, sampler, served))
    return await send_answers(request, answers, told.stream() if asked.stream else None, told.whole)


def _head(asked: Responses, sampler: SamplerSettings, served: ServedModel) -> dict[str, Any]:
    """Return what is known of a response before its answer is."""
    return {
        "id": f"resp_{secrets.token_hex(16)}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "in_progress",
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": asked.instructions or None,
        "max_output_tokens": asked.max_output_tokens,
        "metadata": asked.metadata,
        "model": served.name,
        "output": [],
        "parallel_tool_calls": asked.parallel_tool_calls,
        "previous_response_id": None,
        "reasoning": {"effort": asked.reasoning.effort, "summary": None},
        "store": False,
        "temperature": sampler.temperature,
        "text": {"format": {"type": asked.text.format.type}},
        "tool_choice": asked.tool_choice,
        "tools": asked.tools,
        "top_p": sampler.top_p,
        "truncation": "disabled",
        "usage": None,
    }


class _ResponseAnswer:
    """One response, whole or as events."""

    def __init__(
        self,
        asked: Responses,
        answers: Answers,
        reading: AnswerParser,
        output: ResponsesOutput,
        served: ServedModel,
        head: dict[str, Any],
    ) -> None:
        self._asked, self._answers, self._reading = asked, answers, reading
        self._tokenize = served.model.tokenize
        self._output, self._head = output, head

    async def whole(self) -> dict[str, Any]:
        """Wait for the answer, and return it."""
        async with aclosing(self._events()) as events:
            async for _ in events:
                pass
        return self._finished()

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the events, each with its number."""
        numbers = count()

        def numbered(told: dict[str, Any]) -> bytes:
            kind = told["type"]
            return sse_event({"type": kind, "sequence_number": next(numbers), **told}, kind)

        yield numbered({"type": "response.created", "response": self._head})
        yield numbered({"type": "response.in_progress", "response": self._head})
        try:
            async with aclosing(self._events()) as events:
                async for told in events:
                    yield numbered(told)
        except Exception as error:  # noqa: BLE001  the status is sent: it is told as an event
            found = problem_of(error)
            failure = {"code": found.code or "server_error", "message": found.what}
            failed = {**self._head, "status": "failed", "error": failure}
            yield numbered({"type": "response.failed", "response": failed})
            return
        made = self._finished()
        yield numbered({"type": f"response.{made['status']}", "response": made, **self._timed()})

    async def _events(self) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the events of the output; a long prompt lets clients wait, but not in silence."""
        async with aclosing(self._answers.with_progress()) as events:
            async for _, told in events:
                if isinstance(told, JobProgress):
                    if self._asked.return_progress or told.cached < told.processed < told.total:
                        yield self._going_on(told)
                    continue
                for part in self._reading.read(told):
                    if part:
                        for one in self._output.add(part):
                            yield {**one, **self._timed()} if "delta" in one else one
        if not self._output.items:
            for one in self._output.add(""):
                yield one
        for one in self._output.close(self._status):
            yield one

    def _going_on(self, told: JobProgress) -> dict[str, Any]:
        found = {"type": "response.in_progress", "response": self._head}
        if self._asked.return_progress:
            found |= {"prompt_progress": told.shown(), **self._timed()}
        return found

    def _timed(self) -> dict[str, Any]:
        """Return the times so far, if they are asked for."""
        if not self._asked.timings_per_token:
            return {}
        return {"timings": self._answers.timings[0].told()}

    @property
    def _status(self) -> str:
        return "incomplete" if self._answers.done[0].end == "length" else "completed"

    def _thought(self) -> int:
        """Return about how many tokens the reasoning has: those of its text."""
        parts = [one["content"] for one in self._output.items if one["type"] == "reasoning"]
        text = "".join(part["text"] for content in parts for part in content)
        return len(self._tokenize(text, add_special=False)) if text else 0

    def _finished(self) -> dict[str, Any]:
        answers, status = self._answers, self._status
        prompt, generated = answers.prompt_tokens, answers.generated
        return {
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
                "output_tokens_details": {"reasoning_tokens": self._thought()},
                "total_tokens": prompt + generated,
            },
        }
