"""What the routes share: the model, its scheduler, its prompts, the settings, the counters."""

from __future__ import annotations

import asyncio
import os
import re
import time
from functools import cached_property

import msgspec

from mtkit._version import __version__
from mtkit.chat.answer_begin import begins_in_reasoning
from mtkit.chat.tool_prompt import prepared
from mtkit.errors import MtkitError, UsageError
from mtkit.llama import Grammar
from mtkit.llm.chat_prompt import ChatPrompt
from mtkit.serve.bodies.unknown import Unknown
from mtkit.serve.messages import with_one_text
from mtkit.serve.metrics import Metrics
from mtkit.serve.posts import Posts
from mtkit.serve.replies import Problem
from mtkit.serve.thinking_budget import Budget
from mtkit.serve.vectors import Vectors

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from concurrent.futures import Future
    from typing import Any, TypeVar

    from mtkit.chat.answer_form import Form
    from mtkit.llama import Model
    from mtkit.llm.runner import Runner
    from mtkit.serve.scheduler import Scheduler
    from mtkit.settings import SamplerSettings, ServeSettings

    T = TypeVar("T")


CHATML = (
    "{% for message in messages %}<|im_start|>{{ message.role }}\n{{ message.content }}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""For models without a chat template, as in llama.cpp."""
_TOOLS = re.compile(r"\btools\b")
_RANKS = "cls.output.weight"
"""The tensor of a head that says how well a text answers a question."""
_TAIL = 256
"""Tokens of a prompt that may say how its answer begins."""
SHORT = 1000
"""Characters, or tokens, that are worked on in less time than another thread takes to begin."""


class Served:
    """A model that is served.

    Attributes:
        model: The model.
        scheduler: Answers.
        settings: How it is served.
        name: The model's: the first alias, or the file's.
        file_name: Of the model.
        aliases: Of the model, in alphabetical order.
        tags: Of the model.
        created: When the server started, in seconds since 1970.
        fingerprint: OpenAI's ``system_fingerprint``.
        metrics: What is counted.
        note: Tells the user something.
        unknown: Sees to the fields of requests that nothing reads.
        vectors: What makes vectors of texts.
        posts: What the scheduler tells.
        default_values: Variables of the template where a request does not say.
        generates: The model continues texts; others only make vectors of them.
        is_chatml: The model has no chat template, so ChatML is used.
        template: The chat template; empty where there is none.
        tool_template: That of conversations with tools, if it is another one.
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
            runner: The model.
            scheduler: Answers; not started, or running.
            settings: How it is served.
            template: A chat template instead of the model's own.
            on_note: Called with what the user should know, in any thread.
        """
        metadata = runner.header.file.metadata
        own = metadata.get("tokenizer.chat_template")
        for_tools = metadata.get("tokenizer.chat_template.tool_use")
        for_tools = template or (for_tools if isinstance(for_tools, str) else None)
        template = template or (own if isinstance(own, str) else None)
        self.model, self.scheduler, self.settings = runner.model, scheduler, settings
        self.file_name = os.path.basename(runner.model.path)
        self.aliases = _listed(settings.alias)
        self.tags = _listed(settings.tags)
        self.name = self.aliases[0] if self.aliases else self.file_name
        self.created = int(time.time())
        self.fingerprint = f"build-mtkit-{__version__}"
        thinks = settings.reasoning != "off" and settings.reasoning_budget != 0
        self.default_values = {"enable_thinking": thinks, **_values(settings.chat_template_kwargs)}
        arch = metadata.get("general.architecture")
        self.generates = metadata.get(f"{arch}.attention.causal") is not False
        self.is_chatml = not template and runner.model.has_vocabulary
        if self.is_chatml:
            template = CHATML
        self.template, self.tool_template = template or "", for_tools or ""
        self.metrics = Metrics(scheduler)
        self.note: Callable[[str], None] = on_note or (lambda _: None)
        self.unknown = Unknown(strict=settings.strict, count=self.metrics.ignored, say=self.note)
        ranks = any(tensor.name == _RANKS for tensor in runner.header.tensors)
        self.vectors = Vectors(runner.model, scheduler, settings, self.note, ranks=ranks)
        self.posts = Posts()
        scheduler.told = self.posts.deliver
        self._chat = ChatPrompt(runner.model, template) if template else None
        self._for_tools = ChatPrompt(runner.model, for_tools) if for_tools else self._chat
        self._introduced = False
        self._is_set = settings.reasoning != "auto" or settings.reasoning_budget == 0
        self._form = _forming(for_tools or template, runner.model)
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
        pieces = (self.model.piece(one, special=True) for one in ids[-_TAIL:])
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
        return await aside(
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
        return await aside(
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
            default: Where neither it nor the server says.
        """
        own = self.settings.n_predict
        found = asked if asked is not None else own if own >= 0 else default
        return None if found is None or found < 0 else found

    async def held(self, sampler: SamplerSettings) -> SamplerSettings:
        """Return settings of a sampler whose grammar or schema the model's tokens can follow.

        Raises:
            UsageError: They cannot.
            UnsupportedError: A part of the schema cannot be enforced.
        """
        grammar, schema = sampler.grammar, sampler.json_schema
        if grammar is not None or schema is not None:
            compiled = await asyncio.to_thread(Grammar, self.model, text=grammar, schema=schema)
            compiled.close()
        return sampler

    def budget(self, ids: Sequence[int], tokens: int | None = None) -> Budget | None:
        """Return how long the model may think.

        Args:
            ids: The prompt.
            tokens: What the request allows; None: what the server does.
        """
        own = self.settings.reasoning_budget
        tokens = own if tokens is None else tokens
        form = self.form
        if tokens <= 0 or form is None or not form.thought:
            return None
        sign = min(form.thought, key=lambda one: len(one.text))
        closing = self.model.tokenize(sign.text, add_special=False)
        return Budget(
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
        return found if _TOOLS.search(self.template) else {**found, "functions": ""}

    def _fitting(
        self, messages: Sequence[Any], tools: Sequence[Any] | None
    ) -> tuple[Sequence[Any], Sequence[Any] | None]:
        """Return messages and tools as the template shows them."""
        form = self.form
        if form is None:
            return messages, tools
        if form.channels:
            messages = with_one_text(messages)
        if tools and not form.shows_tools and not self._introduced:
            self._introduced = True
            self.note("the chat template knows no tools: the model is told of them by mtkit")
        return prepared(form, messages, tools)

    def _prompt(self, tools: Sequence[Any] | None) -> ChatPrompt:
        found = self._for_tools if tools else self._chat
        if found is None:
            raise Problem(400, f"{self.name} has no chat template", code="no_chat_template")
        return found


def _listed(text: str | None) -> list[str]:
    """Return names with commas between, in alphabetical order."""
    return sorted({one.strip() for one in (text or "").split(",") if one.strip()})


def _values(text: str | None) -> dict[str, Any]:
    """Return variables of a template.

    Raises:
        UsageError: The text is not a JSON object.
    """
    try:
        found = msgspec.json.decode(text or "{}")
    except (msgspec.DecodeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise UsageError("is not a JSON object", field="--chat-template-kwargs")
    return found


def _forming(template: str | None, model: Model) -> Future[Form | None]:
    """Look at a template beside what else there is to do."""
    from concurrent.futures import ThreadPoolExecutor

    from mtkit.chat.answer_analysis import form_of

    eos = model.piece(model.eos, special=True).decode("utf-8", "replace") if model.eos >= 0 else ""

    def work() -> Form | None:
        try:
            return form_of(template, eos) if template else None
        except MtkitError:  # requests are told what is wrong with it
            return None

    with_one = ThreadPoolExecutor(1, "mtkit-form")
    try:
        return with_one.submit(work)
    finally:
        with_one.shutdown(wait=False)


async def aside(work: Callable[[], T], *, is_short: bool = False) -> T:
    """Work in a thread of its own, so that other requests go on; what is short is done at once."""
    try:
        return work() if is_short else await asyncio.to_thread(work)
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair
        raise UsageError("holds a surrogate, which is not a character", field="text") from None
