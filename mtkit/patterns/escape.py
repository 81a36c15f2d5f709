r"""What stands behind a backslash in a split pattern, and its places by name: ``^ $ \A \b``."""

from __future__ import annotations

from mtkit.patterns import sets as pattern_sets
from mtkit.patterns.errors import malformed, refuse
from mtkit.patterns.tree import Atomic, Chain, Choice, Edge, Look, Set, negate, union

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.patterns.cursor import Cursor, Flags
    from mtkit.patterns.tree import Edges, Node

CONTROLS = {"t": 9, "n": 10, "v": 11, "f": 12, "r": 13, "a": 7, "e": 27}
END: Edges = ()


def anchor(cursor: Cursor, sign: str, flags: Flags) -> Node:
    """``^`` or ``$``."""
    if sign == "$":
        return Edge(after=pattern_sets.NEWLINE if flags.lines else END)
    if not flags.lines:
        return Edge(before=END)
    if cursor.rules.anchors == "text":
        return Edge(before=pattern_sets.NEWLINE)
    # No line begins behind a newline at the very end.
    begins = Edge(pattern_sets.NEWLINE, pattern_sets.ANY, at_start=False, at_end=False)
    return Choice((Edge(before=END), begins))


def escape(cursor: Cursor, flags: Flags) -> Node:
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
            return Edge(before=END)
        if letter == "z" or cursor.rules.anchors == "text":
            return Edge(after=END)
        last = Look(Chain((Set(pattern_sets.NEWLINE), Edge(after=END))), False, False)
        return Choice((Edge(after=END), last))
    if letter == "R":
        if cursor.behind:
            raise refuse("\\R in a look-behind")  # Oniguruma sees nothing but \r\n there
        cursor.at += 1
        one = union(((10, 14), (0x85, 0x86), (0x2028, 0x202A)))
        pair = Chain((Set((13, 14)), Set(pattern_sets.NEWLINE)))
        return Atomic(Choice((pair, Set(one))))
    found = escaped_set(cursor, bracket=False, case=flags.case)
    if found is not None:
        return Set(found)
    return cursor.literal(escaped_code(cursor), flags)


def escaped_set(cursor: Cursor, *, bracket: bool, case: bool) -> Edges | None:
    r"""Take ``s d w h p{…}`` and their negations; None where no set is next."""
    letter = cursor.peek()
    found: Edges
    if letter in {"s", "S"}:
        found = cursor.sets.space()
    elif letter in {"d", "D"}:
        found = cursor.sets.digit()
    elif letter in {"w", "W"}:
        found = cursor.sets.word(bracket=bracket)
    elif letter in {"h", "H"} and cursor.rules.shorthands == "unicode":
        found = pattern_sets.HEX
    elif letter in {"N", "O"} and not bracket and cursor.rules.shorthands == "unicode":
        found = () if letter == "O" else pattern_sets.NEWLINE
        cursor.at += 1
        return negate(found)
    elif letter in {"p", "P"}:
        cursor.at += 1
        if not cursor.take("{"):
            raise refuse(f"\\{cursor.text[cursor.at - 1 : cursor.at + 1]}")
        inverted = cursor.take("^")
        found = cursor.sets.named(cursor.until("}", "\\p{"))
        if case and cursor.rules.case_folding == "simple":
            found = cursor.sets.fold(found)
        return negate(found) if inverted != (letter == "P") else found
    else:
        return None
    cursor.at += 1
    return negate(found) if letter.isupper() else found


def escaped_code(cursor: Cursor) -> int:
    """Take one escaped character."""
    letter = cursor.peek()
    if not letter:
        raise malformed("it ends in \\")
    cursor.at += 1
    if letter in CONTROLS:
        return CONTROLS[letter]
    if letter == "x" and cursor.take("{"):
        return hexadecimal(cursor.until("}", "\\x{"), 0x10FFFF)
    if letter == "x":
        cursor.at += 2
        # Above, some engines mean a byte, some a character.
        return hexadecimal(cursor.text[cursor.at - 2 : cursor.at], 0x7F)
    if letter == "u":
        cursor.at += 4
        return hexadecimal(cursor.text[cursor.at - 4 : cursor.at], 0xFFFF)
    if letter.isalnum():
        what = f"a backreference (\\{letter})" if letter.isdigit() else f"\\{letter}"
        raise refuse(what)
    return ord(letter)


def hexadecimal(digits: str, most: int) -> int:
    """Return a code point given in hexadecimal."""
    try:
        code = int(digits, 16)
    except ValueError:
        raise malformed(f"{digits!r} is not a hexadecimal number") from None
    if code > most:
        raise refuse(f"{digits} as a character")
    return code
