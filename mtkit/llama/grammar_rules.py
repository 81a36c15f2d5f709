"""GBNF read as llama.cpp reads it: rules of alternatives of sets of characters and other rules.

What llama.cpp takes has the same meaning here; not everything that it refuses is refused.

Source: llama.cpp, src/llama-grammar.cpp (``llama_grammar_parser``).
"""

from __future__ import annotations

import re

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

_MOST_ELEMENTS = 500_000
"""Of the rules written out; llama.cpp copies what is repeated."""
KEPT = 24
"""Repetitions that are written out here: more than characters that are followed."""
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_PART = re.compile(
    r"""(?P<name>[a-zA-Z0-9-]+) | "(?P<text>(?:[^"\\]|\\.)*)"
    | \[(?P<not>\^?)(?P<set>(?:[^\]\\]|\\.)*)\] | (?P<token>!?<[^>]*>) | (?P<any>\.)
    | (?P<times>[*+?]|\{[ \t]*\d+[ \t]*(?:,[ \t]*\d*[ \t]*)?\})""",
    re.DOTALL | re.VERBOSE,
)
_CHARACTER = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([tnr\\\"\[\]-]))|([^\\])",
    re.DOTALL,
)  # fmt: skip
_NAMED = {"t": 9, "n": 10, "r": 13}


class Characters:
    """A set of characters.

    Attributes:
        ranges: First and last code of each.
        negated: It takes all others.
    """

    __slots__ = ("negated", "ranges")

    def __init__(self, ranges: list[tuple[int, int]], *, negated: bool = False) -> None:
        self.ranges, self.negated = ranges, negated

    def takes(self, code: int) -> bool:
        """Whether a character is one of them."""
        return any(low <= code <= high for low, high in self.ranges) != self.negated


if TYPE_CHECKING:
    Element = Union[Characters, int]  # a rule is its number
    Alternative = tuple[Element, ...]


class Rules:
    """The rules of a grammar.

    Attributes:
        rules: Number to alternatives; of a rule that is not defined None.
        names: Name to number.
        inner: Numbers of rules that repeat within another's repetition.
        repeated: What is repeated more than ``KEPT`` times, which is as often as it is here.
    """

    def __init__(self, text: str, root: str = "root") -> None:
        """Read a grammar.

        Raises:
            UsageError: It does not parse.
        """
        self.rules: list[list[Alternative] | None] = []
        self.names: dict[str, int] = {}
        self.inner: set[int] = set()
        self.repeated: list[Alternative] = []
        self._text, self._at, self._size = text, 0, 0
        self._skip(_LINES)
        while self._at < len(text):
            self._rule()
        if root not in self.names:
            raise self._error(f"there is no rule {root}")
        for name, number in self.names.items():
            if self.rules[number] is None:
                raise self._error(f"there is no rule {name}")

    def _error(self, what: str) -> UsageError:
        return UsageError(
            f"does not parse: {what}", field="grammar", hint="its first rule is root ::= …"
        )

    def _expected(self, what: str) -> UsageError:
        rest = self._text[self._at : self._at + 30]
        return self._error(f"expecting {what} at {rest!r}")

    def _skip(self, space: re.Pattern[str]) -> None:
        found = space.match(self._text, self._at)
        assert found
        self._at = found.end()

    def _number(self, name: str) -> int:
        if name not in self.names:
            self.names[name] = self._new()
        return self.names[name]

    def _new(self, alternatives: list[Alternative] | None = None) -> int:
        self.rules.append(alternatives)
        return len(self.rules) - 1

    def _grow(self, size: int) -> None:
        self._size += size
        if self._size > _MOST_ELEMENTS:
            raise UsageError(
                f"has more than {_MOST_ELEMENTS} parts, what is repeated written out",
                field="grammar", hint="repeat less",
            )  # fmt: skip

    def _rule(self) -> None:
        found = _NAME.match(self._text, self._at)
        if not found:
            raise self._expected("name")
        self._at = found.end()
        self._skip(_SPACE)
        if not self._text.startswith("::=", self._at):
            raise self._expected("::=")
        self._at += 3
        self._skip(_LINES)
        number = self._number(found[0])
        self.rules[number] = self._alternatives(nested=False)
        if self._at < len(self._text) and self._text[self._at] not in "\r\n":
            raise self._expected("newline or end")
        self._skip(_LINES)

    def _alternatives(self, *, nested: bool) -> list[Alternative]:
        made = [self._sequence(nested=nested)]
        while self._text.startswith("|", self._at):
            self._at += 1
            self._skip(_LINES)
            made.append(self._sequence(nested=nested))
        return made

    def _sequence(self, *, nested: bool) -> Alternative:
        made: list[Element] = []
        last = 0
        space = _LINES if nested else _SPACE
        while self._at < len(self._text):
            if self._text[self._at] == "(":
                self._at += 1
                self._skip(_LINES)
                group = self._new()
                self.rules[group] = self._alternatives(nested=True)
                if not self._text.startswith(")", self._at):
                    raise self._expected("')'")
                self._at += 1
                last = len(made)
                made.append(group)
            else:
                found = _PART.match(self._text, self._at)
                if not found:
                    break
                if found["times"]:
                    if last == len(made):
                        raise self._expected("something to repeat before it")
                    self._repeat(made, last, found["times"])
                else:
                    last = len(made)
                    made += self._elements(found)
                self._at = found.end()
            self._skip(space)
        self._grow(len(made) + 1)
        return tuple(made)

    def _elements(self, found: re.Match[str]) -> list[Element]:
        if found["name"]:
            return [self._number(found["name"])]
        if found["text"] is not None:
            return [Characters([(code, code)]) for code, _ in self._codes(found["text"])]
        if found["set"] is None:  # a token takes what a character may take
            return [Characters([], negated=True)]
        codes = self._codes(found["set"])
        ranges: list[tuple[int, int]] = []
        at = 0
        while at < len(codes):
            low = high = codes[at][0]
            if at + 2 < len(codes) and codes[at + 1] == (0x2D, False):
                high = codes[at + 2][0]
                at += 2
            at += 1
            ranges.append((low, high))
        self._grow(2 * len(ranges))
        return [Characters(ranges, negated=bool(found["not"]))] if ranges else []

    def _codes(self, text: str) -> list[tuple[int, bool]]:
        """Return the characters of a literal or set, and of each whether it was escaped."""
        made, at = [], 0
        while at < len(text):
            found = _CHARACTER.match(text, at)
            if not found:
                raise self._expected("a known escape")
            at = found.end()
            number = found[1] or found[2] or found[3]
            plain = found[4] or found[5]
            code = (
                int(number, 16)
                if number
                else _NAMED.get(plain, ord(plain))
                if found[4]
                else ord(plain)
            )
            made.append((code, found[5] is None))
        return made

    def _repeat(self, made: list[Element], last: int, times: str) -> None:
        item = tuple(made[last:])
        least, most = {"*": (0, None), "+": (1, None), "?": (0, 1)}.get(times, (0, None))
        if times[0] == "{":
            low, comma, high = times[1:-1].replace(" ", "").replace("\t", "").partition(",")
            least = int(low)
            most = (int(high) if high else None) if comma else least
        optional = 1 if most is None else max(most - least, 0)
        self._grow(len(item) * least + (len(item) + 3) * optional)
        if max(least, optional) > KEPT:
            self.repeated.append(item)
        made[last:] = item * min(least, KEPT)
        if not optional:
            return
        number = -1
        if most is None:
            number = self._new()
            self.rules[number] = [(*item, number), ()]
        for place in range(min(optional, KEPT) if most is not None else 0):
            if place:
                self.inner.add(number)
            number = self._new([(*item, number) if place else item, ()])
        made.append(number)
