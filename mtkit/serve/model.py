"""The served model, which all routes share: scheduler, prompts, vectors, settings, counters."""

from __future__ import annotations

import asyncio
import marshal
import os
import re
import time
from collections import deque
from contextlib import suppress
from functools import cached_property, lru_cache, partial

import msgspec

from mtkit._version import __version__
from mtkit.base.record import replace
from mtkit.base.watch import work_cell
from mtkit.chat.answer import begins_in_reasoning
from mtkit.errors import MtkitError, UnsupportedError, UsageError
from mtkit.llama import Grammar
from mtkit.llama.media import MOST_BYTES, text_ids
from mtkit.llm.chat_prompt import ChatPrompt
from mtkit.llm.media import Media
from mtkit.llm.reasoning import find_reasoning, prompt_tail
from mtkit.llm.vectors import Pooler, own_pooling
from mtkit.serve.conversation import Conversation, is_reasoning_alone, prompt_end
from mtkit.serve.job import work_number
from mtkit.serve.media import NO_MEDIA, RequestMedia
from mtkit.serve.reply import Problem
from mtkit.serve.request import grammars, long_texts, room
from mtkit.serve.stop_text import CHANNEL_SIGNS, ReasoningSigns
from mtkit.serve.tool import Tools
from mtkit.sources.http_ranges import fetch_public

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any, TypeVar

    from starlette.requests import Request

    from mtkit.chat.answer import Form
    from mtkit.llm.reasoning import Reasoning
    from mtkit.llm.runner import Runner
    from mtkit.serve.job import Terms
    from mtkit.serve.metrics import Metrics
    from mtkit.serve.request import Scale, UnknownFields
    from mtkit.serve.response_store import ResponseStore
    from mtkit.serve.scheduler import Scheduler
    from mtkit.settings import SamplerSettings, ServeSettings

    T = TypeVar("T")


_FETCH_SECONDS = 0.005


class Mailbox:
    """Calls from other threads to an event loop, such as the events of jobs.

    Waking the loop costs a system call, and the scheduler then waits for Python's lock while the
    loop writes. So there are two states:

    * idle: nothing is scheduled; an urgent or an awaited call wakes the loop, which then fetches
      if it was woken less than ``_FETCH_SECONDS`` before
    * fetching: the loop empties the box every ``_FETCH_SECONDS``, so that what comes meanwhile is
      sent together; only an urgent call wakes it earlier. Once a fetch finds nothing awaited, idle

    Calls that nobody awaits (tokens of an answer that is sent whole) come with those that are.
    """

    def __init__(self) -> None:
        self._calls: deque[tuple[Callable[[Any], None], Any, bool]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._is_fetching, self._woken = False, 0.0
        # of the calls since the last ``deliver`` that woke the loop, or passed over them
        self._has_urgent = self._has_awaited = False

    def attach(self) -> None:
        """Deliver to the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def add(
        self, call: Callable[[Any], None], value: Any, *, urgent: bool, awaited: bool = True
    ) -> None:
        """Add a call, from any thread."""
        self._calls.append((call, value, awaited))
        self._has_urgent |= urgent
        self._has_awaited |= awaited

    def deliver(self) -> None:
        """Have the loop make the calls, from any thread."""
        awaited, self._has_awaited = self._has_awaited, False
        if self._loop is not None and (self._has_urgent or (awaited and not self._is_fetching)):
            self._has_urgent = False
            with suppress(RuntimeError):  # the loop is closed
                self._loop.call_soon_threadsafe(self._wake)

    def _wake(self) -> None:
        before, self._woken = self._woken, time.monotonic()
        if self._is_fetching or self._woken - before > _FETCH_SECONDS:
            self._empty()  # the next fetch is scheduled already, or would be for nothing
        else:
            self._is_fetching = True
            self._fetch()

    def _fetch(self) -> None:
        if self._empty():
            asyncio.get_running_loop().call_later(_FETCH_SECONDS, self._fetch)
            return
        self._is_fetching = False
        self._empty()  # what came before another thread could see that

    def _empty(self) -> bool:
        """Make the calls; returns whether any was awaited."""
        has_awaited = False
        while self._calls:
            call, value, awaited = self._calls.popleft()
            call(value)
            has_awaited |= awaited
        return has_awaited


class Vectors:
    """Vectors of texts, computed by the scheduler's thread between two batches, one by one."""

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        settings: ServeSettings,
        note: Callable[[str], None],
    ) -> None:
        """Prepare; the context is made for the first text."""
        self._scheduler, self._path, self._work = scheduler, runner.model.path, work_cell()
        kind = settings.pooling or own_pooling(runner.header.tensors)
        trained = max(runner.model.n_ctx_train, settings.context.n_ubatch)
        self._pooler = Pooler(
            runner.model,
            lambda: replace(settings.context, pooling=kind, threads=scheduler.threads),
            min(trained, max(scheduler.n_slot, _MOST_EMBEDDED)),
            note,
        )

    @property
    def most(self) -> int:
        """Tokens that a text may have."""
        return self._pooler.most

    async def of(self, prompts: Sequence[list[int]], pooling: str | None = None) -> list[Any]:
        """Return the vectors of texts."""
        path = self._path
        return [
            await self._compute(partial(self._vector, work_number(path, ids), ids, pooling))
            for ids in prompts
        ]

    def _vector(self, work: int, ids: list[int], pooling: str | None) -> Any:
        self._work[0] = work
        try:
            return self._pooler.vector(ids, pooling)
        finally:
            self._work[0] = 0

    async def check(self, pooling: str | None = None) -> None:
        """See that the model can do that, before texts are tokenized for it."""
        await self._compute(partial(self._pooler.open, 0, pooling))

    async def _compute(self, work: Callable[[], T]) -> T:
        room.leave()
        try:
            return await asyncio.wrap_future(self._scheduler.run_between(work))
        except UnsupportedError as error:
            raise Problem(501, str(error)) from None


