"""What the routes share: the model, its scheduler, prompts, vectors, settings and counters.

Vectors of texts are computed by the scheduler's thread between two batches, one after the other.

What that thread tells is brought to the event loop in one go (``Mailbox``). To wake the loop costs
a system call, and the scheduler then waits for Python's lock while the loop writes. So the loop is
woken for what is new, and fetches the rest itself as long as there is some, every
``_FETCH_SECONDS``: what is written together is sent together. What nobody waits for, as the tokens
of an answer that is sent as a whole, is fetched with what somebody does.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import deque
from contextlib import suppress
from functools import cached_property, partial

import msgspec

from mtkit._version import __version__
from mtkit.base.record import replace
from mtkit.chat.answer import begins_in_reasoning
from mtkit.chat.conversation import conversation_with_tools
from mtkit.errors import MtkitError, UsageError
from mtkit.llama import Grammar
from mtkit.llama.context import Embedder
from mtkit.llm.chat_prompt import ChatPrompt
from mtkit.serve.conversation import merge_texts
from mtkit.serve.job import ThinkingBudget
from mtkit.serve.metrics import Metrics
from mtkit.serve.reply import Problem
from mtkit.serve.request import UnknownFields

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any, TypeVar

    from mtkit.chat.answer import Form
    from mtkit.llama import Model
    from mtkit.llm.runner import Runner
    from mtkit.serve.scheduler import Scheduler
    from mtkit.settings import SamplerSettings, ServeSettings

    T = TypeVar("T")


_FETCH_SECONDS = 0.005


class Mailbox:
    """Calls to be made in an event loop."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Callable[[Any], None], Any, bool]] = deque()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._urgent = self._awaited = self._fetches = False

    def attach(self) -> None:
        """Deliver to the running loop from now on."""
        self._loop = asyncio.get_running_loop()

    def add(
        self, call: Callable[[Any], None], value: Any, *, urgent: bool, awaited: bool = True
    ) -> None:
        """Remember a call, from any thread.

        Args:
            urgent: It cannot wait for ``_FETCH_SECONDS``.
        """
        self._waiting.append((call, value, awaited))
        self._urgent |= urgent
        self._awaited |= awaited

    def deliver(self) -> None:
        """Have the loop make the calls, from any thread."""
        awaited, self._awaited = self._awaited, False
        if self._loop is not None and (self._urgent or (awaited and not self._fetches)):
            self._urgent = False
            with suppress(RuntimeError):  # the loop is closed: nobody waits
                self._loop.call_soon_threadsafe(self._make)

    def _make(self) -> None:
        if self._fetches:  # woken between two fetches
            self._empty()
            return
        self._fetches = True
        self._fetch()

    def _fetch(self) -> None:
        if self._empty():
            asyncio.get_running_loop().call_later(_FETCH_SECONDS, self._fetch)
            return
        self._fetches = False
        self._empty()  # what came before the scheduler could see that

    def _empty(self) -> bool:
        """Make the calls; says whether any was awaited."""
        found = False
        while self._waiting:
            call, value, awaited = self._waiting.popleft()
            call(value)
            found |= awaited
        return found


class Vectors:
    """What makes vectors of texts, made when it is first asked for."""

    def __init__(
        self,
        model: Model,
        scheduler: Scheduler,
        settings: ServeSettings,
        note: Callable[[str], None],
        *,
        ranks: bool,
    ) -> None:
        """Take what they are made with.

        Args:
            ranks: The model has a head that says how well a text answers a question.
        """
        self._ranks = ranks
        self._model, self._scheduler, self._settings = model, scheduler, settings
        self._note = note
        self._made: Embedder | None = None

    async def of(self, prompts: Sequence[list[int]], pooling: str | None = None) -> list[Any]:
        """Return the vectors of texts."""
        found = []
        for ids in prompts:
            future = self._scheduler.between(partial(self._vector, ids, pooling))
            found.append(await asyncio.wrap_future(future))
        return found

    def _vector(self, ids: list[int], pooling: str | None) -> Any:
        if self._made is None:
            settings = self._settings
            threads = self._scheduler.threads
            kind = settings.pooling or ("rank" if self._ranks else None)
            context = replace(settings.context, pooling=kind, threads=threads)
            self._made = Embedder(self._model, context)
            if not self._made.is_own and kind is None:
                self._note("the model does not say how it embeds: the mean is taken")
        found = self._made.pooling
        if (pooling or found) != found or (pooling is None and found == "rank"):
            raise Problem(501, f"this model cannot do that: its pooling is {found}")
        return self._made.vector(ids)


CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For models without a chat template, as in llama.cpp."""
_TOOLS_WORD = re.compile(r"\btools\b")
_RANK_TENSOR = "cls.output.weight"
"""The tensor of a head that says how well a text answers a question."""
_TAIL_TOKENS = 256
"""Tokens of a prompt that may say how its answer begins."""
SHORT_TEXT = 1000
"""Characters, or tokens, that are worked on in less time than another thread takes to begin."""


class ServedModel:
    """A model that is served.

    Attributes:
        created: When the server started, in seconds since 1970.
        default_values: Variables of the template where a request does not say.
        generates: The model continues texts; others only make vectors of them.
    """

    def __init__(
        self,
        runner: Runner,
        scheduler: Scheduler,
        settings: ServeSettings,
        template: str | None = None,
        on_note: Callable[[str], None] | None = None,
    ) -> None:
        """Take what is shared.

        Args:
            on_note: Called with what the user should know, in any thread.
        """
        metadata = runner.header.file.metadata
        own = metadata.get("tokenizer.chat_template")
        for_tools = metadata.get("tokenizer.chat_template.tool_use")
        for_tools = template or (for_tools if isinstance(for_tools, str) else None)
        template = template or (own if isinstance(own, str) else None)
        self.model, self.scheduler, self.settings = runner.model, scheduler, settings
        self.file_name = os.path.basename(runner.model.path)
        self.aliases = _split_names(settings.alias)
        self.tags = _split_names(settings.tags)
        self.name = self.aliases[0] if self.aliases else self.file_name
        self.created = int(time.time())
        self.fingerprint = f"build-mtkit-{__version__}"
        thinks = settings.reasoning != "off" and settings.reasoning_budget != 0
        self.default_values = {
            "enable_thinking": thinks,
            **_template_variables(settings.chat_template_kwargs),
        }
        arch = metadata.get("general.architecture")
        self.generates = metadata.get(f"{arch}.attention.causal") is not False
        self.is_chatml = not template and runner.model.has_vocabulary
        if self.is_chatml:
            template = CHATML
        self.template, self.tool_template = template or "", for_tools or ""
        self.metrics = Metrics(scheduler)
        self.note: Callable[[str], None] = on_note or (lambda _: None)
        self.unknown = UnknownFields(
            strict=settings.strict, count=self.metrics.ignored, say=self.note
        )
        ranks = any(tensor.name == _RANK_TENSOR for tensor in runner.header.tensors)
        self.vectors = Vectors(runner.model, scheduler, settings, self.note, ranks=ranks)
        self.posts = Mailbox()
        scheduler.told = self.posts.deliver
        self._chat = ChatPrompt(runner.model, template) if template else None
        self._for_tools = ChatPrompt(runner.model, for_tools) if for_tools else self._chat
        self._introduced = False
        self._is_set = settings.reasoning != "auto" or settings.reasoning_budget == 0
        self._form = _start_form_analysis(for_tools or template, runner.model)
        if runner.model.has_vocabulary:
            runner.model.tokenize("a", add_special=False)  # its tables are filled by one thread

    @property
    def form(self) -> Form | None:
        """How the model writes answers; None without a chat template that can be looked at."""
        return self._form.result()

    @cached_property
    def markers(self) -> frozenset[int]:
        """The control tokens that answers are written with."""
        if self.form is None or not self.model.has_vocabulary:
            return frozenset()
        ids = self.model.tokenize("".join(self.form.signs), add_special=False)
        return frozenset(one for one in ids if not self.model.piece(one))

    def tail(self, ids: Sequence[int]) -> str:
        """Return the end of a prompt, special tokens as they are spelled."""
        pieces = (self.model.piece(one, special=True) for one in ids[-_TAIL_TOKENS:])
        return b"".join(pieces).decode("utf-8", "replace")

    async def chat_ids(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        continue_final: bool | str = False,
        add_generation_prompt: bool = True,
    ) -> list[int]:
        """Return the tokens of a conversation; texts of messages never are control tokens."""
        prompt = self._prompt(tools)
        messages, tools = self._fitting(messages, tools)
        return await run_in_thread(
            lambda: prompt.ids(
                messages,
                tools or None,
                values=self._variables(values),
                continue_final=continue_final,
                add_generation_prompt=add_generation_prompt,
            )
        )

    async def chat_text(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        *,
        values: Mapping[str, Any] | None = None,
        continue_final: bool | str = False,
        add_generation_prompt: bool = True,
    ) -> str:
        """Return what the chat template writes, as ``ChatPrompt.text`` says."""
        prompt = self._prompt(tools)
        messages, tools = self._fitting(messages, tools)
        return await run_in_thread(
            lambda: prompt.text(
                messages,
                tools or None,
                values=self._variables(values),
                continue_final=continue_final,
                add_generation_prompt=add_generation_prompt,
            )
        )

    def limit(self, asked: int | None, default: int | None = None) -> int | None:
        """Return the most tokens of an answer; None: as many as fit.

        Args:
            asked: What the request says; -1: as many as fit, None: nothing.
        """
        own = self.settings.n_predict
        found = asked if asked is not None else own if own >= 0 else default
        return None if found is None or found < 0 else found

    async def held(self, sampler: SamplerSettings) -> SamplerSettings:
        """Return settings of a sampler whose grammar or schema the model's tokens can follow."""
        grammar, schema = sampler.grammar, sampler.json_schema
        if grammar is not None or schema is not None:
            compiled = await asyncio.to_thread(Grammar, self.model, text=grammar, schema=schema)
            compiled.close()
        return sampler

    def budget(self, ids: Sequence[int], tokens: int | None = None) -> ThinkingBudget | None:
        """Return how long the model may think.

        Args:
            tokens: What the request allows; None: what the server does.
        """
        own = self.settings.reasoning_budget
        tokens = own if tokens is None else tokens
        form = self.form
        if tokens <= 0 or form is None or not form.thought:
            return None
        sign = min(form.thought, key=lambda one: len(one.text))
        closing = self.model.tokenize(sign.text, add_special=False)
        return ThinkingBudget(
            tokens,
            begins_in_reasoning(form, self.tail(ids)),
            form.thinking.core if form.thinking is not None else "",
            tuple(one.core for one in form.thought),
            tuple(closing),
        )

    def _variables(self, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the variables of the template, whether to think by its own names."""
        found = {**self._of_servers(), **self.default_values, **(given or {})}
        is_asked = "enable_thinking" in (given or {}) or self._is_set
        thinks = found.get("enable_thinking")
        if self.form is None or not is_asked or not isinstance(thinks, bool):
            return found
        return {**self.form.thinking_values(thinks=thinks), **found}

    def _of_servers(self) -> dict[str, str]:
        """Return what templates expect of servers: today, and definitions, which mtkit adds itself.

        Source: llama.cpp, common/chat.cpp (``common_chat_extra_context``).
        """
        now = time.localtime()
        found = {
            "date_string": time.strftime("%d %b %Y", now),
            "datetime": time.strftime("%b %d %Y", now),
        }
        return found if _TOOLS_WORD.search(self.template) else {**found, "functions": ""}

    def _fitting(
        self, messages: Sequence[Any], tools: Sequence[Any] | None
    ) -> tuple[Sequence[Any], Sequence[Any] | None]:
        """Return messages and tools as the template shows them."""
        form = self.form
        if form is None:
            return messages, tools
        if form.channels:
            messages = merge_texts(messages)
        if tools and not form.shows_tools and not self._introduced:
            self._introduced = True
            self.note("the chat template knows no tools: the model is told of them by mtkit")
        return conversation_with_tools(form, messages, tools)

    def _prompt(self, tools: Sequence[Any] | None) -> ChatPrompt:
        found = self._for_tools if tools else self._chat
        if found is None:
            raise Problem(400, f"{self.name} has no chat template", code="no_chat_template")
        return found


def _split_names(text: str | None) -> list[str]:
    """Return names with commas between, in alphabetical order."""
    return sorted({one.strip() for one in (text or "").split(",") if one.strip()})


def _template_variables(text: str | None) -> dict[str, Any]:
    """Return variables of a template."""
    try:
        found = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError("is not a JSON object", field="--chat-template-kwargs")
    return found


def _start_form_analysis(template: str | None, model: Model) -> Future[Form | None]:
    """Look at a template beside what else there is to do."""
    from concurrent.futures import ThreadPoolExecutor

    from mtkit.chat.answer_analysis import find_form

    eos = model.piece(model.eos, special=True).decode("utf-8", "replace") if model.eos >= 0 else ""

    def work() -> Form | None:
        try:
            return find_form(template, eos) if template else None
        except MtkitError:  # requests are told what is wrong with it
            return None

    with_one = ThreadPoolExecutor(1, "mtkit-form")
    try:
        return with_one.submit(work)
    finally:
        with_one.shutdown(wait=False)


async def run_in_thread(work: Callable[[], T], *, is_short: bool = False) -> T:
    """Work in a thread of its own, so that other requests go on; what is short is done at once."""
    try:
        return work() if is_short else await asyncio.to_thread(work)
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair
        raise UsageError("holds a surrogate, which is not a character", field="text") from None
