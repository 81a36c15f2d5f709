"""A rendering that ends inside its last message, for the model to go on with it.

A mark is put after the text of the message, and the rendering is cut where the mark stands. A
template that takes the message apart may leave a part of a mark before the cut: so there are
two renderings with marks that differ in each letter, and they have to be equal once cut.

Source: huggingface/transformers 5.23, utils/chat_template_utils.py (``continue_final_message``).
"""

from __future__ import annotations

import os

from mtkit.chat.rendering import Rendering
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

REASONING = ("reasoning_content", "thinking", "reasoning")
"""Names of a message's reasoning; the first is the one that templates read."""
_LETTERS = ("BCDFGHJK", "LMNPQRST")
"""Of the marks: capitals, as those of the reference's mark, that make no word."""
_LENGTH = 26
"""Of a mark, as of the reference's without its trailing blank: a template may count."""


def continued(
    template: str,
    chat: list[dict[str, Any]],
    field: str,
    rendered: Callable[[list[dict[str, Any]]], Rendering],
) -> Rendering:
    """Render a conversation up to the end of a field of its last message.

    Args:
        template: The template.
        chat: The messages.
        field: Name of the field.
        rendered: Renders messages with the template.

    Raises:
        UsageError: The message has no such text, or the template does not write it as it is.
    """
    names, text = _continued_text(template, chat, field)
    one, other = (
        _cut(rendered([*chat[:-1], _marked(chat[-1], names, mark)]), mark, text)
        for mark in _marks()
    )
    if one != other:
        raise UsageError("the chat template takes the message apart that is to be continued")
    return one


def _continued_text(template: str, chat: list[dict[str, Any]], name: str) -> tuple[list[str], str]:
    """Return the names of the fields that a mark goes to, and the text that is there."""
    final = chat[-1].get(name) if chat else None
    if final is None:
        raise UsageError(f"has no {name} to continue", field="messages")
    names = [name]
    if name in REASONING:
        names = [other for other in REASONING if chat[-1].get(other) == final]
    if not any(other in template for other in names):
        raise UsageError(f"the chat template does not know the field {name}")
    if isinstance(final, (list, tuple)):
        blocks = [block for block in final if isinstance(block, dict) and "text" in block]
        final = blocks[-1]["text"] if blocks else None
    if not isinstance(final, str):
        raise UsageError("the last message has no text to continue", field="messages")
    return names, final


def _marks() -> tuple[str, str]:
    """Return two marks that nobody has spelled and that differ in each letter."""
    drawn = int.from_bytes(os.urandom(_LENGTH), "little")
    first, second = (
        "".join(letters[drawn >> 3 * place & 7] for place in range(_LENGTH)) for letters in _LETTERS
    )
    return first, second


def _marked(message: dict[str, Any], names: list[str], mark: str) -> dict[str, Any]:
    """Return a message with a mark and a blank after the text of some fields."""
    marked = dict(message)
    for name in names:
        if isinstance(message[name], str):
            marked[name] = f"{message[name]}{mark} "
        else:
            blocks = list(message[name])
            at = max(i for i, b in enumerate(blocks) if isinstance(b, dict) and "text" in b)
            blocks[at] = {**blocks[at], "text": f"{blocks[at]['text']}{mark} "}
            marked[name] = blocks
    return marked


def _cut(made: Rendering, mark: str, text: str) -> Rendering:
    """Cut a rendering where the message ends; blanks that the template took there go, too."""
    before, found, after = made.text.rpartition(mark)
    if not found or text.strip() not in made.text:
        raise UsageError("the chat template leaves out part of the message to be continued")
    if mark in before:
        raise UsageError("the chat template writes the message to be continued more than once")
    if not after.startswith(" "):
        before = before.rstrip()
    spans = ((start, min(end, len(before))) for start, end in made.generation)
    return Rendering(before, tuple(span for span in spans if span[0] <= span[1]))
