"""Split patterns as text to a tree.

``Cursor`` is where the parser stands, and what the characters there mean; then come what stands
behind a backslash (and the places by name: ``^ $ \\A \\b``), bracket expressions
(``[^a-z\\p{L}[:digit:]&&[^x]]``), and ``Parser``, which does the rest.

The grammar is the one that Oniguruma, Rust's and ECMAScript's engines share as far as real split
patterns and their kin go; where they differ the rules of ``spec.text.Regex`` decide. Anything else
is refused with the construct quoted: backreferences, recursion, conditionals, ``\\K \\G \\X``.

Source: Oniguruma doc/RE and doc/SYNTAX.md (Ruby syntax); the syntax page of Rust's regex.
"""

from __future__ import annotations

from mtkit.base.escape import quoted
from mtkit.patterns import malformed, refuse
from mtkit.patterns import sets as pattern_sets
from mtkit.patterns.tree import (
    Atomic,
    Chain,
    Choice,
    Edge,
    Look,
    Repeat,
    Set,
    contains,
    intersect,
    negate,
    nullable,
    union,
)

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
        crossing: Whether the bracket that is open has a range from ASCII to beyond it.
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
        is_next = self.text.startswith(expected, self.at)
        self.at += len(expected) * is_next
        return is_next

    def until(self, end: str, what: str) -> str:
        """Take everything up to a closing string, and that."""
        stop = self.text.find(end, self.at)
        if stop < 0:
            raise malformed(f"{what} without {end}")
        text = self.text[self.at : stop]
        self.at = stop + len(end)
        return text

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
            raise refuse(f"{quoted(chr(code))} under (?i), which folds to several characters")
        before = self.text[max(self.at - 3, 0) : self.at - 1].lower()
        for folding in pattern_sets.long_foldings().values():
            for length in range(1, len(folding)):
                if folding[length] == chr(code).lower() and before.endswith(folding[:length]):
                    raise refuse(f"{quoted(folding)} under (?i), which one character folds to")


CONTROL_ESCAPES = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7, "e": 27}
TEXT_END: Edges = ()


def parse_anchor(cursor: Cursor, sign: str, flags: Flags) -> Node:
    """``^`` or ``$``."""
    if sign == "$":
        return Edge(after=pattern_sets.NEWLINE if flags.lines else TEXT_END)
    if not flags.lines:
        return Edge(before=TEXT_END)
    if cursor.rules.anchors == "text":
        return Edge(before=pattern_sets.NEWLINE)
    # No line begins behind a newline at the very end.
    begins = Edge(pattern_sets.NEWLINE, pattern_sets.ANY, at_start=False, at_end=False)
    return Choice((Edge(before=TEXT_END), begins))


def parse_escape(cursor: Cursor, flags: Flags) -> Node:
    """Parse behind a backslash, outside brackets."""
    letter = cursor.peek()
    if letter in {"b", "B"}:
        cursor.at += 1
        inside = cursor.sets.word(bracket=False)
        outside = negate(inside)
        same = letter == "B"
        return Choice((
            Edge(inside, inside if same else outside, at_start=False, at_end=not same),
            Edge(outside, outside if same else inside, at_start=True, at_end=same),
        ))  # fmt: skip
    if letter in {"A", "z", "Z"}:
        cursor.at += 1
        if letter == "A":
            return Edge(before=TEXT_END)
        if letter == "z" or cursor.rules.anchors == "text":
            return Edge(after=TEXT_END)
        last = Look(Chain((Set(pattern_sets.NEWLINE), Edge(after=TEXT_END))), False, False)
        return Choice((Edge(after=TEXT_END), last))
    if letter == "R":
        if cursor.behind:
            raise refuse("\\R in a look-behind")  # Oniguruma sees nothing but \r\n there
        cursor.at += 1
        newline = union(((10, 14), (0x85, 0x86), (0x2028, 0x202A)))
        pair = Chain((Set((13, 14)), Set(pattern_sets.NEWLINE)))
        return Atomic(Choice((pair, Set(newline))))
    edges = parse_escaped_set(cursor, bracket=False, case=flags.case)
    if edges is not None:
        return Set(edges)
    return cursor.literal(parse_escaped_code(cursor), flags)


