"""OpenAI's routes and their answers: ``/v1/models``, ``/v1/completions``, ``/v1/chat/completions``.

Source: the reference of OpenAI's API, and what the ``openai`` package reads.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from functools import partial

from mtkit.base.record import replace
from mtkit.chat.answer import Call, CallStart, CallText, Thought, calls_in, reasoning_in, text_in
from mtkit.serve.answer import Shape, send_shape
from mtkit.serve.bodies import Chat, Completion, chat_variables, schema_of
from mtkit.serve.conversation import messages_from_openai, prompt_end, tools_from_openai
from mtkit.serve.job import JobEnd, JobProgress, Terms
from mtkit.serve.llama import end_fields
from mtkit.serve.prompt import Fim, prompt_ids, prompts_of, single_text, spell_tokens
from mtkit.serve.reply import Problem, json_response, read_json
from mtkit.serve.request import MOST_BODY, read_with_sampler
from mtkit.serve.tool import Tools

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any, ClassVar

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.chat.answer import Part
    from mtkit.serve.bodies import Answer
    from mtkit.serve.job import Chances, Piece
    from mtkit.serve.model import ServedModel
    from mtkit.serve.tool import AnswerParser


class Choices(Shape):
    """What both shapes share: answers are choices."""

    prefix = part = complete = ""
    called = "tool_calls"
    ending: ClassVar[dict[str, Any]] = {}

    def __init__(self, served: ServedModel, asked: Answer, terms: Terms, prompts: Any) -> None:
        """Prepare the answers, as ``Shape``."""
        super().__init__(served, asked, terms, prompts)
        count = self.answers.count
        self._head = {
            "id": self.prefix + secrets.token_hex(12),
            "object": self.part if asked.stream else self.complete,
            "created": int(time.time()),
            "model": served.name,
            "system_fingerprint": served.fingerprint,
        }
        self._parts: list[list[Part]] = [[] for _ in range(count)]
        self._pieces: list[list[Piece]] = [[] for _ in range(count)]
        self._calls = [0] * count

    def parts(self, index: int, told: Piece | JobEnd) -> list[Part]:
        """Return the parts of an answer that a token settles."""
        raise NotImplementedError

    def delta(self, part: Part, calls: int) -> dict[str, Any]:
        """Return what a part is in a stream, behind so many calls."""
        raise NotImplementedError

    def message(self, index: int, parts: list[Part]) -> dict[str, Any]:
        """Return what all parts are together."""
        raise NotImplementedError

    def logprobs(self, index: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return how probable tokens were."""
        raise NotImplementedError

    def told(self, index: int, told: JobProgress | Piece | JobEnd) -> list[Any]:
        """Return the events of what was told."""
        if isinstance(told, JobProgress):
            return [{**self.chunk(index, self.ending), **self.progress(index, told)}]
        parts = [part for part in self.parts(index, told) if part]
        found, made = {}, []
        if not isinstance(told, JobEnd) and told.chances is not None:
            found = {"logprobs": self.logprobs(index, [told])}
            parts = parts or [""]
        for part in parts:
            made.append(self.chunk(index, {**self.delta(part, self._calls[index]), **found}))
            self._calls[index] += isinstance(part, CallStart)
            found = {}
        if made and self.asked.timings_per_token:
            made[-1] |= self.timed(index)
        if self._is_verbose:
            self._parts[index] += parts
        if isinstance(told, JobEnd):
            made.append(
                self.chunk(
                    index,
                    self.ending,
                    _finish_reason(told, self.called if self._calls[index] else "stop"),
                )
            )
            if not self._has_figures:
                made[-1]["timings"] = self.answers.timings[index].told()
            made[-1] |= self._verbose(index)
        return made

    def closing(self) -> list[Any]:
        """Return the event of the figures."""
        return [{**self._head, "choices": [], **self._figures()}] if self._has_figures else []

    def keep(self, index: int, told: JobProgress | Piece | JobEnd) -> None:
        """Remember what was told."""
        if isinstance(told, JobProgress):
            return
        self._parts[index] += self.parts(index, told)
        if not isinstance(told, JobEnd) and told.chances is not None:
            self._pieces[index].append(told)

    def whole(self) -> Any:
        """Return all answers."""
        choices = []
        for index, parts in enumerate(self._parts):
            pieces = self._pieces[index]
            choices.append({
                "index": index,
                **self.message(index, parts),
                "logprobs": self.logprobs(index, pieces) if pieces else None,
                "finish_reason": _finish_reason(
                    self.answers.done[index], self.called if calls_in(parts) else "stop"
                ),
            })  # fmt: skip
        return {**self._head, "choices": choices, **self._figures(), **self._verbose(0)}

    def chunk(self, index: int, inner: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        """Return an event of one choice."""
        choice = {"index": index, "logprobs": None, **inner, "finish_reason": reason}
        return {**self._head, "choices": [choice]}

    @property
    def _has_figures(self) -> bool:
        return self.asked.stream_options.include_usage or self.asked.explain_cache

    def _figures(self) -> dict[str, Any]:
        answers = self.answers
        prompt, generated = answers.prompt_tokens, answers.generated
        found: dict[str, Any] = {
            "usage": {
                "prompt_tokens": prompt,
                "completion_tokens": generated,
                "total_tokens": prompt + generated,
                "prompt_tokens_details": {"cached_tokens": answers.cached},
            },
            "timings": answers.timings[0].told(),
        }
        if self.asked.explain_cache:
            found["cache"] = answers.explanation()
        return found

    @property
    def _is_verbose(self) -> bool:
        return self.asked.verbose or self.served.settings.verbose

    def _verbose(self, index: int) -> dict[str, Any]:
        """Return what llama-server's own API would tell, if that is asked for."""
        if not self._is_verbose:
            return {}
        text = text_in(self._parts[index])
        return {"__verbose": end_fields(self, index, text, text, [])}


class TextChoices(Choices):
    """The shape of completions."""

    prefix, part, complete = "cmpl-", "text_completion", "text_completion"
    ending: ClassVar[dict[str, Any]] = {"text": ""}

    def __init__(
        self,
        served: ServedModel,
        asked: Completion,
        terms: Terms,
        prompts: Any,
        echoed: Sequence[str] = (),
    ) -> None:
        """Prepare the answers, as ``Shape``.

        Args:
            echoed: Their texts, if each is to begin its answers.
        """
        super().__init__(served, asked, terms, prompts)
        self._piece = served.model.piece
        self._echoed = [text for text in echoed for _ in range(asked.count)]
        self._offsets = dict(enumerate(map(len, self._echoed)))

    def opening(self) -> list[Any]:
        """Return the prompts that are echoed."""
        return [self.chunk(index, {"text": text}) for index, text in enumerate(self._echoed)]

    def parts(self, _: int, told: Piece | JobEnd) -> list[Part]:
        """Return the text."""
        return [told.text]

    def delta(self, part: Part, _: int) -> dict[str, Any]:
        """Return the text."""
        return {"text": part}

    def message(self, index: int, parts: list[Part]) -> dict[str, Any]:
        """Return the text."""
        return {"text": "".join([*self._echoed[index : index + 1], *map(str, parts)])}

    def logprobs(self, index: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return OpenAI's columns of probabilities."""
        texts = [piece.raw.decode("utf-8", "replace") for piece in pieces]
        found = [_chances_of(piece) for piece in pieces]
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


class ChatChoices(Choices):
    """The shape of chat completions."""

    prefix, part, complete = "chatcmpl-", "chat.completion.chunk", "chat.completion"
    ending: ClassVar[dict[str, Any]] = {"delta": {}}

    def __init__(
        self, served: ServedModel, asked: Chat, terms: Terms, prompts: Any, tools: Tools
    ) -> None:
        """Prepare the answers, as ``Shape``."""
        super().__init__(served, asked, terms, prompts)
        self._piece = served.model.piece
        told_apart = asked.reasoning_format != "none"
        read = partial(
            tools.reading, served.tail(prompts[0]), streams=asked.stream, reasoning=told_apart
        )
        self._readings: defaultdict[int, AnswerParser] = defaultdict(read)
        self._is_old = bool(asked.functions)  # calls as OpenAI's API had them before tools
        self.called = "function_call" if self._is_old else "tool_calls"

    def opening(self) -> list[Any]:
        """Return whose messages follow."""
        begun = {"delta": {"role": "assistant", "content": None}}
        return [self.chunk(index, begun) for index in range(self.answers.count)]

    def parts(self, index: int, told: Piece | JobEnd) -> list[Part]:
        """Return what the token settles."""
        return self._readings[index].read(told)

    def delta(self, part: Part, calls: int) -> dict[str, Any]:
        """Return what a part adds to the message."""
        if isinstance(part, str):
            return {"delta": {"content": part}}
        if isinstance(part, Thought):
            return {"delta": {"reasoning_content": part.text}}
        if self._is_old:
            name = {} if isinstance(part, CallText) else {"name": part.name}
            text = part.text if isinstance(part, CallText) else ""
            return {"delta": {"function_call": {**name, "arguments": text}}}
        if isinstance(part, CallText):
            told = {"index": calls - 1, "function": {"arguments": part.text}}
        else:
            told = {"index": calls, **_call_object(Call(part.id, part.name, ""))}
        return {"delta": {"tool_calls": [told]}}

    def message(self, _: int, parts: list[Part]) -> dict[str, Any]:
        """Return the message."""
        calls = [_call_object(call) for call in calls_in(parts)]
        text = text_in(parts)
        found: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if thoughts := reasoning_in(parts):
            found["reasoning_content"] = thoughts
        if calls:
            told = (
                {"function_call": calls[0]["function"]} if self._is_old else {"tool_calls": calls}
            )
            found |= {"content": text or None, **told}
        return {"message": found}

    def logprobs(self, _: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return OpenAI's list of probabilities."""

        def named(raw: bytes, chance: float) -> dict[str, Any]:
            text = raw.decode("utf-8", "replace")
            return {"token": text, "logprob": chance, "bytes": list(raw)}

        content = []
        for piece in pieces:
            found = _chances_of(piece)
            top = [
                named(self._piece(token_id, special=True), chance) for token_id, chance in found.top
            ]
            content.append({**named(piece.raw, found.logprob), "top_logprobs": top})
        return {"content": content, "refusal": None}


def _chances_of(piece: Piece) -> Chances:
    assert piece.chances is not None
    return piece.chances


def _finish_reason(done: JobEnd, otherwise: str) -> str:
    return "length" if done.end == "length" else otherwise


def _call_object(call: Call) -> dict[str, Any]:
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id, "type": "function", "function": function}


_DEFAULT_TOKENS = 16
"""Of a completion where nothing else is said; OpenAI's."""


async def models(_: Request, served: ServedModel) -> Response:
    """List the one model."""
    return json_response({"object": "list", "data": [_model_card(served)]})


async def model(request: Request, served: ServedModel) -> Response:
    """Describe the model."""
    if request.path_params["name"] not in {served.name, *served.aliases}:
        raise Problem(404, "there is no such model", code="model_not_found")
    return json_response(_model_card(served))


def _model_card(served: ServedModel) -> dict[str, Any]:
    model = served.model
    return {
        "id": served.name, "object": "model", "created": served.created, "owned_by": "mtkit",
        "aliases": served.aliases, "tags": served.tags, "context_length": served.scheduler.n_slot,
        "meta": {
            "n_vocab": model.n_vocab, "n_ctx_train": model.n_ctx_train, "n_embd": model.n_embd,
        },
    }  # fmt: skip


async def completions(request: Request, served: ServedModel) -> Response:
    """Continue texts."""
    body = await read_json(request, MOST_BODY)
    asked, sampler = read_with_sampler(Completion, body, served.settings.sampler, served.unknown)
    prompts = prompts_of(asked.prompt)
    served.scheduler.check(len(prompts) * asked.count, "prompt" if len(prompts) > 1 else "n")
    limit = served.limit(asked.limit, _DEFAULT_TOKENS)
    if asked.suffix:
        fim = Fim(served, suffix_first=served.settings.spm_infill)
        ids = [await fim.ids(single_text(one), asked.suffix, limit=limit) for one in prompts]
    else:
        ids = [await prompt_ids(served, one) for one in prompts]
    if asked.echo and asked.logprobs is not None:
        raise Problem(400, "echo: the prompt's own probabilities are not told", field="echo")
    echoed = [spell_tokens(served.model, one) for one in ids] if asked.echo else []
    terms = Terms(await served.held(sampler), limit, asked.stops, asked.logprobs)
    return await send_shape(request, TextChoices(served, asked, terms, ids, echoed))


async def chat(request: Request, served: ServedModel) -> Response:
    """Answer a conversation."""
    body = await read_json(request, MOST_BODY)
    asked, sampler = read_with_sampler(Chat, body, served.settings.sampler, served.unknown)
    schema = schema_of(asked.response_format, body)
    if schema is not None:
        sampler = replace(sampler, grammar=None, json_schema=schema)
    tools, given = chat_conversation(asked, served)
    sampler = await served.held(await tools.forcing(sampler))
    ids = await served.chat_ids(**given)
    if asked.top_logprobs and not asked.logprobs:
        raise Problem(400, "top_logprobs: needs logprobs to be true", field="top_logprobs")
    top = asked.top_logprobs if asked.logprobs else None
    shown = served.markers if tools.shows else frozenset()
    limit, budget = served.limit(asked.limit), served.budget(ids)
    terms = Terms(sampler, limit, asked.stops, top, shown, budget=budget)
    return await send_shape(request, ChatChoices(served, asked, terms, [ids], tools))


async def input_tokens(request: Request, served: ServedModel) -> Response:
    """Count the tokens of a conversation."""
    _, given = chat_conversation(await _chat_of(request, served), served)
    ids = await served.chat_ids(**given)
    return json_response({"object": "response.input_tokens", "input_tokens": len(ids)})


async def apply_template(request: Request, served: ServedModel) -> Response:
    """Return what the chat template makes of a conversation."""
    _, given = chat_conversation(await _chat_of(request, served), served)
    return json_response({"prompt": await served.chat_text(**given)})


async def _chat_of(request: Request, served: ServedModel) -> Chat:
    body = await read_json(request, MOST_BODY)
    return read_with_sampler(Chat, body, served.settings.sampler, served.unknown)[0]


def chat_conversation(asked: Chat, served: ServedModel) -> tuple[Tools, dict[str, Any]]:
    """Return the tools of a conversation, and what ``ServedModel.chat_ids`` takes."""
    given, choice, several = asked.tools, asked.tool_choice, asked.parallel_tool_calls
    if asked.functions:  # what OpenAI's API had before there were tools
        given = [*given, *({"type": "function", "function": one} for one in asked.functions)]
        choice, several = asked.function_call, False
    tools = Tools(served.form, tools_from_openai(given), choice, several=several)
    messages = messages_from_openai(asked.messages)
    ending = prompt_end(
        messages,
        asked.continue_final_message,
        asked.add_generation_prompt,
        prefill=served.settings.prefill_assistant,
    )
    values = chat_variables(asked)
    return tools, {"messages": messages, "tools": tools.given, "values": values, **ending}
