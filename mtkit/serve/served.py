"""What the routes share: the model, its scheduler, its prompts, the settings, the counters."""

from __future__ import annotations

import asyncio
import os
import time

from mtkit._version import __version__
from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.llama import check_grammar, schema_grammar
from mtkit.llm.chat_prompt import ChatPrompt
from mtkit.serve.bodies.unknown import Unknown
from mtkit.serve.call_forms import form_of
from mtkit.serve.messages import with_one_text
from mtkit.serve.metrics import Metrics
from mtkit.serve.posts import Posts
from mtkit.serve.replies import Problem

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, TypeVar

    from mtkit.llm.runner import Runner
    from mtkit.serve.scheduler import Scheduler
    from mtkit.settings import SamplerSettings, ServeSettings

    T = TypeVar("T")


SHORT = 1000
"""Characters, or tokens, that are worked on in less time than another thread takes to begin."""


class Served:
    """A model that is served.

    Attributes:
        model: The model.
        scheduler: Answers.
        settings: How it is served.
        name: The model's.
        created: When the server started, in seconds since 1970.
        fingerprint: OpenAI's ``system_fingerprint``.
        metrics: What is counted.
        note: Tells the user something.
        unknown: Sees to the fields of requests that nothing reads.
        posts: What the scheduler tells.
        form: How the model writes calls of tools, if that is known.
        markers: The control tokens of that form.
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
        own, name = metadata.get("tokenizer.chat_template"), metadata.get("general.name")
        for_tools = metadata.get("tokenizer.chat_template.tool_use")
        for_tools = template or (for_tools if isinstance(for_tools, str) else None)
        template = template or (own if isinstance(own, str) else None)
        self.model, self.scheduler, self.settings = runner.model, scheduler, settings
        self.name = name if isinstance(name, str) and name else os.path.basename(runner.model.path)
        self.created = int(time.time())
        self.fingerprint = f"mtkit-{__version__}"
        self.metrics = Metrics(scheduler)
        self.note: Callable[[str], None] = on_note or (lambda _: None)
        self.unknown = Unknown(strict=settings.strict, count=self.metrics.ignored, say=self.note)
        self.posts = Posts()
        scheduler.told = self.posts.deliver
        self._chat = ChatPrompt(runner.model, template) if template else None
        self._for_tools = ChatPrompt(runner.model, for_tools) if for_tools else self._chat
        self.form = form_of(for_tools or template or "")
        self.markers: frozenset[int] = frozenset()
        if self.form is not None and runner.model.has_vocabulary:
            form = self.form
            signs = "".join((form.example, *form.openings, form.closing, *form.ends))
            ids = runner.model.tokenize(signs, add_special=False)
            self.markers = frozenset(one for one in ids if not runner.model.piece(one))
        if runner.model.has_vocabulary:
            runner.model.tokenize("a", add_special=False)  # its tables are filled by one thread

    @property
    def has_chat(self) -> bool:
        """Whether the model has a chat template."""
        return self._chat is not None

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
        prompt, messages = self._prompt(tools), self._fitting(messages)
        return await aside(
            lambda: prompt.ids(
                messages,
                tools or None,
                values=values,
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
        prompt, messages = self._prompt(tools), self._fitting(messages)
        return await aside(
            lambda: prompt.text(
                messages,
                tools or None,
                values=values,
                continue_final=continue_final,
                add_generation_prompt=add_generation_prompt,
            )
        )

    async def text_ids(
        self, text: str, *, add_special: bool = True, parse_special: bool = True
    ) -> list[int]:
        """Return the tokens of a text."""
        tokenize = self.model.tokenize
        return await aside(
            lambda: tokenize(text, add_special=add_special, parse_special=parse_special),
            is_short=len(text) < SHORT,
        )

    async def held(self, sampler: SamplerSettings) -> SamplerSettings:
        """Return settings of a sampler whose schema is a grammar that llama.cpp can follow.

        Raises:
            UsageError: There is none.
        """
        if sampler.grammar is None and sampler.json_schema is None:
            return sampler
        return await asyncio.to_thread(_held, sampler)

    def _fitting(self, messages: Sequence[Any]) -> Sequence[Any]:
        return with_one_text(messages) if self.form and self.form.ends else messages

    def _prompt(self, tools: Sequence[Any] | None) -> ChatPrompt:
        found = self._for_tools if tools else self._chat
        if found is None:
            raise Problem(400, f"{self.name} has no chat template", code="no_chat_template")
        return found


def _held(sampler: SamplerSettings) -> SamplerSettings:
    schema, grammar = sampler.json_schema, sampler.grammar
    grammar = schema_grammar(schema) if schema is not None else grammar
    check_grammar(grammar or "")
    return replace(sampler, grammar=grammar, json_schema=None)


async def aside(work: Callable[[], T], *, is_short: bool = False) -> T:
    """Work in a thread of its own, so that other requests go on; what is short is done at once."""
    try:
        return work() if is_short else await asyncio.to_thread(work)
    except UnicodeEncodeError:  # JSON can spell half a surrogate pair
        raise UsageError("holds a surrogate, which is not a character", field="text") from None
