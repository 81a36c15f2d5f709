"""Conversations that a template does not take as they are.

Agents send instructions in several messages of the system, also late ones, and several messages
of the user in a row. Many templates refuse that, or leave out all but one of the system's. They get
the same texts in fewer messages: one of the system in front, each later one as a part of the
user's message, or all of them so.
"""

from __future__ import annotations

from contextlib import suppress

from mtkit.chat.rendering import TemplateRefusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any


def written(messages: Sequence[Any], rendered: Callable[[Sequence[Any]], str]) -> str:
    """Return what a template writes of a conversation that it takes, or of a simpler one.

    Args:
        messages: The conversation.
        rendered: Writes messages as the template has them.

    Raises:
        TemplateRefusal: The template takes none of them.
    """
    refusal: TemplateRefusal | None = None
    text = ""
    try:
        text = rendered(messages)
        if _has_system(text, messages):
            return text
    except TemplateRefusal as error:
        refusal = error
    for simpler in _simpler(messages):
        with suppress(TemplateRefusal):
            found = rendered(simpler)
            if _has_system(found, messages):
                return found
    if refusal is not None:
        raise refusal
    return text


def _has_system(text: str, messages: Sequence[Any]) -> bool:
    """Whether a text has what the system says; one message in front is the template's affair."""
    told = [message for message in messages if _role(message) == "system"]
    if told == list(messages[:1]):
        return True
    contents = [message.get("content") for message in told]
    return all(content.strip() in text for content in contents if isinstance(content, str))


def _simpler(messages: Sequence[Any]) -> Iterator[list[Any]]:
    """Yield conversations with the same texts, those that change least first."""
    if not all(_role(message) and isinstance(message.get("content"), str) for message in messages):
        return
    count = next((n for n, one in enumerate(messages) if _role(one) != "system"), len(messages))
    leading, rest = messages[:count], messages[count:]
    system = [{**one, "content": _joined(leading)} for one in leading[:1]]
    users = [{**one, "role": "user"} if _role(one) == "system" else one for one in rest]
    opening = [{**one, "role": "user"} for one in system]
    for made in ([*system, *_merged(users)], _merged([*opening, *users])):
        if made != list(messages):
            yield made


def _merged(messages: Sequence[Any]) -> list[Any]:
    """Return messages in which none of the user follows another of the user."""
    made: list[Any] = []
    for message in messages:
        if made and _role(message) == _role(made[-1]) == "user":
            before = made.pop()
            message = {**before, "content": _joined([before, message])}
        made.append(message)
    return made


def _joined(messages: Sequence[Any]) -> str:
    return "\n\n".join(message["content"] for message in messages if message["content"])


def _role(message: Any) -> Any:
    return message.get("role") if isinstance(message, dict) else None
