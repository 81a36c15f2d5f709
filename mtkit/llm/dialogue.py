"""A conversation with a model, by its own chat template.

Every turn renders and tokenizes the whole conversation; the prefix that it shares with the turn
before is not computed again. Where a conversation outgrows the context, the oldest exchange is
forgotten; the system message stays.
"""

from __future__ import annotations

from functools import cached_property

from mtkit.chat.answer import reasoning_in, text_in
from mtkit.errors import MtkitError, ResourceError, UsageError, format_count
from mtkit.llm.chat_prompt import ChatPrompt
from mtkit.llm.media import flat_messages, refuse_media
from mtkit.llm.reasoning import REASONING_WORDS, find_reasoning, prompt_tail

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from mtkit.chat.answer import Form, Part
    from mtkit.chat.answer_reader import Reader
    from mtkit.llama.media import Kind
    from mtkit.llm.media import Media
    from mtkit.llm.runner import Runner, Speculation, Token
    from mtkit.llm.sampling import Sampler

_ROOM_FOR_ANSWER = 16
"""Tokens of an answer that have to fit at least."""


class Dialogue:
    """A conversation; its context has to be open.

    Attributes:
        messages: Of the conversation so far, as ``role`` and ``content``.
        reused: Tokens of the last turn that did not have to be computed.
        forgotten: Messages that the last turn had to leave out.
        attached: What stands for pictures and sounds that come with the next message.
    """

    def __init__(
        self,
        runner: Runner,
        sampler: Sampler,
        template: str | None,
        *,
        system: str | None = None,
        parse_special: bool = False,
        speculation: Speculation | None = None,
        thinks: bool | None = None,
    ) -> None:
        """Begin a conversation.

        Args:
            thinks: Whether the model is to think before it answers; None: as the template has it.
        """
        self.runner = runner
        self.sampler = sampler
        self._prompt = ChatPrompt(runner.model, template, parse_special=parse_special)
        self._speculation = speculation
        self.messages: list[dict[str, Any]] = []
        self.reused = 0
        self.forgotten, self.attached = 0, ""
        self.ids: list[int] = []
        self._template, self._thinks = template or "", thinks
        self._prompt_ids: list[int] = []
        self._media: Media | None = None
        self._files: list[bytes] = []
        self.set_system(system)

    def attach(self, data: bytes, kind: Kind = "image") -> str:
        """Take a picture or sound; returns what stands for it in the text of a message."""
        refuse_media(self._kinds, kind)
        if self.speculates:
            raise UsageError("pictures and sounds do not go with drafts")
        self._media = self._media or self.runner.open_media()
        mark = self._media.add(data)
        self._media.prepare()
        self._files.append(data)
        return mark

    @property
    def _kinds(self) -> frozenset[Kind]:
        header = self.runner.header.projector
        return header.kinds if header is not None else frozenset()

    @property
    def plain_messages(self) -> list[dict[str, Any]]:
        """The messages, pictures and sounds as parts in OpenAI's form."""
        media = self._media
        return [
            {**message, "content": media.split(message["content"], self._files)}
            if media is not None and isinstance(message.get("content"), str) else message
            for message in self.messages
        ]  # fmt: skip

    def close(self) -> None:
        """Free the sampler; the runner belongs to the caller."""
        self.sampler.close()

    def set_system(self, text: str | None) -> None:
        """Set the system message, or remove it."""
        rest = [m for m in self.messages if m.get("role") != "system"]
        self.messages = [{"role": "system", "content": text}, *rest] if text else rest

    def reset(self) -> None:
        """Forget everything but the system message."""
        self.messages = [m for m in self.messages if m.get("role") == "system"]
        self._begin()

    def replace(self, messages: Any) -> None:
        """Go on with another conversation."""
        self.messages = check_messages(messages)
        if any(isinstance(message.get("content"), list) for message in self.messages):
            self.messages = flat_messages(self.messages, self.attach, self._kinds)
        self._begin()

    def _begin(self) -> None:
        if self._speculation is not None:
            self._speculation.reset()

    def answer(self, limit: int = -1, *, stops: Sequence[str] = ()) -> Iterator[Token]:
        """Answer the last message; the answer is added to the conversation, cut short or not.

        Reasoning becomes ``reasoning_content`` of the message, which most templates leave out of
        later turns.

        Args:
            limit: Tokens at most; -1 for as many as fit.
        """
        from mtkit.llama import Interrupted

        runner = self.runner
        runner.stop_requested = False  # before the template runs, which takes long the first time
        context = runner.context
        assert context is not None
        ids = self._prompt_ids = self._fit_prompt(context.n_ctx)
        if runner.stop_requested:
            raise Interrupted("interrupted")
        runner.feed(ids, media=self._media)
        self.reused = len(ids) - runner.computed
        self.sampler.reset()
        self.sampler.accept(ids)
        if self.sampler.has_grammar:
            tail, thinks = prompt_tail(runner.model, ids), self._thinks is not False
            self.sampler.watch(find_reasoning(self._form, tail, thinks=thinks, text=True))
        room = context.n_ctx - len(ids) + 1
        texts: list[str] = []
        self.ids = []
        try:
            for token in runner.stream(
                self.sampler,
                room if limit < 0 else min(limit, room),
                stops=stops,
                special=self._shows_signs,
                speculation=self._speculation,
            ):
                texts.append(token.text)
                if token.id >= 0:
                    self.ids.append(token.id)
                yield token
        finally:
            reader = self._reader()
            parts = reader.finish("".join(texts)) if reader is not None else ["".join(texts)]
            message = {"role": "assistant", "content": text_in(parts)}
            if thoughts := reasoning_in(parts):
                message["reasoning_content"] = thoughts
            self.messages.append(message)

    def parts(self, limit: int = -1, *, stops: Sequence[str] = ()) -> Iterator[list[Part]]:
        """Answer the last message, as ``answer``; yield what each token settles of it."""
        reader: Reader | None = None
        for place, token in enumerate(self.answer(limit, stops=stops)):
            if not place:
                reader = self._reader()
            yield reader.push(token.text) if reader is not None else [token.text]
        if reader is not None:
            yield reader.finish()

    @cached_property
    def _form(self) -> Form | None:
        """How the model writes its reasoning; None where its template mentions none."""
        from mtkit.chat.answer_analysis import find_form

        if not any(word in self._template for word in REASONING_WORDS):
            return None
        try:
            return find_form(self._template)
        except MtkitError:  # rendering the conversation says what is wrong
            return None

    @cached_property
    def _shows_signs(self) -> bool:
        """Whether answers are written with control tokens, which then belong to their text."""
        if self._form is None:
            return False
        model, signs = self.runner.model, "".join(sign.text for sign in self._form.thought)
        ids = model.tokenize(signs, add_special=False)
        return self._form.channels or any(map(model.is_control, ids))

    def _reader(self) -> Reader | None:
        from mtkit.chat.answer_reader import open_reader

        if self._form is None:
            return None
        prompt = prompt_tail(self.runner.model, self._prompt_ids)
        return open_reader(self._form, None, prompt, calls=False)

    def stop(self, *_: object) -> None:
        """End the current answer; can serve as a signal handler."""
        self.runner.stop_requested = True

    @property
    def speculates(self) -> bool:
        """Whether a draft proposes tokens."""
        return self._speculation is not None

    @property
    def end(self) -> str:
        """Why the last answer ended."""
        return self.runner.end

    def _fit_prompt(self, n_ctx: int) -> list[int]:
        """Return the tokens of the conversation, without the oldest exchanges if need be."""
        messages = list(self.messages)
        values: dict[str, Any] = {}
        if self._thinks is not None and self._form is not None:
            values = self._form.thinking_values(thinks=self._thinks)
        self.forgotten = 0
        while True:
            ids = self._prompt.ids(messages, media=self._media, values=values)
            if len(ids) + _ROOM_FOR_ANSWER <= n_ctx:
                return ids
            first = next((i for i, m in enumerate(messages) if m.get("role") != "system"), 0)
            later = [i for i, m in enumerate(messages) if i > first and m.get("role") == "user"]
            if not later:
                if len(ids) <= n_ctx:
                    return ids
                raise ResourceError(
                    f"the message has {format_count(len(ids), 'token')}, "
                    f"but the context holds {n_ctx}",
                    hint="raise --ctx, or write a shorter message",
                )
            self.forgotten += later[0] - first
            del messages[first : later[0]]


def check_messages(messages: Any) -> list[dict[str, Any]]:
    """Return the messages of a JSON value: a list, or an object with ``messages``."""
    if isinstance(messages, dict) and "messages" in messages:
        messages = messages["messages"]
    if not isinstance(messages, list):
        hint = 'as in [{"role": "user", "content": "Hello!"}]'
        raise UsageError("is not a list of messages", field="messages", hint=hint)
    for place, message in enumerate(messages):
        if not isinstance(message, dict) or not isinstance(message.get("role"), str):
            raise UsageError("is not an object with role and content", field=f"messages[{place}]")
    return list(messages)


def read_messages(text: str | bytes) -> list[dict[str, Any]]:
    """Return the messages that a JSON text holds."""
    import json

    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise UsageError(f"is not valid JSON: {error}") from None
    return check_messages(value)
