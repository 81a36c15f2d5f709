"""Values in a notation of a template's own: lists and objects, marked up or bracketed.

A text is read by trying: what is not a whole list or object of the notation is a scalar.
"""

from __future__ import annotations

import json

from mtkit.base.record import Record
from mtkit.chat.signs import KEY

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

WORDS = {"True": True, "False": False, "None": None, "true": True, "false": False, "null": None}
_MOST_DEPTH = 60
_MOST_STEPS = 20_000


class Notation(Record):
    """A notation.

    Attributes:
        quotes: What a text stands in.
        items: What opens a list, separates its values, closes it; empty where lists are not known.
        members: What opens an object, follows a key, stands between value and key, closes it.
    """

    quotes: tuple[str, str]
    items: tuple[str, str, str]
    members: tuple[str, str, str, str]

    def read(self, text: str) -> Any:
        """Return the value that a text is.

        Raises:
            ValueError: It is none, but a text that stands in no quotes.
        """
        for value, end in _Attempt(self, text).values(0, 0):
            if end == len(text) and not (isinstance(value, str) and not self.quotes[0]):
                return value
        raise ValueError


class _Attempt:
    def __init__(self, notation: Notation, text: str) -> None:
        self._notation, self._text, self._steps = notation, text, 0

    def values(self, at: int, depth: int) -> Iterator[tuple[Any, int]]:
        """Yield what may stand at a place, and where it ends."""
        self._steps += 1
        if depth > _MOST_DEPTH or self._steps > _MOST_STEPS:
            raise ValueError
        text, one = self._text, self._notation
        if one.items[1] and text.startswith(one.items[0], at):
            yield from self._items(at + len(one.items[0]), [], depth)
        if one.members[1] and text.startswith(one.members[0], at):
            yield from self._members(at + len(one.members[0]), {}, depth)
        opening, closing = one.quotes
        if opening and text.startswith(opening, at):
            end = text.find(closing, at + len(opening))
            while end >= 0:
                yield text[at + len(opening) : end], end + len(closing)
                end = text.find(closing, end + 1)
            return
        stops = [stop for stop in (*one.items[1:], *one.members[2:]) if stop]
        ends = {len(text)}
        for stop in stops:
            stop = stop.partition(KEY)[0]
            end = text.find(stop, at)
            while end >= 0 and len(ends) < 100:
                ends.add(end)
                end = text.find(stop, end + 1)
        for end in sorted(ends):
            try:
                found = scalar(text[at:end], plain=not opening)
            except ValueError:
                continue
            yield found, end

    def _items(self, at: int, found: list[Any], depth: int) -> Iterator[tuple[Any, int]]:
        _, between, closing = self._notation.items
        if not found and self._text.startswith(closing, at):
            yield [], at + len(closing)
        for value, end in self.values(at, depth + 1):
            if self._text.startswith(closing, end):
                yield [*found, value], end + len(closing)
            if self._text.startswith(between, end):
                yield from self._items(end + len(between), [*found, value], depth + 1)

    def _members(self, at: int, found: dict[str, Any], depth: int) -> Iterator[tuple[Any, int]]:
        _, colon, between, closing = self._notation.members
        if not found and closing and self._text.startswith(closing, at):
            yield {}, at + len(closing)
        key_end = self._text.find(colon, at)
        if key_end < 0:
            return
        key = self._text[at:key_end]
        if not key or len(key) > 200:
            return
        after, last = between.replace(KEY, key), closing.replace(KEY, key)
        for value, end in self.values(key_end + len(colon), depth + 1):
            made = {**found, key: value}
            if self._text.startswith(last, end):
                yield made, end + len(last)
            if self._text.startswith(after, end):
                yield from self._members(end + len(after), made, depth + 1)


def scalar(text: str, *, plain: bool) -> Any:
    """Return a number, a truth value or none.

    Args:
        text: How it is written.
        plain: Anything else is a text.

    Raises:
        ValueError: It is none of them.
    """
    if text in WORDS:
        return WORDS[text]
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = text
    if isinstance(found, (int, float)):
        return found
    if plain:
        return text
    raise ValueError
