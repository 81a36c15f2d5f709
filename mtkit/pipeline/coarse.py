r"""The small pattern scanner over folded text: what its syntax is, and the same in exact terms.

A text is folded to one byte a code point: ASCII stays, any other code point becomes a number for
the first letter of its category (``FOLDED``). A pattern is a set of such bytes at every place,
groups, alternatives in order and greedy counts, run by backtracking. From this follows everything
that is peculiar: ``\p{Lu}`` is ``\p{L}``, ``\d`` is ``\p{N}``, ``\w`` has no marks, ``\s`` has no
U+0085, U+2028 or U+2029, the case of ``(?i:)`` is ASCII's, and the raw controls U+0001 to U+0007
count as the classes whose numbers they are.

``plain`` rewrites what this syntax reads differently from everybody else's (``a++`` is ``a+`` and
a plus sign, ``a+?`` is ``a+``, ``^`` and ``$`` are characters, an alternative with a lookbehind is
no alternative at all). ``coarse_exact`` spells the sets out in exact Unicode terms.

Source: the MNN runtime's tokenizer, unicode.cpp (folding and scanner), by its behaviour.
"""

from __future__ import annotations

from mtkit.spec.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

FOLDED = {1: "L", 2: "N", 3: "Zs", 5: "M", 6: "P", 7: "S"}
"""Byte -> category of the code points outside ASCII that it stands for; 4 is all the rest."""

GPT2_PATTERN = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"

ALL = frozenset(range(128))
_LETTERS = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz")
_DIGITS = frozenset(b"0123456789")
_SPACES = frozenset(b"\t\n\x0b\x0c\r ") | {3}
ASCII = {
    1: _LETTERS,
    2: _DIGITS,
    3: frozenset(b" "),
    4: frozenset(range(32)) | {127},
    5: frozenset[int](),
    6: frozenset(b"!\"#%&'()*,-./:;?@[\\]_{}"),
    7: frozenset(b"$+<=>^`|~"),
}
_PROPERTIES = {
    "L": _LETTERS | {1},
    "N": _DIGITS | {2},
    "Z": _SPACES,
    "M": frozenset({5}),
    "P": ASCII[6] | {6},
    "S": ASCII[7] | {7},
}
_SHORTHANDS = {
    "s": _SPACES,
    "d": _PROPERTIES["N"],
    "w": _PROPERTIES["L"] | _PROPERTIES["N"] | frozenset(b"_"),
}
_CONTROLS = {"r": 13, "n": 10, "t": 9, "f": 12, "v": 11}
_COUNT_LIMIT = 1000


class _Unknown(Exception):
    """A construct that the scanner does not know: its top-level alternative does not exist."""


class Atom(Record):
    """One folded byte out of a set; ``source`` is how the pattern writes it."""

    members: frozenset[int]
    source: str
    count: str = ""


class Group(Record):
    """Alternatives in order; ``opening`` is ``(``, ``(?:``, ``(?i:`` or ``(?!``."""

    opening: str
    alternatives: tuple[tuple[Node, ...], ...]
    count: str = ""


if TYPE_CHECKING:
    Node = Union[Atom, Group]


def plain(pattern: str) -> str:
    """Rewrite a pattern so that the scanner's reading of it is everybody's reading."""
    return "|".join("".join(_plain(node) for node in nodes) for nodes in alternatives_of(pattern))


def alternatives_of(pattern: str) -> list[tuple[Node, ...]]:
    """Parse a pattern into its top-level alternatives, less those that the scanner lacks."""
    found = []
    for text in _split_top(pattern):
        try:
            found.append(_Parser(text).whole())
        except (_Unknown, IndexError):
            continue
    if not found and pattern != GPT2_PATTERN:
        return alternatives_of(GPT2_PATTERN)
    return found


def _split_top(pattern: str) -> list[str]:
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
            start = at + 1
        at += 1
    return [*parts, pattern[start:]]