def parse_escaped_set(cursor: Cursor, *, bracket: bool, case: bool) -> Edges | None:
    r"""Take ``s d w h p{…}`` and their negations; None where no set is next."""
    letter = cursor.peek()
    edges: Edges
    if letter in {"s", "S"}:
        edges = cursor.sets.space()
    elif letter in {"d", "D"}:
        edges = cursor.sets.digit()
    elif letter in {"w", "W"}:
        edges = cursor.sets.word(bracket=bracket)
    elif letter in {"h", "H"} and cursor.rules.shorthands == "unicode":
        edges = pattern_sets.HEX
    elif letter in {"N", "O"} and not bracket and cursor.rules.shorthands == "unicode":
        edges = () if letter == "O" else pattern_sets.NEWLINE
        cursor.at += 1
        return negate(edges)
    elif letter in {"p", "P"}:
        cursor.at += 1
        if not cursor.take("{"):
            raise refuse(f"\\{cursor.text[cursor.at - 1 : cursor.at + 1]}")
        inverted = cursor.take("^")
        edges = cursor.sets.named(cursor.until("}", "\\p{"))
        if case and cursor.rules.case_folding == "simple":
            edges = cursor.sets.fold(edges)
        return negate(edges) if inverted != (letter == "P") else edges
    else:
        return None
    cursor.at += 1
    return negate(edges) if letter.isupper() else edges


def parse_escaped_code(cursor: Cursor) -> int:
    """Take one escaped character."""
    letter = cursor.peek()
    if not letter:
        raise malformed("it ends in \\")
    cursor.at += 1
    if letter in CONTROL_ESCAPES:
        return CONTROL_ESCAPES[letter]
    if letter == "x" and cursor.take("{"):
        return parse_hexadecimal(cursor.until("}", "\\x{"), 0x10FFFF)
    if letter == "x":
        cursor.at += 2
        # Above, some engines mean a byte, some a character.
        return parse_hexadecimal(cursor.text[cursor.at - 2 : cursor.at], 0x7F)
    if letter == "u":
        cursor.at += 4
        return parse_hexadecimal(cursor.text[cursor.at - 4 : cursor.at], 0xFFFF)
    if letter.isalnum():
        what = f"a backreference (\\{letter})" if letter.isdigit() else f"\\{letter}"
        raise refuse(what)
    return ord(letter)


def parse_hexadecimal(digits: str, most: int) -> int:
    """Return a code point given in hexadecimal."""
    try:
        code = int(digits, 16)
    except ValueError:
        raise malformed(f"{digits!r} is not a hexadecimal number") from None
    if code > most:
        raise refuse(f"{digits} as a character")
    return code


def parse_bracket(cursor: Cursor, case: bool, depth: int = 0) -> Edges:
    """Parse from ``[`` to its ``]``; the set has other cases too if case is ignored."""
    start = cursor.at
    cursor.at += 1
    inverted = cursor.take("^")
    nests = cursor.rules.shorthands == "unicode"
    operands: list[Edges] = []
    parts: list[Edges] = []
    first = True
    nested = False
    cursor.crossing &= depth > 0
    while first or cursor.peek() != "]":
        if cursor.at >= len(cursor.text):
            raise malformed("unclosed [")
        if nests and cursor.peek(2) in {"--", "~~"}:
            # In Rust's syntax a difference, elsewhere plain characters.
            raise refuse(f"{cursor.peek(2)} in a bracket")
        if nests and cursor.peek(2) == "&&":
            cursor.at += 2
            operands.append(union(parts))
            parts = []
            nested = True
        elif cursor.peek(2) == "[:" and ":]" in cursor.text[cursor.at :]:
            parts.append(_parse_posix(cursor))
        elif nests and cursor.peek() == "[":
            if depth > 50:
                raise refuse("brackets nested deeper than 50")
            parts.append(parse_bracket(cursor, case, depth + 1))
            nested = True
        else:
            parts.append(_parse_item(cursor))
        first = False
    cursor.at += 1
    if nested and cursor.crossing:
        # Oniguruma negates such a range wrongly up to the stage of April 2025.
        raise refuse(f"{quoted(cursor.text[start : cursor.at])} with a range out of ASCII")
    edges = union(parts)
    for operand in operands:
        edges = intersect(edges, operand)
    if case:
        if operands or depth:
            raise refuse(f"{quoted(cursor.text[start : cursor.at])} under (?i)")
        if cursor.rules.case_folding == "full":
            for code in pattern_sets.long_foldings():
                if not inverted and contains(edges, code):
                    part = quoted(cursor.text[start : cursor.at])
                    raise refuse(f"{part} with {quoted(chr(code))} under (?i)")
        edges = cursor.sets.fold(edges)
    return negate(edges) if inverted else edges


