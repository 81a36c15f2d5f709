r"""Split patterns as text to a tree.

The grammar is the one that Oniguruma, Rust's and ECMAScript's engines share as far as real split
patterns and their kin go; where they differ the rules of ``spec.text.Regex`` decide. Anything else
is refused with the construct quoted: backreferences, recursion, conditionals, ``\K \G \X``.

Source: Oniguruma doc/RE and doc/SYNTAX.md (Ruby syntax); the syntax page of Rust's regex.
"""

from __future__ import annotations

from mtkit.patterns import escape as pattern_escape
from mtkit.patterns import sets as pattern_sets
from mtkit.patterns.cursor import Cursor, Flags
from mtkit.patterns.errors import malformed, refuse
from mtkit.patterns.tree import Atomic, Chain, Choice, Edge, Look, Repeat, Set, negate, nullable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.patterns.tree import Node
    from mtkit.spec.text import Regex

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
            counted = False
        elif sign == "{":
            bounds = self.bounds()
            if bounds is None:
                return None
            low, high = bounds
            counted = True
        else:
            return None
        if isinstance(item, (Look, Edge)):
            raise refuse(f"{text[start : self.at]!r}: a quantifier behind a place")
        lazy = possessive = False
        if not counted or self.rules.counted == "modified":
            lazy = self.take("?")
            possessive = not lazy and self.take("+")
        elif low != high:
            lazy = self.take("?")
        if high != 1 and nullable(item):
            # Engines differ on how often nothing is repeated, and what may still change then.
            raise refuse(f"{text[start : self.at]!r}: a repetition of what can be empty")
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
            from mtkit.patterns.bracket import bracket

            return Set(bracket(self, flags.case))
        self.at += 1
        if sign == ".":
            return Set(pattern_sets.ANY if flags.dot else negate(pattern_sets.NEWLINE))
        if sign in "^$":
            return pattern_escape.anchor(self, sign, flags)
        if sign in "*+?":
            raise malformed(f"{sign} has nothing before it")
        if sign == "\\":
            return pattern_escape.escape(self, flags)
        return self.literal(ord(sign), flags)

    def group(self, flags: Flags, *, first: bool) -> Node | None:
        """Parse from an opening parenthesis."""
        start = self.at
        self.at += 1
        wrap: tuple[type, dict[str, bool]] | None = None
        for opening, kind in OPENINGS.items():
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
                raise refuse(f"{self.text[start : self.at]!r}")
        whole = self.take(")")
        if not whole and not self.take(":"):
            raise malformed("unclosed (")
        if not whole:
            return Flags(case, dot, lines, free)
        if not first:
            # Engines differ on how far it reaches past a following |.
            raise refuse(f"{self.text[start : self.at]!r} in the middle of an alternative")
        flags.case, flags.dot, flags.lines, flags.free = case, dot, lines, free
        return None


OPENINGS: dict[str, tuple[type, dict[str, bool]] | None] = {
    "?:": None,
    "?=": (Look, {"behind": False, "negated": False}),
    "?!": (Look, {"behind": False, "negated": True}),
    "?<=": (Look, {"behind": True, "negated": False}),
    "?<!": (Look, {"behind": True, "negated": True}),
    "?>": (Atomic, {}),
}
