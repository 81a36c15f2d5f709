r"""What a split pattern in a .mtok matches.

A pattern with characters outside ASCII and without ``\p{`` goes to the C++ library's ECMAScript
engine for wide characters, every other one to a scanner of the loader's own: text folded to one
byte a character, and a small syntax that reads some patterns as nobody else does. They are
rewritten here so that everybody reads them so:

* a sign behind a count is not a possessive (``a++`` is ``a+`` and a plus sign), and a question mark
  there says nothing (``a+?`` is ``a+``);
* ``^`` and ``$`` are plain characters;
* an alternative at the top level that uses what the scanner lacks (look-around but ``(?!``, word
  and text boundaries, back references) does not exist; where none is left there is GPT-2's pattern.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, unicode.cpp, by its behavior.
"""

from __future__ import annotations

from mtkit.spec.pre_tokenizers import BYTE_LEVEL_SPLIT
from mtkit.spec.text import Regex

UNICODE = "15.0"
"""Version of the categories that the loader has compiled in."""
DEPTH_LIMIT = 64
_GROUPS = ("(?:", "(?i:", "(?!")
_BOUNDARIES = "bBAZzGK123456789"
_COUNT_DIGITS = 4


class _Unknown(Exception):
    """A construct that the scanner does not know: its top-level alternative does not exist."""


def read_pattern(pattern: str) -> Regex:
    """Say which engine runs a stored pattern, and on what."""
    if pattern.isascii() or r"\p{" in pattern or r"\P{" in pattern:
        return folded(plain(pattern))
    return Regex(pattern, shorthands="ascii", anchors="text", empty="ignored", unicode=UNICODE)


def folded(pattern: str) -> Regex:
    """Make a pattern of the folded scanner."""
    return Regex(
        pattern,
        alphabet="kinds",
        anchors="text",
        case_folding="simple",
        empty="ignored",
        unicode=UNICODE,
    )


def plain(pattern: str) -> str:
    """Rewrite a pattern so that the scanner's reading of it is everybody's reading."""
    found = []
    for text in _top_alternatives(pattern):
        try:
            found.append(_Rewriter(text).whole())
        except _Unknown:
            continue
    return "|".join(found) if found else BYTE_LEVEL_SPLIT


def properties(pattern: str) -> list[str]:
    r"""Return the names in ``\p{…}`` of a pattern."""
    parts = pattern.replace(r"\P{", r"\p{").split(r"\p{")[1:]
    return [part.partition("}")[0] for part in parts]


def _top_alternatives(pattern: str) -> list[str]:
    """Cut at each ``|`` outside groups and sets."""
    parts, depth, in_set, start, at = [], 0, False, 0, 0
    while at < len(pattern):
        char = pattern[at]
        if char == "\\":
            at += 1
        elif in_set:
            in_set = char != "]"
        elif char == "[":
            in_set = True
        elif char in "()":
            depth += 1 if char == "(" else -1
        elif char == "|" and depth <= 0:
            parts.append(pattern[start:at])
            start, depth = at + 1, 0
        at += 1
    return [*parts, pattern[start:]]


class _Rewriter:
    """Recursive descent over one top-level alternative."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def peek(self) -> str:
        """Return the character to come, or nothing at the end."""
        return self.text[self.at : self.at + 1]

    def whole(self) -> str:
        """Rewrite everything; a closing parenthesis too many is unknown."""
        out = self.sequence()
        if self.peek():
            raise _Unknown
        return out

    def sequence(self) -> str:
        out = ""
        while self.peek() and self.peek() not in "|)":
            out += self.item() + self.count()
        return out

    def item(self) -> str:
        start, char = self.at, self.peek()
        if char == "(":
            return self.group()
        self.at += 1
        if char == "[":
            self.skip_set()
        elif char == "\\":
            self.escape()
        elif char in "^$*+?{}]":
            return "\\" + char
        return self.text[start : self.at]

    def escape(self) -> None:
        char = self.peek()
        if not char or char in _BOUNDARIES:
            raise _Unknown
        self.at += 1
        if char in "pP" and self.peek() == "{":
            end = self.text.find("}", self.at)
            if end < 0:
                raise _Unknown
            self.at = end + 1

    def skip_set(self) -> None:
        while self.peek() != "]":
            if not self.peek():
                raise _Unknown
            self.at += 2 if self.peek() == "\\" else 1
        self.at += 1

    def group(self) -> str:
        opening = next((name for name in _GROUPS if self.text.startswith(name, self.at)), "(")
        if opening == "(" and self.text.startswith("(?", self.at):
            raise _Unknown
        self.at += len(opening)
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise _Unknown
        out = opening + self.sequence()
        while self.peek() == "|":
            self.at += 1
            out += "|" + self.sequence()
        if not self.peek():
            raise _Unknown
        self.at += 1
        self.depth -= 1
        return out + ")"

    def count(self) -> str:
        """Read a count, if there is one, and the question mark behind it."""
        char = self.peek()
        if char == "{":
            end = self.text.find("}", self.at)
            least, comma, most = self.text[self.at + 1 : max(end, self.at)].partition(",")
            numbers = [number for number in (least, most) if number]
            if end < 0 or not numbers or not all(n.isascii() and n.isdigit() for n in numbers):
                return ""
            if any(len(number) > _COUNT_DIGITS for number in numbers):
                raise _Unknown
            self.at = end + 1
            char = f"{{{least or 0}{comma}{most}}}"
        elif char and char in "?*+":
            self.at += 1
        else:
            return ""
        if self.peek() == "?":
            self.at += 1
        return char