def _parse_posix(cursor: Cursor) -> Edges:
    cursor.at += 2
    inverted = cursor.take("^")
    edges = cursor.sets.posix(cursor.until(":]", "[:"))
    return negate(edges) if inverted else edges


def _parse_code_or_set(cursor: Cursor) -> int | Edges:
    sign = cursor.text[cursor.at]
    cursor.at += 1
    if sign != "\\":
        return ord(sign)
    if cursor.take("b"):
        return 8
    edges = parse_escaped_set(cursor, bracket=True, case=False)
    return parse_escaped_code(cursor) if edges is None else edges


def _parse_item(cursor: Cursor) -> Edges:
    """One character, set or range."""
    low = _parse_code_or_set(cursor)
    if not isinstance(low, int):
        return low
    ahead = cursor.peek(2)
    if len(ahead) < 2 or ahead[0] != "-" or ahead[1] == "]":
        return (low, low + 1)
    if ahead[1] in "[-" and cursor.rules.shorthands == "unicode":
        return (low, low + 1)  # what follows is not a range
    back = cursor.at
    cursor.at += 1
    high = _parse_code_or_set(cursor)
    if not isinstance(high, int):
        raise refuse(f"the range {quoted(cursor.text[back - 1 : cursor.at])}")
    if high < low:
        raise refuse(f"the range {quoted(cursor.text[back - 1 : cursor.at])}")
    cursor.crossing |= low < 0x80 <= high
    return (low, high + 1)


DEPTH_LIMIT = 100
LENGTH_LIMIT = 20_000
REPEAT_LIMIT = 100_000