class _Parser:
    """Recursive descent over one top-level alternative."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0

    def whole(self) -> tuple[Node, ...]:
        """Parse everything; a closing parenthesis too many is unknown."""
        nodes = self.sequence(ignore_case=False)
        if self.at < len(self.text):
            raise _Unknown
        return nodes

    def sequence(self, *, ignore_case: bool) -> tuple[Node, ...]:
        nodes: list[Node] = []
        while self.at < len(self.text) and self.text[self.at] not in "|)":
            node = self.item(ignore_case=ignore_case)
            count = self.count()
            if count and isinstance(node, Group) and node.opening == "(?!":
                raise _Unknown
            nodes.append(
                Atom(node.members, node.source, count)
                if isinstance(node, Atom)
                else Group(node.opening, node.alternatives, count)
            )
        return tuple(nodes)

    def item(self, *, ignore_case: bool) -> Node:
        start = self.at
        char = self.text[start]
        if char == "(":
            return self.group(ignore_case=ignore_case)
        if char == "[":
            members = self.bracket()
        elif char == "\\":
            members = self.escape()
        else:
            self.at += 1
            members = ALL - {10} if char == "." else frozenset({_fold(char)})
        if ignore_case:
            members = _both_cases(members)
        source = self.text[start : self.at]
        return Atom(members, "\\" + source if source in "^$*+?{}]" else source)

    def group(self, *, ignore_case: bool) -> Group:
        for opening in ("(?:", "(?i:", "(?!"):
            if self.text.startswith(opening, self.at):
                break
        else:
            if self.text.startswith("(?", self.at):
                raise _Unknown
            opening = "("
        self.at += len(opening)
        self.depth += 1
        if self.depth > 64:
            raise _Unknown
        inside = ignore_case or opening == "(?i:"
        alternatives = [self.sequence(ignore_case=inside)]
        while self.text[self.at] == "|":
            self.at += 1
            alternatives.append(self.sequence(ignore_case=inside))
        self.at += 1
        self.depth -= 1
        return Group(opening, tuple(alternatives))

    def count(self) -> str:
        """Read a count, if there is one; a question mark behind it says nothing."""
        char = self.text[self.at : self.at + 1]
        if not char or char not in "?*+{":
            return ""
        if char == "{":
            end = self.text.find("}", self.at)
            least, comma, most = self.text[self.at + 1 : end].partition(",")
            numbers = [number for number in (least, most) if number]
            if end < 0 or not numbers or not all(n.isascii() and n.isdigit() for n in numbers):
                return ""
            if any(len(n) > 4 or int(n) > _COUNT_LIMIT for n in numbers):
                raise _Unknown
            self.at = end + 1
            count = f"{{{least or 0}{comma}{most}}}"
        else:
            self.at += 1
            count = char
        if self.text[self.at : self.at + 1] == "?":
            self.at += 1
        return count

    def escape(self) -> frozenset[int]:
        char = self.text[self.at + 1]
        self.at += 2
        if char in "bBAZzGK123456789":
            raise _Unknown
        if char.lower() in _SHORTHANDS:
            members = _SHORTHANDS[char.lower()]
            return members if char.islower() else ALL - members
        if char in "pP" and self.text[self.at : self.at + 1] == "{":
            end = self.text.index("}", self.at) if "}" in self.text[self.at :] else len(self.text)
            members = _PROPERTIES.get(self.text[self.at + 1 : self.at + 2], frozenset())
            self.at = end + 1
            return members if char == "p" else ALL - members
        if char == "x":
            digits = self.text[self.at : self.at + 2]
            try:
                value = int(digits, 16)
            except ValueError:
                return frozenset(b"x")
            self.at += 2
            return frozenset({value}) & ALL
        return frozenset({_CONTROLS.get(char, _fold(char))})

    def bracket(self) -> frozenset[int]:
        self.at += 1
        negated = self.text[self.at] == "^"
        self.at += negated
        members: frozenset[int] = frozenset()
        while self.text[self.at] != "]":
            first = self.member()
            if self.text[self.at] == "-" and self.text[self.at + 1] != "]" and len(first) == 1:
                self.at += 1
                last = self.member()
                members |= frozenset(range(min(first), max(last, default=-1) + 1))
            else:
                members |= first
        self.at += 1
        return ALL - members if negated else members

    def member(self) -> frozenset[int]:
        if self.text[self.at] == "\\":
            return self.escape()
        self.at += 1
        return frozenset({_fold(self.text[self.at - 1])})


def _fold(char: str) -> int:
    """Return the folded byte of a character of the pattern."""
    if char < "\x80":
        return ord(char)
    from unicodedata import category

    letter = category(char)
    return next((byte for byte, name in FOLDED.items() if letter.startswith(name)), 4)


def _both_cases(members: frozenset[int]) -> frozenset[int]:
    return members | frozenset(byte ^ 32 for byte in members & _LETTERS)


def _plain(node: Node) -> str:
    if isinstance(node, Atom):
        return node.source + node.count
    inside = "|".join("".join(_plain(each) for each in nodes) for nodes in node.alternatives)
    return f"{node.opening}{inside}){node.count}"
