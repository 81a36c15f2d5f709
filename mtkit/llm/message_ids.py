"""The ids of a conversation in which only the chat template can write control tokens.

A template's text is tokenized with special tokens recognised, the texts of the messages and of the
definitions of tools, names of their parameters included, without: somebody who writes
``<|im_end|>`` in a message or a description writes text, and does not end the message.

Messages that spell no control token, nearly all, are rendered and tokenized whole. In the others
each such spelling is replaced by one character that occurs nowhere else before rendering, so that
the template may trim, cut or quote the text around it. The rendered text is then cut at the control
tokens that are left in it, which are the template's; a part that holds such characters gets its
spellings back and is tokenized without special tokens. llama.cpp cuts at control tokens first, too,
so every other id is the same (llama-vocab.cpp, ``tokenizer_st_partition``).

A template that looks for a control token in a message, as for the end of a reasoning, would render
something else: the messages of the assistant, then the tools, then all keep their spellings there.
"""

from __future__ import annotations

from contextlib import suppress

from mtkit.chat.rendering import TemplateRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mtkit.llama import Model

_RARE = range(0x20000, 0x2A6D6)
"""Ideographs: unlike private characters, they stand for themselves in what Python shows of a list
or an object, which is how some templates write tools."""
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
    """
    text = rendered(messages, tools)
    strings = [*_strings(messages), *_strings(tools)]
    spelled = _controls(model, "\n".join(strings))
    if spelled:
        used = set(text).union(*strings)
        free = (chr(code) for code in _RARE if chr(code) not in used)
        marks = dict(zip(spelled, free, strict=False))
        every = [_marked(message, marks) for message in messages]
        others = [
            message if isinstance(message, dict) and message.get("role") == "assistant" else changed
            for message, changed in zip(messages, every, strict=True)
        ]
        defined = _marked(tools, marks)
        candidates = [(every, defined), (others, defined)]
        if defined != tools:
            candidates += [(every, tools), (others, tools)]
        for candidate in candidates:
            with suppress(TemplateRefusal):  # it may look for what is not there
                marked = rendered(*candidate)
                if _restored(marked, marks) == text:
                    return _ids(model, marked, marks)
    return model.tokenize(text, add_special=False, parse_special=True)


def _strings(value: Any) -> Iterator[str]:
    """Yield every text in a JSON value, names included."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, part in value.items():
            yield str(key)
            yield from _strings(part)
    elif isinstance(value, (list, tuple)):
        for part in value:
            yield from _strings(part)


def _controls(model: Model, text: str) -> dict[str, int]:
    """Return the control tokens that are recognised in a text, the longest spelling first."""
    ids = set(model.tokenize(text, add_special=False, parse_special=True))
    found = {
        model.piece(token_id, special=True).decode("utf-8", "surrogateescape"): token_id
        for token_id in ids
        if model.is_control(token_id)
    }
    return dict(sorted(found.items(), key=lambda item: -len(item[0])))


def _marked(value: Any, marks: dict[str, str]) -> Any:
    """Return a JSON value with marks instead of the spellings in its texts."""
    if isinstance(value, str):
        for spelling, mark in marks.items():
            value = value.replace(spelling, mark)
        return value
    if isinstance(value, dict):
        return {_marked(key, marks): _marked(part, marks) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [_marked(part, marks) for part in value]
    return value


def _restored(text: str, marks: dict[str, str]) -> str:
    for spelling, mark in marks.items():
        text = text.replace(mark, spelling)
    return text


def _ids(model: Model, text: str, marks: dict[str, str]) -> list[int]:
    """Return the ids of a rendered text; the parts with marks are texts of messages."""
    import re

    controls = _controls(model, text)
    parts = re.split(f"({'|'.join(map(re.escape, controls))})", text) if controls else [text]
    ids: list[int] = []
    waiting = ""  # control tokens and texts without a mark, one call for all
    for place, part in enumerate(parts):
        plain = _restored(part, marks)
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
