"""OpenAI's routes: ``/v1/models``, ``/v1/completions``, ``/v1/chat/completions``.

Source: the reference of OpenAI's API, and what the ``openai`` package reads.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from contextlib import aclosing

from mtkit.base.record import replace
from mtkit.chat.answer_parts import (
    Call,
    CallStart,
    CallText,
    Thought,
    calls_in,
    reasoning_in,
    text_in,
)
from mtkit.serve.answers import Answers
from mtkit.serve.bodies.fields import MOST_BODY
from mtkit.serve.bodies.openai import MOST_CHOICES, Chat, Completion, prompts_of, schema_of
from mtkit.serve.bodies.sampler import read_with_sampler
from mtkit.serve.job import Done, Terms
from mtkit.serve.messages import continuing, from_openai, tools_from_openai
from mtkit.serve.replies import Problem, as_json, body_of, event
from mtkit.serve.sending import reply
from mtkit.serve.tools import Tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import AsyncGenerator
    from typing import Any, ClassVar

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.chat.answer_parts import Part
    from mtkit.serve.calls import Reading
    from mtkit.serve.job import Chances, Piece
    from mtkit.serve.served import Served

_LAST = b"data: [DONE]\n\n"


async def models(_: Request, served: Served) -> Response:
    """List the one model."""
    return as_json({"object": "list", "data": [_card(served)]})


async def model(request: Request, served: Served) -> Response:
    """Describe the model."""
    if request.path_params["name"] != served.name:
        raise Problem(404, "there is no such model", code="model_not_found")
    return as_json(_card(served))


def _card(served: Served) -> dict[str, Any]:
    return {
        "id": served.name, "object": "model", "created": served.created, "owned_by": "mtkit",
        "context_length": served.scheduler.n_slot,
    }  # fmt: skip


async def completions(request: Request, served: Served) -> Response:
    """Continue texts."""
    body = await body_of(request, MOST_BODY)
    asked, sampler = read_with_sampler(Completion, body, served.settings.sampler, served.unknown)
    prompts = prompts_of(asked.prompt)
    if len(prompts) * asked.n > MOST_CHOICES:
        raise Problem(400, f"prompt, n: more than {MOST_CHOICES} answers", field="prompt")
    ids = [await served.text_ids(one) if isinstance(one, str) else one for one in prompts]
    sampler = await served.held(sampler)
    terms = Terms(sampler, asked.max_tokens or 16, asked.stops, asked.logprobs)
    return await _reply(request, served, asked, ids, terms, _Texts(served))


async def chat(request: Request, served: Served) -> Response:
    """Answer a conversation."""
    body = await body_of(request, MOST_BODY)
    asked, sampler = read_with_sampler(Chat, body, served.settings.sampler, served.unknown)
    schema = schema_of(asked.response_format)
    if schema is not None:
        sampler = replace(sampler, grammar=None, json_schema=schema)
    choice, several = asked.tool_choice, asked.parallel_tool_calls
    tools = Tools(served.form, tools_from_openai(asked.tools), choice, several=several)
    sampler = await served.held(await tools.forcing(sampler))
    given = from_openai(asked.messages)
    ending = continuing(given, asked.continue_final_message, asked.add_generation_prompt)
    ids = await served.chat_ids(given, tools.given, values=asked.chat_template_kwargs, **ending)
    limit = asked.max_completion_tokens or asked.max_tokens
    if asked.top_logprobs and not asked.logprobs:
        raise Problem(400, "top_logprobs: needs logprobs to be true", field="top_logprobs")
    top = asked.top_logprobs if asked.logprobs else None
    terms = Terms(sampler, limit, asked.stops, top, served.markers if tools.shows else frozenset())
    return await _reply(request, served, asked, [ids], terms, _Messages(served, tools))


class _Texts:
    """The shape of completions."""

    prefix, whole, part = "cmpl-", "text_completion", "text_completion"
    opening: ClassVar[dict[str, Any] | None] = None
    ending: ClassVar[dict[str, Any]] = {"text": ""}

    def __init__(self, served: Served) -> None:
        self._piece = served.model.piece
        self._offsets: dict[int, int] = {}

    def parts(self, _: int, told: Piece | Done) -> list[Part]:
        return [told.text]

    def chunk(self, part: Part, _: int) -> dict[str, Any]:
        return {"text": part}

    def message(self, parts: list[Part]) -> dict[str, Any]:
        return {"text": "".join(map(str, parts))}

    def logprobs(self, index: int, pieces: list[Piece]) -> dict[str, Any]:
        """Return OpenAI's columns of probabilities."""
        texts = [piece.raw.decode("utf-8", "replace") for piece in pieces]
        found = [_chances(piece) for piece in pieces]
        offsets = []
        for text in texts:
            offsets.append(self._offsets.get(index, 0))
            self._offsets[index] = offsets[-1] + len(text)
        return {
            "tokens": texts,
            "token_logprobs": [one.logprob for one in found],
            "top_logprobs": [
                {
                    self._piece(token_id, special=True).decode("utf-8", "replace"): chance
                    for token_id, chance in reversed(one.top)
                }
                for one in found
            ],
            "text_offset": offsets,
        }