class Parser(Cursor):
    """One pass over a pattern."""

    def __init__(self, rules: Regex) -> None:
        super().__init__(rules)
        self.depth = 0

    def parse(self) -> Node:
        """Parse the whole pattern."""
        if len(self.text) > LENGTH_LIMIT:
            raise refuse(f"a pattern of more than {LENGTH_LIMIT} characters")
        node = self.alternatives(Flags(False, False, self.rules.anchors == "line", False))
        if self.at < len(self.text):
            raise malformed("unmatched )")
        return node

    def alternatives(self, flags: Flags) -> Node:
        """Parse up to a closing parenthesis or the end."""
        self.depth += 1
        if self.depth > DEPTH_LIMIT:
            raise refuse(f"nesting deeper than {DEPTH_LIMIT}")
        items = [self.chain(flags)]
        while self.take("|"):
            items.append(self.chain(flags))
        self.depth -= 1
        return items[0] if len(items) == 1 else Choice(tuple(items))

    def chain(self, flags: Flags) -> Node:
        """Parse one alternative."""
        items: list[Node] = []
        while self.at < len(self.text) and self.peek() not in "|)":
            if flags.free and self.peek() in " \t\n\r\f\v#":
                if self.text[self.at] == "#":
                    self.at = (self.text + "\n").find("\n", self.at)
                self.at += 1
                continue
            start = self.at
            item = self.atom(flags, first=not items)
            if item is None:
                continue
            while (repeated := self.quantifier(item, start)) is not None:
                item = repeated
            items.append(item)
        return items[0] if len(items) == 1 else Chain(tuple(items))

    def quantifier(self, item: Node, start: int) -> Node | None:
        """Apply one quantifier if one is next."""
        text, at = self.text, self.at
        sign = text[at : at + 1]
        if sign and sign in "*+?":
            self.at += 1
            low, high = (1 if sign == "+" else 0), (1 if sign == "?" else None)
            has_bounds = False
        elif sign == "{":
            bounds = self.bounds()
            if bounds is None:
                return None
            low, high = bounds
            has_bounds = True
        else:
            return None
        if isinstance(item, (Look, Edge)):
            raise refuse(f"{quoted(text[start : self.at])}: a quantifier behind a place")
        lazy = possessive = False
        if not has_bounds or self.rules.counted == "modified":
            lazy = self.take("?")
            possessive = not lazy and self.take("+")
        elif low != high:
            lazy = self.take("?")
        if high != 1 and nullable(item):
            # Engines differ on how often nothing is repeated, and what may still change then.
            raise refuse(f"{quoted(text[start : self.at])}: a repetition of what can be empty")
        repeated = Repeat(item, low, high, lazy)
        return Atomic(repeated) if possessive else repeated

    def bounds(self) -> tuple[int, int | None] | None:
        """Take ``{n}``, ``{n,}``, ``{,m}`` or ``{n,m}``; None where the brace is a character."""
        stop = self.text.find("}", self.at)
        inside = self.text[self.at + 1 : stop] if stop > 0 else ""
        low, comma, high = inside.partition(",")
        digits = (low + high).isascii() and (low + high).isdigit()
        if not digits or not all(p == "" or p.isdigit() for p in (low, high)):
            return None
        if max(len(low), len(high)) > 6:
            raise refuse(f"{{{inside}}}")
        self.at = stop + 1
        least = int(low or 0)
        most = (int(high) if high else None) if comma else least
        if least > REPEAT_LIMIT or (most is not None and (most < least or most > REPEAT_LIMIT)):
            raise refuse(f"{{{inside}}}")
        return least, most

    def atom(self, flags: Flags, *, first: bool) -> Node | None:
        """Parse one unit, or None for what only changes options."""
        sign = self.text[self.at]
        if sign == "(":
            return self.group(flags, first=first)
        if sign == "[":
            return Set(parse_bracket(self, flags.case))
        self.at += 1
        if sign == ".":
            return Set(pattern_sets.ANY if flags.dot else negate(pattern_sets.NEWLINE))
        if sign in "^$":
            return parse_anchor(self, sign, flags)
        if sign in "*+?":
            raise malformed(f"{sign} has nothing before it")
        if sign == "\\":
            return parse_escape(self, flags)
        return self.literal(ord(sign), flags)

    def group(self, flags: Flags, *, first: bool) -> Node | None:
        """Parse from an opening parenthesis."""
        start = self.at
        self.at += 1
        wrap: tuple[type, dict[str, bool]] | None = None
        for opening, kind in GROUP_OPENINGS.items():
            if self.take(opening):
                wrap = kind
                break
        else:
            if self.take("?#"):
                if "\\" in self.until(")", "a comment"):
                    raise refuse("a \\ in a comment")  # whether it hides a ) is the engine's choice
                return None
            if self.take("?<") or self.take("?P<"):
                self.until(">", "a group's name")
            elif self.take("?'"):
                self.until("'", "a group's name")
            elif self.take("?"):
                inner = self.options(flags, start, first=first)
                if inner is None:
                    return None
                flags = inner
        behind = wrap is not None and wrap[1].get("behind", False)
        self.behind += behind
        node = self.alternatives(flags)
        self.behind -= behind
        if not self.take(")"):
            raise malformed("unclosed (")
        if wrap is None:
            return node
        if wrap[0] is Atomic:
            return Atomic(node)
        return Look(node, **wrap[1])

    def options(self, flags: Flags, start: int, *, first: bool) -> Flags | None:
        """Parse ``i-m:``; with ``)`` the options of the enclosing group change and None returns."""
        case, dot, lines, free = flags.case, flags.dot, flags.lines, flags.free
        on = True
        while self.at < len(self.text) and self.peek() not in ":)":
            letter = self.text[self.at]
            self.at += 1
            # In the engines where ^ and $ match at lines anyhow, m is what others call s.
            if letter == "i":
                case = on
            elif letter == ("m" if self.rules.anchors == "line" else "s"):
                dot = on
            elif letter == "m":
                lines = on
            elif letter == "x":
                free = on
            elif letter == "-" and on:
                on = False
            else:
                raise refuse(f"{quoted(self.text[start : self.at])}")
        whole = self.take(")")
        if not whole and not self.take(":"):
            raise malformed("unclosed (")
        if not whole:
            return Flags(case, dot, lines, free)
        if not first:
            # Engines differ on how far it reaches past a following |.
            raise refuse(f"{quoted(self.text[start : self.at])} in the middle of an alternative")
        flags.case, flags.dot, flags.lines, flags.free = case, dot, lines, free
        return None


GROUP_OPENINGS: dict[str, tuple[type, dict[str, bool]] | None] = {
    "?:": None,
    "?=": (Look, {"behind": False, "negated": False}),
    "?!": (Look, {"behind": False, "negated": True}),
    "?<=": (Look, {"behind": True, "negated": False}),
    "?<!": (Look, {"behind": True, "negated": True}),
    "?>": (Atomic, {}),
}
