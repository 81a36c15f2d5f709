"""GBNF, llama.cpp's grammars, translated into the Lark grammars that llguidance takes.

Each character of GBNF becomes a lexeme of its own, so that texts that begin alike are told apart by
the parser, as in llama.cpp. llguidance's own converter makes lexemes of whole rules, and so leaves
out texts whose end a longer lexeme has taken.

Source: llama.cpp, grammars/README.md and src/llama-grammar.cpp (``llama_grammar_parser``);
llguidance, docs/syntax.md.
"""

from __future__ import annotations

import re

from mtkit.base.escape import quoted
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

HEAD = '%llguidance {"no_forcing": true}'
"""First line for llguidance: a text that is forced may still come in any tokens."""
_MOST_BYTES = 1 << 20
_MOST_PARTS = 200_000
_MOST_REPEATS = 2000
_DEEPEST = 30
"""Parentheses within each other."""
_DEEPEST_RULES = 500
"""Rules and parentheses within each other: llguidance follows both on the stack."""
_SPACE = re.compile(r"(?:[ \t]|#[^\r\n]*)*")
_LINES = re.compile(r"(?:[ \t\r\n]|#[^\r\n]*)*")
_BAR = re.compile(_LINES.pattern + r"\|")
_NAME = re.compile(r"[a-zA-Z0-9-]+")
_PART = re.compile(
    r"""(?P<name>[a-zA-Z0-9-]+) | "(?P<text>(?:[^"\\]|\\.)*)"
    | \[(?P<not>\^?)(?P<set>(?:[^\]\\]|\\.)*)\] | (?P<other>!?)<(?P<token>[^>]*>) | (?P<any>\.)
    | (?P<times>[*+?]|\{[ \t]*[0-9]+[ \t]*(?:,[ \t]*[0-9]*[ \t]*)?\})""",
    re.DOTALL | re.VERBOSE,
)
_CHARACTER = re.compile(
    r"\\(?:x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([tnr\\\"\[\]-]))|([^\\])",
    re.DOTALL,
)  # fmt: skip
_NAMED = {"t": 9, "n": 10, "r": 13}
_ANY = "(?s:.)"


def lark_of(text: str, token: Callable[[str], int], root: str = "root") -> str:
    """Return a grammar as llguidance takes it.

    Args:
        token: Returns the id of a token, "<think>" or "<[5]>".
    """
    size = len(text.encode("utf-8", "surrogateescape"))
    if not text.strip():
        raise UsageError("is empty", field="grammar")
    if size > _MOST_BYTES:
        raise UsageError(f"has {size} bytes, most are {_MOST_BYTES}", field="grammar")
    return _Parser(text, token).lark(root)


