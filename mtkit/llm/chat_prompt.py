"""The prompt of a conversation: messages rendered by the chat template, and their ids.

Only the chat template can write control tokens. Its text is tokenized with special tokens
recognized; texts of messages and of tool definitions, parameter names included, are not: a user who
writes ``<|im_end|>`` writes text, and does not end the message.

Conversations that spell no control token, nearly all, are rendered and tokenized whole. The others
are rendered once more with marks in their texts (``TextMarks``). That rendering is cut at the
control tokens left in it, which are the template's; a part that holds marks loses them and is
tokenized without special tokens. llama.cpp cuts at control tokens first, too, so every other id is
the same (llama-vocab.cpp, ``tokenizer_st_partition``). A template that looks for a control token in
a text does not find it, and one that cuts a mark in two is refused: with other marks, it would have
to write the same.

A mark is drawn anew for each conversation and occurs nowhere in it. It goes into each spelling of
a control token before its last character, where a template that sorts names hardly sees it. A text
that begins or ends like part of a spelling gets one there, too: a template that writes
``<parameter=`` and ``>`` around a name, or nothing between two texts, would complete it.
"""

from __future__ import annotations

from mtkit.chat.rewriting import Rewriter, render_or_simplify
from mtkit.chat.template import REASONING, TemplateRefusal
from mtkit.errors import UnsupportedError, UsageError, wording
from mtkit.llama.shared_library import apply_builtin_template, builtin_templates
from mtkit.llm.media import MarkedModel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import Any, NoReturn, TypedDict

    from typing_extensions import Unpack

    from mtkit.chat.answer import Calls, Form
    from mtkit.llama import Model
    from mtkit.llm.media import Media

    class TemplateArguments(TypedDict, total=False):
        """How a conversation is rendered, besides its messages and tools.

        Attributes:
            values: Further variables of the template; they win over the special tokens.
            continue_final: End inside the last message: behind its content, or the field named.
        """

        values: Mapping[str, Any] | None
        continue_final: bool | str
        add_generation_prompt: bool


_WORDS = frozenset((
    "system", "user", "assistant", "tool", "developer", "text", "function", "object", "string",
    "number", "integer", "boolean", "array", "null", "role", "content", "type", "name",
    "tool_calls", "tool_call_id", "id", "arguments", "parameters", "properties", "required",
    "description", "enum", "items", "reasoning_content", "reasoning", "thinking",
))  # fmt: skip
"""Words of the protocol that templates compare with: left unmarked."""

_SIGNS = ("!01234", "#56789")
"""First character and digits of a mark. The first sorts before every letter of a name; none of
them changes in JSON, in Python's repr, or in upper case."""
_DIGITS = 20


class TextMarks:
    """The mark of one conversation: put into its texts, and taken out of what they become."""

    def __init__(self, controls: Iterable[str], used: str, *, other: bool = False) -> None:
        """Draw a mark."""
        self._controls = sorted(controls, key=len, reverse=True)
        cuts = [(control, n) for control in self._controls for n in range(1, len(control))]
        self._heads = tuple({control[n:] for control, n in cuts})
        self._tails = tuple({control[:n] for control, n in cuts})
        self.mark = _draw_mark(used, _SIGNS[other])

    def insert(self, value: Any) -> Any:
        """Return a JSON value with marks in its texts and names."""
        if isinstance(value, str):
            return self._mark_text(value)
        if isinstance(value, dict):
            return {self.insert(name): self.insert(part) for name, part in value.items()}
        if isinstance(value, (list, tuple)):
            return [self.insert(part) for part in value]
        return value

    def remove(self, text: str) -> str:
        """Return a text without marks."""
        return text.replace(self.mark, "")

    def _mark_text(self, text: str) -> str:
        for control in self._controls:
            while len(control) > 1 and control in text:
                text = text.replace(control, control[:-1] + self.mark + control[-1])
        core = text.strip()
        if not core or core in _WORDS:
            return text
        if core.endswith(self._tails) or any(core in control for control in self._controls):
            end = len(text.rstrip())
            text = text[:end] + self.mark + text[end:]
        if core.startswith(self._heads):
            start = len(text) - len(text.lstrip())
            text = text[:start] + self.mark + text[start:]
        return text