class _Messages:
    """The shape of chat completions."""

    prefix, whole, part = "chatcmpl-", "chat.completion", "chat.completion.chunk"
    opening: ClassVar[dict[str, Any]] = {"delta": {"role": "assistant", "content": ""}}
    ending: ClassVar[dict[str, Any]] = {"delta": {}}

    def __init__(self, served: Served, tools: Tools) -> None:
        self._piece = served.model.piece
        self._readings: defaultdict[int, Reading] = defaultdict(tools.reading)

    def parts(self, index: int, told: Piece | Done) -> list[Part]:
        return self._readings[index].read(told)

    def chunk(self, part: Part, place: int) -> dict[str, Any]:
        if isinstance(part, str):
            return {"delta": {"content": part}}
        if isinstance(part, Thought):
            return {"delta": {"reasoning_content": part.text}}
        if isinstance(part, CallText):
            told = {"index": place - 1, "function": {"arguments": part.text}}
        else:
            told = {"index": place, **_call(Call(part.id, part.name, ""))}
        return {"delta": {"tool_calls": [told]}}

    def message(self, parts: list[Part]) -> dict[str, Any]:
        calls = [_call(call) for call in calls_in(parts)]
        text = text_in(parts)
        found: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if thoughts := reasoning_in(parts):
            found["reasoning_content"] = thoughts
        if calls:
            found |= {"content": text or None, "tool_calls": calls}
        return {"message": found}

    def logprobs(self, _: int, pieces: list[Piece]) -> dict[str, Any]:
        """Return OpenAI's list of probabilities."""

        def named(raw: bytes, chance: float) -> dict[str, Any]:
            text = raw.decode("utf-8", "replace")
            return {"token": text, "logprob": chance, "bytes": list(raw)}

        content = []
        for piece in pieces:
            found = _chances(piece)
            top = [
                named(self._piece(token_id, special=True), chance) for token_id, chance in found.top
            ]
            content.append({**named(piece.raw, found.logprob), "top_logprobs": top})
        return {"content": content, "refusal": None}


def _chances(piece: Piece) -> Chances:
    assert piece.chances is not None
    return piece.chances


async def _reply(
    request: Request,
    served: Served,
    asked: Completion | Chat,
    prompts: list[list[int]],
    terms: Terms,
    shape: _Texts | _Messages,
) -> Response:
    answers = Answers(served, prompts, replace(terms, speculative=asked.speculative), asked.n)
    head = {
        "id": shape.prefix + secrets.token_hex(12),
        "object": shape.part if asked.stream else shape.whole,
        "created": int(time.time()),
        "model": served.name,
        "system_fingerprint": served.fingerprint,
    }
    chunks = _stream(asked, answers, shape, head) if asked.stream else None
    return await reply(request, answers, chunks, lambda: _whole(asked, answers, shape, head), _LAST)


async def _whole(
    asked: Completion | Chat, answers: Answers, shape: _Texts | _Messages, head: dict[str, Any]
) -> dict[str, Any]:
    """Wait for all answers, and return them."""
    parts: list[list[Part]] = [[] for _ in range(answers.count)]
    pieces: list[list[Piece]] = [[] for _ in range(answers.count)]
    async with aclosing(answers.events()) as events:
        async for index, told in events:
            parts[index] += shape.parts(index, told)
            if not isinstance(told, Done) and told.chances is not None:
                pieces[index].append(told)
    choices = [
        {
            "index": index,
            **shape.message(parts[index]),
            "logprobs": shape.logprobs(index, pieces[index]) if pieces[index] else None,
            "finish_reason": _reason(answers.done[index], len(calls_in(parts[index]))),
        }
        for index in range(answers.count)
    ]
    return {**head, "choices": choices, **_figures(answers, asked)}


async def _stream(
    asked: Completion | Chat, answers: Answers, shape: _Texts | _Messages, head: dict[str, Any]
) -> AsyncGenerator[bytes, None]:
    def chunk(index: int, inner: dict[str, Any], reason: str | None = None) -> bytes:
        choice = {"index": index, "logprobs": None, **inner, "finish_reason": reason}
        return event({**head, "choices": [choice]})

    if shape.opening is not None:
        for index in range(answers.count):
            yield chunk(index, shape.opening)
    calls = [0] * answers.count
    async with aclosing(answers.events()) as events:
        async for index, told in events:
            parts = [part for part in shape.parts(index, told) if part]
            found = {}
            if not isinstance(told, Done) and told.chances is not None:
                found = {"logprobs": shape.logprobs(index, [told])}
                parts = parts or [""]
            for part in parts:
                yield chunk(index, {**shape.chunk(part, calls[index]), **found})
                calls[index] += isinstance(part, CallStart)
                found = {}
            if isinstance(told, Done):
                yield chunk(index, shape.ending, _reason(told, calls[index]))
    if asked.stream_options.include_usage or asked.explain_cache:
        yield event({**head, "choices": [], **_figures(answers, asked)})
    yield _LAST


def _reason(done: Done, calls: int) -> str:
    return "length" if done.end == "length" else "tool_calls" if calls else "stop"


def _call(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


def _figures(answers: Answers, asked: Completion | Chat) -> dict[str, Any]:
    prompt, generated = answers.prompt_tokens, answers.generated
    found: dict[str, Any] = {
        "usage": {
            "prompt_tokens": prompt,
            "completion_tokens": generated,
            "total_tokens": prompt + generated,
            "prompt_tokens_details": {"cached_tokens": answers.cached},
        },
        "timings": answers.timings(),
    }
    if asked.explain_cache:
        found["cache"] = answers.explanation()
    return found