class _Parser:
    """Reads the rules of a grammar."""

    def __init__(self, text: str, token: Callable[[str], int]) -> None:
        self._text, self._token = text, token
        self._at = self._depth = self._parts = 0
        self._rules: dict[str, str] = {}
        self._named: dict[str, list[str]] = {}
        self._weights: dict[str, int] = {}
        self._name = ""
        self._numbers: dict[str, int] = {}
        self._sets: dict[str, str] = {}
        self._skip(_LINES)
        while self._at < len(text):
            self._rule()

    def lark(self, root: str) -> str:
        """Return the rules, the first one named start."""
        if root not in self._rules:
            raise self._error(f"there is no rule {root}")
        self._check_depth(root)
        lines = [HEAD, f"start: r{self._numbers[root]}"]
        for name, number in self._numbers.items():
            if name not in self._rules:
                raise self._error(f"there is no rule {name}")
            lines.append(f"r{number}: {self._rules[name]}")
        return "\n".join([*lines, *(f"{name}: /{body}/" for body, name in self._sets.items())])

    def _check_depth(self, root: str) -> None:
        """Check how deep llguidance goes: it visits rules depth first."""
        seen = {root}
        todo = [(iter(self._named[root]), self._weights[root])]
        depth = todo[0][1]
        while todo:
            name = next(todo[-1][0], None)
            if name is None:
                depth -= todo.pop()[1]
            elif name in self._named and name not in seen:
                seen.add(name)
                todo.append((iter(self._named[name]), self._weights[name]))
                depth += todo[-1][1]
                if depth > _DEEPEST_RULES:
                    raise UsageError(
                        f"has more than {_DEEPEST_RULES} rules in each other", field="grammar"
                    )

    def _error(self, what: str) -> UsageError:
        return UsageError(
            f"does not parse: {what}",
            field="grammar",
            hint='a grammar is rules such as root ::= "yes" | "no"',
        )

    def _expected(self, what: str) -> UsageError:
        rest = self._text[self._at : self._at + 30]
        return self._error(f"expecting {what} at {quoted(rest)}")

    def _skip(self, space: re.Pattern[str]) -> None:
        match = space.match(self._text, self._at)
        assert match
        self._at = match.end()

    def _number(self, name: str) -> int:
        return self._numbers.setdefault(name, len(self._numbers))

    def _rule(self) -> None:
        match = _NAME.match(self._text, self._at)
        if not match:
            raise self._expected("name")
        self._at = match.end()
        self._skip(_SPACE)
        if not self._text.startswith("::=", self._at):
            raise self._expected("::=")
        self._at += 3
        self._skip(_LINES)
        self._number(match[0])
        self._name = match[0]
        self._named[self._name], self._weights[self._name] = [], 1
        self._rules[match[0]] = self._alternatives(nested=False)
        if self._at < len(self._text) and self._text[self._at] not in "\r\n":
            raise self._expected("newline or end")
        self._skip(_LINES)

    def _alternatives(self, *, nested: bool) -> str:
        sequences = [self._sequence(nested=nested)]
        # which may begin a line, too, as people write it; llama.cpp takes it only at a line's end
        while match := _BAR.match(self._text, self._at):
            self._at = match.end()
            self._skip(_LINES)
            sequences.append(self._sequence(nested=nested))
        return " | ".join(sequences)

    def _sequence(self, *, nested: bool) -> str:
        elements: list[str] = []
        repeats = False
        space = _LINES if nested else _SPACE
        while self._at < len(self._text):
            if self._text[self._at] == "(":
                elements.append(self._group())
                repeats = True
            else:
                match = _PART.match(self._text, self._at)
                if not match:
                    break
                if match["times"]:
                    if not repeats:
                        raise self._expected("something to repeat before it")
                    elements[-1] = self._repeated(elements[-1], match["times"])
                else:
                    element = self._element(match)
                    repeats = bool(element)
                    elements += [element] if element else []
                self._at = match.end()
            self._skip(space)
        return " ".join(elements) or '""'

    def _group(self) -> str:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise UsageError(f"has more than {_DEEPEST} parentheses in each other", field="grammar")
        self._weights[self._name] = max(self._weights[self._name], 1 + self._depth)
        self._at += 1
        self._skip(_LINES)
        inner = self._alternatives(nested=True)
        if not self._text.startswith(")", self._at):
            raise self._expected("')'")
        self._at += 1
        self._depth -= 1
        return f"({inner})"

    def _element(self, match: re.Match[str]) -> str:
        if match["name"]:
            self._named[self._name].append(match["name"])
            return f"r{self._number(match['name'])}"
        if match["text"] is not None:
            codes = [self._terminal([(c, c)]) for c, _ in self._codes(match["text"])]
            return codes[0] if len(codes) == 1 else f"({' '.join(codes)})" if codes else ""
        if match["token"]:
            return self._of_token(f"<{match['token']}", others=bool(match["other"]))
        if match["any"]:
            return self._terminal([], negated=True)
        codes_of_set = self._codes(match["set"])
        ranges: list[tuple[int, int]] = []
        at = 0
        while at < len(codes_of_set):
            low = high = codes_of_set[at][0]
            if at + 2 < len(codes_of_set) and codes_of_set[at + 1] == (0x2D, False):
                high = codes_of_set[at + 2][0]
                at += 2
            at += 1
            ranges.append((low, high))
        return self._terminal(ranges, negated=bool(match["not"])) if ranges else ""

    def _of_token(self, name: str, *, others: bool) -> str:
        return f"<[{'^' * others}{self._token(name)}]>"

    def _terminal(self, ranges: list[tuple[int, int]], *, negated: bool = False) -> str:
        """Return the name of a set of characters, without the halves of surrogate pairs."""
        self._parts += 1
        if self._parts > _MOST_PARTS:
            raise UsageError(f"has more than {_MOST_PARTS} characters and sets", field="grammar")
        cut = [
            (max(low, first), min(high, last))
            for low, high in ranges
            for first, last in ((0, 0xD7FF), (0xE000, 0x10FFFF))
            if max(low, first) <= min(high, last)
        ]
        inner = "".join(f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in cut)
        if not inner and not negated:
            raise self._error("a set of characters of which none is one")
        body = f"[{'^' * negated}{inner}]" if inner else _ANY
        return self._sets.setdefault(body, f"T{len(self._sets)}")

    def _codes(self, text: str) -> list[tuple[int, bool]]:
        """Return the characters of a literal or set, each with whether it was escaped."""
        codes, at = [], 0
        while at < len(text):
            match = _CHARACTER.match(text, at)
            if not match:
                raise self._expected("a known escape")
            at = match.end()
            number = match[1] or match[2] or match[3]
            plain = match[4] or match[5]
            code = int(number, 16) if number else ord(plain)
            codes.append((_NAMED.get(plain, code) if match[4] else code, match[5] is None))
        return codes

    def _repeated(self, item: str, times: str) -> str:
        if item[-1] in "*+?}":  # it is repeated already
            item = f"({item})"
        if times in "*+?":
            return f"{item}{times}"
        low, comma, high = re.sub(r"[ \t]", "", times[1:-1]).partition(",")
        if max(len(low), len(high)) > 9 or max(int(low), int(high or 0)) > _MOST_REPEATS:
            raise UsageError(f"repeats more than {_MOST_REPEATS} times", field="grammar")
        if high and int(high) < int(low):
            raise UsageError(f"repeats {times} times", field="grammar")
        if (high or low) == "0" and not (comma and not high):
            return '""'
        return f"{item}{{{int(low)}{comma}{int(high) if high else ''}}}"
