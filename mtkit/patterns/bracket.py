"""Bracket expressions of split patterns: ``[^a-z\\p{L}[:digit:]&&[^x]]``."""

from __future__ import annotations

from mtkit.patterns import sets as pattern_sets
from mtkit.patterns.errors import malformed, refuse
from mtkit.patterns.escape import escaped_code, escaped_set
from mtkit.patterns.tree import contains, intersect, negate, union

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.patterns.cursor import Cursor
    from mtkit.patterns.tree import Edges


def bracket(cursor: Cursor, case: bool, depth: int = 0) -> Edges:
    """Parse from ``[`` to its ``]``; the set has other cases too if case is ignored.

    Raises:
        UnsupportedError: The bracket holds what cannot be run exactly.
    """
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
            parts.append(_posix(cursor))
        elif nests and cursor.peek() == "[":
            if depth > 50:
                raise refuse("brackets nested deeper than 50")
            parts.append(bracket(cursor, case, depth + 1))
            nested = True
        else:
            parts.append(_item(cursor))
        first = False
    cursor.at += 1
    if nested and cursor.crossing:
        # Oniguruma negates such a range wrongly up to the stage of April 2025.
        raise refuse(f"{cursor.text[start : cursor.at]!r} with a range out of ASCII")
    edges = union(parts)
    for operand in operands:
        edges = intersect(edges, operand)
    if case:
        if operands or depth:
            raise refuse(f"{cursor.text[start : cursor.at]!r} under (?i)")
        if cursor.rules.case_folding == "full":
            for code in pattern_sets.long_foldings():
                if not inverted and contains(edges, code):
                    raise refuse(
                        f"{cursor.text[start : cursor.at]!r} with {chr(code)!r} under (?i)"
                    )
        edges = cursor.sets.fold(edges)
    return negate(edges) if inverted else edges


def _posix(cursor: Cursor) -> Edges:
    cursor.at += 2
    inverted = cursor.take("^")
    found = cursor.sets.posix(cursor.until(":]", "[:"))
    return negate(found) if inverted else found


def _code_or_set(cursor: Cursor) -> int | Edges:
    sign = cursor.text[cursor.at]
    cursor.at += 1
    if sign != "\\":
        return ord(sign)
    if cursor.take("b"):
        return 8
    found = escaped_set(cursor, bracket=True, case=False)
    return escaped_code(cursor) if found is None else found


def _item(cursor: Cursor) -> Edges:
    """One character, set or range."""
    low = _code_or_set(cursor)
    if not isinstance(low, int):
        return low
    ahead = cursor.peek(2)
    if len(ahead) < 2 or ahead[0] != "-" or ahead[1] == "]":
        return (low, low + 1)
    if ahead[1] in "[-" and cursor.rules.shorthands == "unicode":
        return (low, low + 1)  # what follows is not a range
    back = cursor.at
    cursor.at += 1
    high = _code_or_set(cursor)
    if not isinstance(high, int):
        raise refuse(f"the range {cursor.text[back - 1 : cursor.at]!r}")
    if high < low:
        raise refuse(f"the range {cursor.text[back - 1 : cursor.at]!r}")
    cursor.crossing |= low < 0x80 <= high
    return (low, high + 1)
