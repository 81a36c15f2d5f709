"""Bracket expressions of split patterns: ``[^a-z\\p{L}[:digit:]&&[^x]]``."""

from __future__ import annotations

from mtkit.pipeline import pattern_sets
from mtkit.pipeline.pattern_errors import refuse
from mtkit.pipeline.pattern_escape import escaped_code, escaped_set
from mtkit.pipeline.pattern_tree import contains, intersect, negate, union

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.pattern_parse import Parser
    from mtkit.pipeline.pattern_tree import Edges


def bracket(parser: Parser, case: bool, depth: int = 0) -> Edges:
    """Parse from ``[`` to its ``]``; the set has other cases too if case is ignored.

    Raises:
        UnsupportedError: The bracket holds what cannot be run exactly.
    """
    start = parser.at
    parser.at += 1
    inverted = parser.take("^")
    nests = parser.rules.shorthands == "unicode"
    operands: list[Edges] = []
    parts: list[Edges] = []
    first = True
    nested = False
    parser.crossing &= depth > 0
    while first or parser.peek() != "]":
        if parser.at >= len(parser.text):
            raise refuse("a [ without ]")
        if nests and parser.peek(2) in {"--", "~~"}:
            # In Rust's syntax a difference, elsewhere plain characters.
            raise refuse(f"{parser.peek(2)} in a bracket")
        if nests and parser.peek(2) == "&&":
            parser.at += 2
            operands.append(union(parts))
            parts = []
            nested = True
        elif parser.peek(2) == "[:" and ":]" in parser.text[parser.at :]:
            parts.append(_posix(parser))
        elif nests and parser.peek() == "[":
            if depth > 50:
                raise refuse("brackets nested deeper than 50")
            parts.append(bracket(parser, case, depth + 1))
            nested = True
        else:
            parts.append(_item(parser))
        first = False
    parser.at += 1
    if nested and parser.crossing:
        # Oniguruma negates such a range wrongly up to the stage of April 2025.
        raise refuse(f"{parser.text[start : parser.at]!r} with a range out of ASCII")
    edges = union(parts)
    for operand in operands:
        edges = intersect(edges, operand)
    if case:
        if operands or depth:
            raise refuse(f"{parser.text[start : parser.at]!r} under (?i)")
        if parser.rules.case_folding == "full":
            for code in pattern_sets.long_foldings():
                if not inverted and contains(edges, code):
                    raise refuse(
                        f"{parser.text[start : parser.at]!r} with {chr(code)!r} under (?i)"
                    )
        edges = parser.sets.fold(edges)
    return negate(edges) if inverted else edges


def _posix(parser: Parser) -> Edges:
    parser.at += 2
    inverted = parser.take("^")
    found = parser.sets.posix(parser.until(":]", "[:"))
    return negate(found) if inverted else found


def _code_or_set(parser: Parser) -> int | Edges:
    sign = parser.text[parser.at]
    parser.at += 1
    if sign != "\\":
        return ord(sign)
    if parser.take("b"):
        return 8
    found = escaped_set(parser, bracket=True, case=False)
    return escaped_code(parser) if found is None else found


def _item(parser: Parser) -> Edges:
    """One character, set or range."""
    low = _code_or_set(parser)
    if not isinstance(low, int):
        return low
    ahead = parser.peek(2)
    if len(ahead) < 2 or ahead[0] != "-" or ahead[1] == "]":
        return (low, low + 1)
    if ahead[1] in "[-" and parser.rules.shorthands == "unicode":
        return (low, low + 1)  # what follows is no range
    back = parser.at
    parser.at += 1
    high = _code_or_set(parser)
    if not isinstance(high, int):
        raise refuse(f"the range {parser.text[back - 1 : parser.at]!r}")
    if high < low:
        raise refuse(f"the range {parser.text[back - 1 : parser.at]!r}")
    parser.crossing |= low < 0x80 <= high
    return (low, high + 1)
