"""Where the parser of a split pattern stands, and what the characters there mean."""

from __future__ import annotations

from mtkit.patterns import sets as pattern_sets
from mtkit.patterns.errors import malformed, refuse
from mtkit.patterns.tree import Set

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.patterns.tree import Edges, Node
    from mtkit.spec.text import Regex


class Flags:
    """Options in force: ignore case, dot matches newlines, line anchors, free spacing."""

    __slots__ = ("case", "dot", "free", "lines")

    def __init__(self, case: bool, dot: bool, lines: bool, free: bool) -> None:
        self.case, self.dot, self.lines, self.free = case, dot, lines, free


class Cursor:
    """A position in a pattern.

    Attributes:
        at: Index of the next character.
        crossing: Whether the bracket that is open has a range from ASCII to beyond it.
        behind: Look-behinds that are open.
    """

    def __init__(self, rules: Regex) -> None:
        self.rules = rules
        self.text = rules.pattern
        self.at = 0
        self.crossing = False
        self.behind = 0
        self.sets = pattern_sets.Sets(rules)

    def peek(self, length: int = 1) -> str:
        """Return the next characters without taking them."""
        return self.text[self.at : self.at + length]

    def take(self, expected: str) -> bool:
        """Take a string if it is next."""
        found = self.text.startswith(expected, self.at)
        self.at += len(expected) * found
        return found

    def until(self, end: str, what: str) -> str:
        """Take everything up to a closing string, and that."""
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise malformed(f"{what} without {end}")
        found = self.text[self.at : stop]
        self.at = stop + len(end)
        return found

    def literal(self, code: int, flags: Flags) -> Node:
        """One character, with its other cases if case is ignored."""
        edges: Edges = (code, code + 1)
        if flags.case:
            self.check_folding(code)
            edges = self.sets.fold(edges)
        return Set(edges)

    def check_folding(self, code: int) -> None:
        """Refuse a character that could take part in a folding of several characters."""
        if self.rules.case_folding != "full":
            return
        if code in pattern_sets.long_foldings():
            raise refuse(f"{chr(code)!r} under (?i), which folds to several characters")
        before = self.text[max(self.at - 3, 0) : self.at - 1].lower()
        for folding in pattern_sets.long_foldings().values():
            for length in range(1, len(folding)):
                if folding[length] == chr(code).lower() and before.endswith(folding[:length]):
                    raise refuse(f"{folding!r} under (?i), which one character folds to")