_MOST_EMBEDDED = 8192
"""Tokens of a text for a vector, where slots have fewer."""
CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For models without a chat template, as in llama.cpp."""
_TOOLS_WORD = re.compile(r"\btools\b")
_MOST_TEXTS = 4096
"""Texts of biases whose tokens are remembered."""
_LINK_SECONDS = 10.0
"""How long a link to a picture may take."""
SHORT_TEXT = 1000
"""Characters, or tokens: work on as many takes less time than a thread takes to begin."""
_LONG_TEXT = 1 << 16
"""Above it, such work can hold up others."""
_BIAS_SIZE = 100
"""Characters that take as long as a bias."""


class ServedModel:
    """A model that is served.

    Attributes:
        generates: The model continues texts; others only make vectors of them.
    """

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        settings: ServeSettings,
        template: str | None,
        unknown: UnknownFields,
        metrics: Metrics,
        responses: ResponseStore,
        note: Callable[[str], None],
    ) -> None:
        """Look at the model's names, templates and vocabulary."""
        metadata = runner.header.file.metadata
        own = metadata.get("tokenizer.chat_template")
        for_tools = metadata.get("tokenizer.chat_template.tool_use")
        for_tools = template or (for_tools if isinstance(for_tools, str) else None)
        template = template or (own if isinstance(own, str) else None)
        settings = replace(settings, sampler=settings.sampler.with_own(metadata))
        self.model, self.scheduler, self.settings = runner.model, scheduler, settings
        self.projector = scheduler.projector
        self.file_name = os.path.basename(runner.model.path)
        self.aliases = split_names(settings.alias)
        self.name = self.aliases[0] if self.aliases else self.file_name
        self.fingerprint = f"build-mtkit-{__version__}"
        thinks = settings.reasoning != "off" and settings.reasoning_budget != 0
        variables = _read_variables(settings.chat_template_kwargs)
        self._default_values = {"enable_thinking": thinks, **variables}
        arch = metadata.get("general.architecture")
        self.generates = metadata.get(f"{arch}.attention.causal") is not False
        self.is_chatml = not template and runner.model.has_vocabulary
        if self.is_chatml:
            template = CHATML
        self.template, self.tool_template = template or "", for_tools or ""
        self.metrics, self.unknown, self.note = metrics, unknown, note
        self.vectors = Vectors(runner, scheduler, settings, self.note)
        self.responses = responses
        self.mailbox = Mailbox()
        self.slot_files = [asyncio.Lock() for _ in scheduler.slots]
        scheduler.on_events = self.mailbox.deliver
        self._prompt = self._tool_prompt = self._open_prompt(template) if template else None
        if for_tools and for_tools != template:
            self._tool_prompt = self._open_prompt(for_tools)
        self._has_noted_tools = False
        # requests bring the same texts again and again
        self._text_ids = lru_cache(_MOST_TEXTS)(
            lambda text: tuple(runner.model.tokenize(text, add_special=False))
        )
        self._sets_thinking = settings.reasoning != "auto" or settings.reasoning_budget == 0
        eos = runner.model.eos
        sign = runner.model.piece(eos, special=True).decode("utf-8", "replace") if eos >= 0 else ""
        self._form = start_form_analysis(for_tools or template, sign)
        if runner.model.has_vocabulary:
            runner.model.tokenize("a", add_special=False)  # its tables are filled by one thread

    @property
    def form(self) -> Form | None:
        """How the model writes answers; None without a chat template that can be analyzed."""
        return self._form.result()

    @cached_property
    def markers(self) -> frozenset[int]:
        """The control tokens that answers are written with."""
        if self.form is None or not self.model.has_vocabulary:
            return frozenset()
        ids = self.model.tokenize("".join(self.form.signs), add_special=False)
        return frozenset(token_id for token_id in ids if not self.model.piece(token_id))

    def spell(self, ids: Sequence[int], *, special: bool = True) -> str:
        """Return the text of tokens, control tokens as they are spelled."""
        piece = self.model.piece
        pieces = [piece(token_id, special=special) for token_id in text_ids(ids)]
        return b"".join(pieces).decode("utf-8", "replace")

    def tail(self, ids: Sequence[int]) -> str:
        """Return the end of a prompt."""
        return prompt_tail(self.model, ids)

    def conversation(
        self,
        messages: list[dict[str, Any]],
        tools: Sequence[Mapping[str, Any]],
        choice: str | Mapping[str, Any],
        values: dict[str, Any],
        continue_final: bool | str | None = None,
        add_generation_prompt: bool | None = None,
        *,
        several: bool,
        media: RequestMedia = NO_MEDIA,
    ) -> Conversation:
        """Return a conversation, whose end is as ``prompt_end`` says."""
        prefill = self.settings.prefill_assistant
        form = self.form
        reasons = form is None or form.thinking is not None or form.channels
        if continue_final is None and not reasons and is_reasoning_alone(messages[-1]):
            messages = messages[:-1] or messages  # of another model, which was interrupted
        end = prompt_end(messages, continue_final, add_generation_prompt, prefill=prefill)
        return Conversation(
            messages, Tools(self.form, tools, choice, several=several), values, media=media, **end
        )

    @property
    def modalities(self) -> dict[str, bool]:
        """What it takes besides text, in llama-server's words."""
        projector = self.projector
        sees, hears = (projector.sees, projector.hears) if projector is not None else (False, False)
        return {"vision": sees, "audio": hears, "video": False}

    def open_media(self) -> RequestMedia:
        """Return what takes the pictures and sounds of a request."""
        fetch = None
        if self.settings.media_urls:
            fetch = partial(fetch_public, most=MOST_BYTES, seconds=_LINK_SECONDS)
        media = Media(self.projector) if self.projector is not None else None
        return RequestMedia(media, fetch, self.settings.media_path)

    def _open_prompt(self, template: str) -> ChatPrompt:
        return ChatPrompt(self.model, template, values=self._server_variables())

    async def chat_ids(self, conversation: Conversation) -> list[int]:
        """Return the tokens of a conversation; texts of messages never are control tokens."""
        media = conversation.media.media
        return await self._chat(conversation, partial(ChatPrompt.ids, media=media))

    async def chat_text(self, conversation: Conversation) -> str:
        """Return what the chat template writes, as ``ChatPrompt.text`` says."""
        text: str = await self._chat(conversation, ChatPrompt.text)
        media = conversation.media.media
        return media.shown(text) if media is not None else text

    async def _chat(self, conversation: Conversation, render: Callable[..., T]) -> T:
        tools = conversation.tools.definitions
        prompt = self._tool_prompt if tools else self._prompt
        if prompt is None:
            raise Problem(400, f"{self.name} has no chat template", code="no_chat_template")
        is_told = tools and self.form is not None and not self.form.shows_tools
        if is_told and not self._has_noted_tools:
            self._has_noted_tools = True
            self.note("the chat template knows no tools: the model is told of them by mtkit")
        size = len(marshal.dumps((conversation.messages, tools, conversation.values)))
        return await run_in_thread(
            lambda: render(
                prompt,
                conversation.messages,
                tools or None,
                values=self._variables(conversation.values),
                continue_final=conversation.continue_final,
                add_generation_prompt=conversation.add_generation_prompt,
            ),
            max(size, SHORT_TEXT),
        )

    async def chat_terms(
        self,
        conversation: Conversation,
        terms: Terms,
        schema: str | None = None,
        thinking_tokens: int | None = None,
    ) -> tuple[list[int], Terms]:
        """Return the tokens of a conversation, and the terms of its answer.

        Args:
            thinking_tokens: What the request allows; None: what the server does.
        """
        sampler = terms.sampler
        if schema is not None and not conversation.tools.forces:  # a text is not to come then
            sampler = replace(sampler, grammar=None, json_schema=schema)
        sampler = await self.check_grammar(await conversation.tools.force(sampler))
        ids = await self.chat_ids(conversation)
        if terms.stops:
            terms = replace(terms, signs=self._reasoning_signs(ids))
        markers = self.markers if conversation.tools.shows_markers else frozenset()
        reasoning = self._reasoning(conversation, ids, sampler, thinking_tokens)
        return ids, replace(
            terms, sampler=sampler, markers=markers, reasoning=reasoning,
            chunks=conversation.media.chunks,
        )  # fmt: skip

    def _reasoning_signs(self, ids: Sequence[int]) -> ReasoningSigns | None:
        """Return what closes the reasoning of an answer to a prompt; None where it has none."""
        form = self.form
        if form is not None and form.channels:
            return CHANNEL_SIGNS
        if form is None or not form.thought:
            return None
        opening = form.thinking.core.strip() if form.thinking is not None else ""
        is_open = begins_in_reasoning(form, self.tail(ids))
        return ReasoningSigns(is_open, opening, tuple(sign.core for sign in form.thought))

    def limit(self, limit: int | None, default: int | None = None) -> int | None:
        """Return the most tokens of an answer; None: as many as fit.

        Args:
            limit: The request's; -1: as many as fit, None: it has none.
        """
        own = self.settings.n_predict
        if limit is None:
            limit = own if own >= 0 else default
        return None if limit is None or limit < 0 else limit

    def adapters(self, rows: Sequence[Scale]) -> tuple[float, ...] | None:
        """Return the scale of each adapter that a request asks for; None where it asks for none.

        Source: llama.cpp, tools/server/server-task.cpp: those that are not named get 0.
        """
        if not rows:
            return None
        scales = {row.id: row.scale for row in rows}
        self.model.check_adapters(scales, "lora")
        return tuple(scales.get(place, 0.0) for place in range(len(self.model.adapter_scales)))

    async def check_grammar(self, sampler: SamplerSettings) -> SamplerSettings:
        """Return settings of a sampler that the model's tokens can follow, with ids for biases."""
        if sampler.logit_bias:
            size = sum(_BIAS_SIZE + len(str(name)) for name, _ in sampler.logit_bias)
            sampler = await run_in_thread(lambda: self._with_bias_ids(sampler), size)
        grammar, schema = sampler.grammar, sampler.json_schema
        if grammar is not None or schema is not None:
            room.leave()
            compiled = await grammars.run(lambda: Grammar(self.model, text=grammar, schema=schema))
            compiled.close()
        return sampler

    def _with_bias_ids(self, sampler: SamplerSettings) -> SamplerSettings:
        total: dict[int, float] = {}  # 1,024 texts would be some 5,000 rows for each answer
        for name, bias in sampler.logit_bias:
            for token_id in (name,) if isinstance(name, int) else self._text_ids(name):
                total[token_id] = total.get(token_id, 0.0) + bias
        self.model.check_ids(total)
        return replace(sampler, logit_bias=tuple(total.items()))

    def _reasoning(
        self,
        conversation: Conversation,
        ids: Sequence[int],
        sampler: SamplerSettings,
        tokens: int | None = None,
    ) -> Reasoning | None:
        """Return how the model reasons, where something waits for the end of it or bounds it.

        Args:
            tokens: How long it may, by the request; None: by the server.
        """
        tokens = self.settings.reasoning_budget if tokens is None else tokens
        is_free = sampler.grammar is None and sampler.json_schema is None
        if is_free and tokens <= 0:
            return None
        return find_reasoning(
            self.form,
            self.tail(ids),
            thinks=self._variables(conversation.values).get("enable_thinking") is not False,
            text=not is_free and not conversation.tools.forces,
            budget=tokens if tokens > 0 else None,
        )

    def _variables(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the variables of the template, with its own names for whether to think."""
        variables = {**self._server_variables(), **self._default_values, **values}
        is_set = self._sets_thinking or "enable_thinking" in values
        thinks = variables.get("enable_thinking")
        if self.form is None or not is_set or not isinstance(thinks, bool):
            return variables
        return {**self.form.thinking_values(thinks=thinks), **variables}

    def _server_variables(self) -> dict[str, str]:
        """Return what templates expect of servers: today, and definitions, which mtkit adds itself.

        Source: llama.cpp, common/chat.cpp (``common_chat_extra_context``).
        """
        now = time.localtime()
        dates = {
            "date_string": time.strftime("%d %b %Y", now),
            "datetime": time.strftime("%b %d %Y", now),
        }
        return dates if _TOOLS_WORD.search(self.template) else {**dates, "functions": ""}


def split_names(text: str | None) -> list[str]:
    """Return names with commas between, in alphabetical order."""
    return sorted({name.strip() for name in (text or "").split(",") if name.strip()})


def _read_variables(text: str | None) -> dict[str, Any]:
    try:
        variables = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        variables = None
    if not isinstance(variables, dict):
        raise UsageError("is not a JSON object", field="--chat-template-kwargs")
    return variables


@lru_cache(8)  # a model that is loaded again has the same
def start_form_analysis(template: str | None, eos: str) -> Future[Form | None]:
    """Analyze a template in a thread of its own."""
    from concurrent.futures import ThreadPoolExecutor

    from mtkit.chat.answer_analysis import find_form

    def work() -> Form | None:
        try:
            return find_form(template, eos) if template else None
        except MtkitError:  # each request gets the error
            return None

    executor = ThreadPoolExecutor(1, "mtkit-form")
    try:
        return executor.submit(work)
    finally:
        executor.shutdown(wait=False)


async def run_in_thread(work: Callable[[], T], size: int = SHORT_TEXT) -> T:
    """Work in a thread of its own, so that other requests go on.

    Args:
        size: Characters or tokens: work on few is done at once, on many one after the other.
    """
    try:
        if size > _LONG_TEXT:
            return await long_texts.run(work)
        return work() if size < SHORT_TEXT else await asyncio.to_thread(work)
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair
        raise UsageError("holds a surrogate, which is not a character", field="text") from None


async def translate(request: Request, work: Callable[[], T]) -> T:
    """Translate what a request says to one of the server: 10,000 messages take 50 ms."""
    size = len(request.state.body)
    return await run_in_thread(work, size if size > _LONG_TEXT // 4 else 0)