def texts_in(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for name, part in value.items():
            yield str(name)
            yield from texts_in(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from texts_in(part)


def _draw_mark(used: str, signs: str) -> str:
    import os

    mark = ""
    while not mark or mark in used:
        mark = signs[0] + "".join(signs[1 + byte % 5] for byte in os.urandom(_DIGITS))
    return mark


_SPACES = " \t\n\v\f\r"


def message_ids(
    model: Model | MarkedModel,
    messages: Sequence[Any],
    render: Callable[[Sequence[Any], Sequence[Any] | None], str],
    tools: Sequence[Any] | None = None,
) -> list[int]:
    """Return the ids of messages."""
    text = render(messages, tools)
    ids = model.tokenize(text, add_special=False, parse_special=True)
    texts = "\n".join(texts_in([messages, tools]))
    controls = _controls_in(model, ids) | control_tokens(model, texts)

    def render_marked(marks: TextMarks) -> str:
        try:
            return render(*marks.insert([messages, tools]))
        except TemplateRefusal:  # it may require a text that now holds a mark
            return _refuse_text(messages, controls, texts)

    if any(len(name) == 1 and name in texts for name in controls):  # no room for a mark
        _refuse_text(messages, controls, texts)
    while controls:
        marks = TextMarks(controls, text + texts)
        if marks.insert([messages, tools]) == [messages, tools]:
            break
        marked_text = render_marked(marks)
        if marks.remove(marked_text) != text:
            others = TextMarks(controls, marked_text + text + texts, other=True)
            if others.remove(render_marked(others)) != marks.remove(marked_text):
                return _refuse_text(messages, controls, texts)
        new_controls = control_tokens(model, marked_text)
        if controls.keys() >= new_controls.keys():
            return rendered_ids(model, marked_text, controls, marks)
        controls |= new_controls  # what a spelling held that is broken now
    return ids


def _refuse_text(messages: Sequence[Any], controls: Iterable[str], texts: str) -> NoReturn:
    control = next((name for name in controls if name in texts), next(iter(controls)))
    raise UsageError(
        f"a text spells the control token {control}, and the chat template takes texts apart there",
        field="messages" if control in "\n".join(texts_in(messages)) else "tools",
        hint="write it differently",
    )


def control_tokens(model: Model | MarkedModel, text: str) -> dict[str, int]:
    """Return the control tokens that are recognized in a text, the longest spelling first."""
    return _controls_in(model, model.tokenize(text, add_special=False, parse_special=True))


def _controls_in(model: Model | MarkedModel, ids: Sequence[int]) -> dict[str, int]:
    return {
        model.piece(token_id, special=True).decode("utf-8", "surrogateescape"): token_id
        for token_id in set(ids)
        if model.is_control(token_id)
    }


def rendered_ids(
    model: Model | MarkedModel, text: str, controls: dict[str, int], marks: TextMarks
) -> list[int]:
    """Return the ids of a rendered text; the parts with marks are texts of messages."""
    import re

    patterns = sorted(map(re.escape, controls), key=len, reverse=True)
    parts = re.split(f"({'|'.join(patterns)})", text) if patterns else [text]
    ids: list[int] = []
    waiting = ""  # control tokens and texts without a mark: tokenized in one call
    for place, part in enumerate(parts):
        plain = marks.remove(part)
        if plain == part:
            waiting += part
            continue
        if place and model.strips(controls[parts[place - 1]])[1]:
            plain = plain.lstrip(_SPACES)
        if place + 1 < len(parts) and model.strips(controls[parts[place + 1]])[0]:
            plain = plain.rstrip(_SPACES)
        ids += model.tokenize(waiting, add_special=False, parse_special=True)
        ids += model.tokenize(plain, add_special=False, parse_special=False)
        waiting = ""
    return ids + model.tokenize(waiting, add_special=False, parse_special=True)


class ChatPrompt:
    """Renders conversations for a model; may be used from several threads."""

    def __init__(
        self,
        model: Model,
        template: str | None,
        *,
        parse_special: bool = False,
        values: Mapping[str, Any] | None = None,
    ) -> None:
        """Take a template.

        Args:
            values: Variables that every conversation has.
        """
        if not template:
            raise UnsupportedError(
                "has no chat template",
                source=model.path,
                hint=wording("add --chat-template-file FILE", "add template=TEXT"),
            )
        if model.has_encoder:
            raise UnsupportedError("is not a chat model: it has an encoder", source=model.path)
        self._model, self._template, self._parse_special = model, template, parse_special
        self._is_builtin = template.isprintable() and template in builtin_templates()
        self._values = {
            "bos_token": self._token_text(model.bos), "eos_token": self._token_text(model.eos),
            **(values or {}),
        }  # fmt: skip
        self._rewriter = Rewriter(
            lambda *chat: self._render(*chat, opens=True), self._calls, template
        )

    def ids(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        media: Media | None = None,
        **arguments: Unpack[TemplateArguments],
    ) -> list[int]:
        """Return the tokens of a conversation, as ``text`` renders it.

        Args:
            media: Pictures and sounds, whose marks stand in the messages.
        """
        model = MarkedModel(self._model, media) if media else self._model
        chat = self._rewriter.rewrite(messages, tools)

        def render(messages: Sequence[Any], tools: Sequence[Any] | None) -> str:
            return render_or_simplify(messages, tools, self._renderer(**arguments))

        if self._parse_special:
            text = render(chat.messages, chat.tools)
            ids = model.tokenize(text, add_special=False, parse_special=True)
        else:
            ids = message_ids(model, chat.messages, render, chat.tools)
        if media:
            media.check("".join(texts_in(messages)), ids)
        bos = self._model.bos
        if self._model.add_bos and ids[:1] != [bos]:  # templates that leave it to the tokenizer
            ids = [bos, *ids]
        return ids

    def text(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None = None,
        **arguments: Unpack[TemplateArguments],
    ) -> str:
        """Render a conversation, in messages that the template shows."""
        chat = self._rewriter.rewrite(messages, tools)
        return render_or_simplify(chat.messages, chat.tools, self._renderer(**arguments))

    def _renderer(
        self,
        *,
        values: Mapping[str, Any] | None = None,
        continue_final: bool | str = False,
        add_generation_prompt: bool = True,
    ) -> Callable[[Sequence[Any], Sequence[Any] | None], str]:
        opens = add_generation_prompt and not continue_final
        return lambda messages, tools: self._render(
            messages, tools, values=values, continue_final=continue_final, opens=opens
        )

    def _render(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None,
        *,
        values: Mapping[str, Any] | None = None,
        continue_final: bool | str = False,
        opens: bool,
    ) -> str:
        from mtkit.chat.template import render

        if self._is_builtin:
            return self._builtin(messages, tools, continue_final=continue_final, opens=opens)
        try:
            return render(
                self._template,
                messages,
                tools=tools,
                add_generation_prompt=opens,
                continue_final_message=continue_final,
                values={**self._values, **(values or {})},
            ).text
        except UsageError:
            if continue_final not in REASONING or self._form is None:
                raise
            sign = self._form.thinking
            if sign is None:
                raise
        opened = self._render(messages[:-1], tools, values=values, opens=True)
        before, _, behind = opened.rpartition(sign.core)
        if not before or behind.strip():  # nothing is opened, or it is closed at once
            is_closed = any(behind.strip() == close.core for close in self._form.thought)
            opened = (before if before and is_closed else opened) + sign.text
        return opened + str(messages[-1][continue_final])

    def _token_text(self, token_id: int) -> str:
        piece = self._model.piece(token_id, special=True) if token_id >= 0 else b""
        return piece.decode("utf-8", "replace")

    def _calls(self) -> Calls | None:
        """Return how calls are written in an answer."""
        return None if self._form is None else self._form.calls

    @property
    def _form(self) -> Form | None:
        """How answers are written."""
        from mtkit.chat.answer_analysis import find_form

        return None if self._is_builtin else find_form(self._template, self._values["eos_token"])

    def _builtin(
        self,
        messages: Sequence[Any],
        tools: Sequence[Any] | None,
        *,
        continue_final: bool | str,
        opens: bool,
    ) -> str:
        from mtkit.chat.template import Rendering, render_continuation

        if tools:
            raise UnsupportedError(f"the chat template {self._template} has no place for tools")

        def whole(chat: Sequence[Any]) -> Rendering:
            return Rendering(
                apply_builtin_template(self._template, chat, add_generation_prompt=opens)
            )

        if not continue_final:
            return whole(messages).text
        return render_continuation("content", list(messages), "content", whole).text
