"""OpenAI's routes and their answers: ``/v1/models``, ``/v1/completions``, ``/v1/chat/completions``.

Source: the reference of OpenAI's API, and what the ``openai`` package reads.
"""

from __future__ import annotations

import secrets
import time
from collections import defaultdict
from datetime import datetime, timezone
from functools import partial

from mtkit.chat.answer import Call, CallStart, CallText, Thought, calls_in, reasoning_in, text_in
from mtkit.errors import UsageError
from mtkit.serve.answer import AnswerReply, send_reply
from mtkit.serve.bodies import Chat, Completion, schema_of, template_variables
from mtkit.serve.conversation import messages_from_openai, tools_from_openai
from mtkit.serve.job import JobEnd, Terms
from mtkit.serve.llama import end_fields
from mtkit.serve.model import translate
from mtkit.serve.prompt import Fim, prompt_ids, prompts_of, single_text
from mtkit.serve.reply import Problem, json_response
from mtkit.serve.request import read_json, read_with_sampler
from mtkit.serve.tool import (
    InputReader,
    InputText,
    as_function,
    choice_from_chat,
    custom_names,
    functions_from_chat,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from typing import Any, ClassVar

    from starlette.requests import Request
    from starlette.responses import Response

    from mtkit.chat.answer import Part
    from mtkit.serve.bodies import AnswerRequest
    from mtkit.serve.conversation import Conversation
    from mtkit.serve.job import Chances, Echo, Piece
    from mtkit.serve.model import ServedModel
    from mtkit.serve.pool import ModelPool, PooledModel
    from mtkit.serve.tool import AnswerParser, Tools


class ChoicesReply(AnswerReply):
    """A reply whose answers are choices."""

    prefix = chunk_object = whole_object = ""
    call_reason = "tool_calls"
    ending: ClassVar[dict[str, Any]] = {}

    def __init__(
        self, served: ServedModel, fields: AnswerRequest, terms: Terms, prompts: Any
    ) -> None:
        """Prepare the answers."""
        super().__init__(served, fields, terms, prompts)
        count = self.answers.count
        self._head = {
            "id": self.prefix + secrets.token_hex(12),
            "object": self.chunk_object if fields.stream else self.whole_object,
            "created": int(time.time()),
            "model": served.name,
            "system_fingerprint": served.fingerprint,
        }
        self._parts: list[list[Part]] = [[] for _ in range(count)]
        self._pieces: list[list[Piece]] = [[] for _ in range(count)]
        self._calls = [0] * count

    def parts(self, index: int, event: Piece | JobEnd) -> list[Part]:
        """Return the parts of an answer that an event completes."""
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

    def handle(self, index: int, event: Piece | JobEnd) -> Iterator[Any]:
        """Yield the chunks of an event."""
        parts = [part for part in self.parts(index, event) if part]
        logprobs = {}
        if not isinstance(event, JobEnd) and event.chances is not None:
            logprobs = {"logprobs": self.logprobs(index, [event])}
            parts = parts or [""]
        for place, part in enumerate(parts, 1):
            chunk = self.chunk(index, {**self.delta(part, self._calls[index]), **logprobs})
            self._calls[index] += isinstance(part, CallStart)
            logprobs = {}
            yield {**chunk, **(self.times(index) if place == len(parts) else {})}
        if self._is_verbose:
            self._parts[index] += parts
        if isinstance(event, JobEnd):
            chunk = self.chunk(index, reason=self._finish_reason(event, self._calls[index]))
            if not self._has_figures:
                chunk["timings"] = self.answers.timings[index].fields()
            yield chunk | self._verbose(index)

    def closing(self) -> list[Any]:
        """Return the chunk of the figures."""
        return [{**self._head, "choices": [], **self._figures()}] if self._has_figures else []

    def add(self, index: int, event: Piece | JobEnd) -> None:
        """Keep an event for the whole."""
        self._parts[index] += self.parts(index, event)
        if not isinstance(event, JobEnd) and event.chances is not None:
            self._pieces[index].append(event)

    def whole(self) -> Any:
        """Return all answers."""
        choices = []
        for index, parts in enumerate(self._parts):
            pieces, end = self._pieces[index], self.answers.ends[index]
            choices.append({
                "index": index,
                **self.message(index, parts),
                "logprobs": self.logprobs(index, pieces) if pieces or self.terms.echo else None,
                "finish_reason": self._finish_reason(end, len(calls_in(parts))),
            })  # fmt: skip
        return {**self._head, "choices": choices, **self._figures(), **self._verbose(0)}

    def chunk(
        self, index: int, content: dict[str, Any] | None = None, reason: str | None = None
    ) -> dict[str, Any]:
        """Return a chunk of one choice; without content one to which nothing is added."""
        content = self.ending if content is None else content
        choice = {"index": index, "logprobs": None, **content, "finish_reason": reason}
        return {**self._head, "choices": [choice]}

    def _finish_reason(self, end: JobEnd, calls: int) -> str:
        return "length" if end.end == "length" else self.call_reason if calls else "stop"

    @property
    def _has_figures(self) -> bool:
        return self.fields.stream_options.include_usage or self.fields.explain_cache

    def usage(self) -> dict[str, Any]:
        """Return how many tokens there were."""
        answers = self.answers
        prompt, generated = answers.prompt_tokens, answers.generated
        return {
            "prompt_tokens": prompt,
            "completion_tokens": generated,
            "total_tokens": prompt + generated,
            "prompt_tokens_details": {"cached_tokens": answers.cached},
        }

    def _figures(self) -> dict[str, Any]:
        answers = self.answers
        figures: dict[str, Any] = {
            "usage": self.usage(),
            "timings": answers.timings[0].fields(),
        }
        if self.fields.explain_cache:
            figures["cache"] = answers.explain_cache()
        return figures

    @property
    def _is_verbose(self) -> bool:
        return self.fields.verbose or self.served.settings.verbose

    def _verbose(self, index: int) -> dict[str, Any]:
        """Return the answer in llama-server's own shape, if the request is verbose."""
        if not self._is_verbose:
            return {}
        text = text_in(self._parts[index])
        return {"__verbose": end_fields(self, index, text, text, [])}


class CompletionReply(ChoicesReply):
    """The reply of ``/v1/completions``."""

    prefix, chunk_object, whole_object = "cmpl-", "text_completion", "text_completion"
    ending: ClassVar[dict[str, Any]] = {"text": ""}

    def __init__(
        self,
        served: ServedModel,
        fields: Completion,
        terms: Terms,
        prompts: Any,
        echoes: Sequence[str] = (),
    ) -> None:
        """Prepare the answers."""
        super().__init__(served, fields, terms, prompts)
        self._echoes = [text for text in echoes for _ in range(fields.count)]
        self._untold = set(range(len(self._echoes)))
        begin = map(len, self._echoes) if self._echoes else [0] * self.answers.count
        self._offsets = [-1] * self.answers.count if terms.echo else list(begin)

    def opening(self) -> list[Any]:
        """Return the prompts that are echoed, unless their probabilities come with them."""
        return [] if self.terms.echo else [self._echo(index) for index in sorted(self._untold)]

    def _echo(self, index: int) -> dict[str, Any]:
        self._untold.discard(index)
        pieces, self._pieces[index] = self._pieces[index], []
        logprobs = {"logprobs": self.logprobs(index, pieces)} if self.terms.echo else {}
        return self.chunk(index, {"text": self._echoes[index], **logprobs})

    def handle(self, index: int, event: Piece | JobEnd) -> Iterator[Any]:
        """Yield the chunks of an event, behind that of the prompt."""
        if index in self._untold:
            yield self._echo(index)
        yield from super().handle(index, event)

    def echo(self, index: int, event: Echo) -> None:
        """Keep how probable the tokens of the prompt were."""
        self._pieces[index] += event.pieces

    def parts(self, _: int, event: Piece | JobEnd) -> list[Part]:
        """Return the text."""
        return [event.text]

    def delta(self, part: Part, _: int) -> dict[str, Any]:
        """Return the text."""
        return {"text": part}

    def message(self, index: int, parts: list[Part]) -> dict[str, Any]:
        """Return the text."""
        return {"text": "".join([*self._echoes[index : index + 1], *map(str, parts)])}

    def logprobs(self, index: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return OpenAI's columns of probabilities."""
        served, is_eog = self.served, self.served.model.is_eog
        texts = [  # the token that ends an answer adds none
            piece.raw.decode("utf-8", "replace") if piece.text or not is_eog(piece.id) else ""
            for piece in pieces
        ]
        rows: list[Chances | None] = [_chances_of(piece) for piece in pieces]
        if self._offsets[index] < 0:  # the first token follows nothing
            self._offsets[index] = 0
            texts.insert(0, served.spell(self.answers.prompt(index)[:1]))
            rows.insert(0, None)
        offsets = []
        for text in texts:
            offsets.append(self._offsets[index])
            self._offsets[index] += len(text)
        return {
            "tokens": texts,
            "token_logprobs": [row and row.logprob for row in rows],
            "top_logprobs": [
                row and {served.spell([token]): chance for token, chance in reversed(row.top)}
                for row in rows
            ],
            "text_offset": offsets,
        }


class ChatReply(ChoicesReply):
    """The reply of ``/v1/chat/completions``."""

    prefix, chunk_object, whole_object = "chatcmpl-", "chat.completion.chunk", "chat.completion"
    ending: ClassVar[dict[str, Any]] = {"delta": {}}

    def __init__(
        self, served: ServedModel, fields: Chat, terms: Terms, prompts: Any, tools: Tools
    ) -> None:
        """Prepare the answers."""
        super().__init__(served, fields, terms, prompts)
        parser = partial(
            tools.parser, served.tail(prompts[0]), reasoning=fields.reasoning_format != "none"
        )
        self._parsers: defaultdict[int, AnswerParser] = defaultdict(parser)
        self._customs = custom_names(fields.tools)
        self._inputs: defaultdict[int, InputReader] = defaultdict(
            partial(InputReader, self._customs)
        )
        self._is_old = bool(fields.functions)  # calls as OpenAI's API had them before tools
        self.call_reason = "function_call" if self._is_old else "tool_calls"

    def opening(self) -> list[Any]:
        """Return the chunks that begin the messages."""
        head = {"delta": {"role": "assistant", "content": None}}
        return [self.chunk(index, head) for index in range(self.answers.count)]

    def parts(self, index: int, event: Piece | JobEnd) -> list[Part]:
        """Return the parts that an event completes."""
        parts = self._parsers[index].read(event)
        if not self._customs:
            return parts
        return list(self._inputs[index].read(parts, is_over=isinstance(event, JobEnd)))

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
        if isinstance(part, CallStart):
            call = {"index": calls, **self._call_object(Call(part.id, part.name, ""))}
        elif isinstance(part, InputText):
            call = {"index": calls - 1, "custom": {"input": part.text}}
        else:
            call = {"index": calls - 1, "function": {"arguments": part.text}}
        return {"delta": {"tool_calls": [call]}}

    def _call_object(self, call: Call) -> dict[str, Any]:
        if call.name in self._customs:
            custom = {"name": call.name, "input": call.arguments}
            return {"id": call.id, "type": "custom", "custom": custom}
        function = {"name": call.name, "arguments": call.arguments}
        return {"id": call.id, "type": "function", "function": function}

    def message(self, _: int, parts: list[Part]) -> dict[str, Any]:
        """Return the message."""
        calls = [self._call_object(call) for call in calls_in(parts)]
        text = text_in(parts)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if thoughts := reasoning_in(parts):
            message["reasoning_content"] = thoughts
        if calls:
            message["content"] = text or None
            if self._is_old:
                message["function_call"] = calls[0]["function"]
            else:
                message["tool_calls"] = calls
        return {"message": message}

    def usage(self) -> dict[str, Any]:
        """Return how many tokens there were, those of the reasoning on their own."""
        reasoned = sum(parser.reasoning_tokens for parser in self._parsers.values())
        return {**super().usage(), "completion_tokens_details": {"reasoning_tokens": reasoned}}

    def logprobs(self, _: int, pieces: Sequence[Piece]) -> dict[str, Any]:
        """Return OpenAI's list of probabilities."""
        return {"content": token_rows(self.served, pieces), "refusal": None}


def token_rows(served: ServedModel, pieces: Sequence[Piece]) -> list[dict[str, Any]]:
    """Return how probable tokens were, and others in their place."""

    def row(raw: bytes, chance: float) -> dict[str, Any]:
        text = raw.decode("utf-8", "replace")
        return {"token": text, "logprob": chance, "bytes": list(raw)}

    piece_of, rows = served.model.piece, []
    for piece in pieces:
        chances = _chances_of(piece)
        top = [row(piece_of(token_id, special=True), chance) for token_id, chance in chances.top]
        rows.append({**row(piece.raw, chances.logprob), "top_logprobs": top})
    return rows


def _chances_of(piece: Piece) -> Chances:
    assert piece.chances is not None
    return piece.chances


_DEFAULT_TOKENS = 16
"""OpenAI's limit for a completion without one."""


async def models(request: Request, pool: ModelPool) -> Response:
    """List the models."""
    cards = [_model_card(request, model, pool) for model in pool.models]
    if _ANTHROPIC_VERSION in request.headers:
        ends = {"first_id": cards[0]["id"], "last_id": cards[-1]["id"], "has_more": False}
        return json_response({"data": cards, **ends})
    return json_response({
        "object": "list", "data": cards,
        "models": [_ollamas_card(card) for card in cards],
    })  # fmt: skip


def _ollamas_card(card: Mapping[str, Any]) -> dict[str, Any]:
    """Return what llama-server says of a model besides its card, in the words of Ollama's list."""
    sees_or_hears = len(card["architecture"]["input_modalities"]) > 1
    capabilities = ["completion", *(["multimodal"] if sees_or_hears else ())]
    name = card["id"]
    return {"name": name, "model": name, "type": "model", "capabilities": capabilities}


async def model(request: Request, pool: ModelPool) -> Response:
    """Describe the model that answers to a name."""
    return json_response(_model_card(request, pool.choose(request.path_params["name"]), pool))


_ANTHROPIC_VERSION = "anthropic-version"
"""The header that all of Anthropic's clients send."""


def _model_card(request: Request, model: PooledModel, pool: ModelPool) -> dict[str, Any]:
    served = model.served
    if _ANTHROPIC_VERSION in request.headers:
        created = datetime.fromtimestamp(pool.created, timezone.utc)
        return {
            "type": "model", "id": model.name, "display_name": model.name,
            "created_at": created.strftime("%Y-%m-%dT%H:%M:%SZ"),
        }  # fmt: skip
    return {
        "id": model.name, "object": "model", "created": pool.created, "owned_by": "mtkit",
        "aliases": model.aliases, "tags": pool.tags,
        "context_length": served.scheduler.n_slot if served is not None else None,
        "status": {"value": "loaded" if served is not None else "unloaded"},
        "meta": model.sizes,
        "architecture": {
            "input_modalities": ["text", *model.inputs], "output_modalities": ["text"],
        },
    }  # fmt: skip


async def completions(request: Request, served: ServedModel) -> Response:
    """Continue texts."""
    body = await read_json(request)
    fields, sampler = read_with_sampler(Completion, body, served.settings.sampler, served.unknown)
    media = served.open_media()
    prompts = prompts_of(fields.prompt, media=media, scheduler=served.scheduler)
    served.scheduler.check(len(prompts) * fields.count, "prompt" if len(prompts) > 1 else "n")
    limit = served.limit(fields.limit, _DEFAULT_TOKENS)
    if fields.suffix:
        if media.media:
            raise UsageError("does not go with pictures and sounds", field="suffix")
        fim = Fim(served, suffix_first=served.settings.spm_infill)
        ids = [await fim.ids(single_text(prompt), fields.suffix, limit=limit) for prompt in prompts]
    else:
        ids = [await prompt_ids(served, prompt, media) for prompt in prompts]
    if fields.echo and fields.logprobs is not None and media.chunks:
        raise UsageError("of a prompt with pictures or sounds is not supported", field="logprobs")
    echoes = [served.spell(prompt) for prompt in ids] if fields.echo else []
    terms = Terms(
        await served.check_grammar(sampler), limit, fields.stops, fields.logprobs,
        echo=fields.echo and fields.logprobs is not None, chunks=media.chunks,
    )  # fmt: skip
    reply = CompletionReply(served, fields, terms, ids, echoes)
    return await send_reply(request, reply, streams=fields.stream)


async def chat(request: Request, served: ServedModel) -> Response:
    """Answer a conversation."""
    body = await read_json(request)
    fields, sampler = read_with_sampler(Chat, body, served.settings.sampler, served.unknown)
    schema = schema_of(fields.response_format, body)
    if fields.top_logprobs and not fields.logprobs:
        raise Problem(400, "top_logprobs: needs logprobs to be true", field="top_logprobs")
    top = fields.top_logprobs if fields.logprobs else None
    conversation = await translate(request, lambda: conversation_of(fields, served))
    terms = Terms(sampler, served.limit(fields.limit), fields.stops, top)
    ids, terms = await served.chat_terms(conversation, terms, schema)
    reply = ChatReply(served, fields, terms, [ids], conversation.tools)
    return await send_reply(request, reply, streams=fields.stream)


async def input_tokens(request: Request, served: ServedModel) -> Response:
    """Count the tokens of a conversation."""
    ids = await served.chat_ids(await _read_conversation(request, served))
    return json_response({"object": "response.input_tokens", "input_tokens": len(ids)})


async def apply_template(request: Request, served: ServedModel) -> Response:
    """Return what the chat template makes of a conversation."""
    text = await served.chat_text(await _read_conversation(request, served))
    return json_response({"prompt": text})


async def _read_conversation(request: Request, served: ServedModel) -> Conversation:
    body = await read_json(request)
    fields, _ = read_with_sampler(Chat, body, served.settings.sampler, served.unknown)
    return await translate(request, lambda: conversation_of(fields, served))


def _with_functions(message: dict[str, Any]) -> dict[str, Any]:
    """Return a message whose calls are all of functions."""
    calls = message.get("tool_calls")
    if not isinstance(calls, list):
        return message
    return {**message, "tool_calls": [as_function(call) for call in calls]}


def conversation_of(fields: Chat, served: ServedModel) -> Conversation:
    """Return the conversation of a request."""
    tools, choice = functions_from_chat(fields.tools), choice_from_chat(fields.tool_choice)
    several = fields.parallel_tool_calls
    if fields.functions:  # what OpenAI's API had before there were tools
        functions = [{"type": "function", "function": function} for function in fields.functions]
        tools = [*tools, *functions]
        choice, several = fields.function_call, False
    values = template_variables(
        fields.chat_template_kwargs, fields.enable_thinking, fields.reasoning_effort
    )
    media, messages = served.open_media(), map(_with_functions, fields.messages)
    return served.conversation(
        messages_from_openai(list(messages), media),
        tools_from_openai(tools),
        choice,
        values,
        fields.continue_final_message,
        fields.add_generation_prompt,
        several=several,
        media=media,
    )
