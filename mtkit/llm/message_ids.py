"""The ids of a conversation in which only the chat template can write control tokens.

A template's text is tokenized with special tokens recognized, the texts of the messages and of the
definitions of tools, names of their parameters included, without: somebody who writes
``<|im_end|>`` in a message or a description writes text, and does not end the message.

Conversations that spell no control token, nearly all, are rendered and tokenized whole. The others
are rendered once more with marks in their texts (``text_marks``). That rendering is cut at the
control tokens that are left in it, which are the template's; a part that holds marks loses them and
is tokenized without special tokens. llama.cpp cuts at control tokens first, too, so every other id
is the same (llama-vocab.cpp, ``tokenizer_st_partition``). A template that looks for a control token
in a text does not find it, and one that cuts a mark in two is not taken: with other marks, it
would have to write the same.
"""

from __future__ import annotations

from mtkit.chat.rendering import TemplateRefusal
from mtkit.errors import UsageError
from mtkit.llm.text_marks import TextMarks, strings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any, NoReturn

    from mtkit.llama import Model

_SPACES = " \t\n\v\f\r"


def message_ids(
    model: Model,
    messages: Sequence[Any],
    rendered: Callable[[Sequence[Any], Sequence[Any] | None], str],
    tools: Sequence[Any] | None = None,
) -> list[int]:
    """Return the ids of messages.

    Args:
        model: Whose tokenizer it is.
        messages: The conversation.
        rendered: Writes messages and tools as the template has them.
        tools: Definitions of tools.

    Raises:
        UsageError: The template takes texts apart that spell a control token.
    """
    text = rendered(messages, tools)
    ids = model.tokenize(text, add_special=False, parse_special=True)
    texts = "\n".join(strings([messages, tools]))
    controls = _controls_in(model, ids) | control_tokens(model, texts)

    def marked(marks: TextMarks) -> str:
        try:
            return rendered(*marks.given([messages, tools]))
        except TemplateRefusal:  # it may look for what is not there
            return _refused(messages, controls, texts)

    if any(len(one) == 1 and one in texts for one in controls):  # there is no room for a mark
        _refused(messages, controls, texts)
    while controls:
        marks = TextMarks(controls, text + texts)
        if marks.given([messages, tools]) == [messages, tools]:
            break
        made = marked(marks)
        if marks.removed(made) != text:
            others = TextMarks(controls, made + text + texts, other=True)
            if others.removed(marked(others)) != marks.removed(made):
                return _refused(messages, controls, texts)
        seen = control_tokens(model, made)
        if controls.keys() >= seen.keys():
            return rendered_ids(model, made, controls, marks)
        controls |= seen  # what a spelling held that is broken now
    return ids


def _refused(messages: Sequence[Any], controls: Iterable[str], texts: str) -> NoReturn:
    spelled = next((one for one in controls if one in texts), next(iter(controls)))
    raise UsageError(
        f"a text spells the control token {spelled}, and the chat template takes texts apart there",
        field="messages" if spelled in "\n".join(strings(messages)) else "tools",
        hint="write it differently",
    )


def control_tokens(model: Model, text: str) -> dict[str, int]:
    """Return the control tokens that are recognized in a text, the longest spelling first."""
    return _controls_in(model, model.tokenize(text, add_special=False, parse_special=True))


def _controls_in(model: Model, ids: Sequence[int]) -> dict[str, int]:
    return {
        model.piece(token_id, special=True).decode("utf-8", "surrogateescape"): token_id
        for token_id in set(ids)
        if model.is_control(token_id)
    }


def rendered_ids(model: Model, text: str, controls: dict[str, int], marks: TextMarks) -> list[int]:
    """Return the ids of a rendered text; the parts with marks are texts of messages."""
    import re

    spelled = sorted(map(re.escape, controls), key=len, reverse=True)
    parts = re.split(f"({'|'.join(spelled)})", text) if spelled else [text]
    ids: list[int] = []
    waiting = ""  # control tokens and texts without a mark, one call for all
    for place, part in enumerate(parts):
        plain = marks.removed(part)
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
