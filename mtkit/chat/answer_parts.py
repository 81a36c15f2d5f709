"""The parts of an answer, in the order in which a model writes them.

An answer is a stream of parts: ``str`` is text for the user. A call of a tool is one ``CallStart``
and any number of ``CallText``, up to the next part of another kind.
"""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import TypeAlias

    Part: TypeAlias = "str | Thought | CallStart | CallText"


class Thought(Record):
    """A piece of a model's reasoning."""

    text: str


class CallStart(Record):
    """A call of a tool begins.

    Attributes:
        id: The model's own, else one that was drawn.
        name: The tool's.
    """

    id: str
    name: str


class CallText(Record):
    """A piece of the arguments of the call that began last: the JSON text of an object."""

    text: str


class Call(Record):
    """A whole call.

    Attributes:
        id: As in ``CallStart``.
        name: The tool's.
        arguments: The JSON text of an object.
    """

    id: str
    name: str
    arguments: str


def text_in(parts: Iterable[Part]) -> str:
    """Return the text for the user."""
    return "".join(part for part in parts if isinstance(part, str))


def reasoning_in(parts: Iterable[Part]) -> str:
    """Return the reasoning."""
    return "".join(part.text for part in parts if isinstance(part, Thought))


def calls_in(parts: Iterable[Part]) -> list[Call]:
    """Return the calls."""
    found: list[tuple[CallStart, list[str]]] = []
    for part in parts:
        if isinstance(part, CallStart):
            found.append((part, []))
        elif isinstance(part, CallText):
            found[-1][1].append(part.text)
    return [Call(start.id, start.name, "".join(texts)) for start, texts in found]
