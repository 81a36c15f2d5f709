r"""A pattern of the coarse scanner in exact Unicode terms, for any engine with Perl's rules.

Each set of folded bytes becomes a class of general categories and ASCII characters: ``\p{L}`` is
``[\p{L}\x01]``, ``\s`` is ``[\p{Zs}\x03\x09-\x0d]``. Only the Unicode version that decides the
categories is left to the engine.
"""

from __future__ import annotations

from mtkit.pipeline.coarse import ALL, ASCII, FOLDED, Atom, alternatives_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.pipeline.coarse import Node


def exact(pattern: str) -> str:
    """Spell a pattern out in exact Unicode properties and sets."""
    return "|".join("".join(_exact(node) for node in nodes) for nodes in alternatives_of(pattern))


def _exact(node: Node) -> str:
    if isinstance(node, Atom):
        return _set(node.members, node.count)
    inside = "|".join("".join(_exact(each) for each in nodes) for nodes in node.alternatives)
    opening = "(?!" if node.opening == "(?!" else "(?:"
    return f"{opening}{inside}){node.count}"


def _set(members: frozenset[int], count: str) -> str:
    """Write a set of folded bytes as a class (negated where it holds the rest of Unicode)."""
    if not members:
        return r"[^\x{0}-\x{10FFFF}]" + count
    negated = 4 in members
    wanted = ALL - members if negated else members
    inside, left_out = "", set[int]()
    ascii_left = set(wanted)
    for byte, name in FOLDED.items():
        if byte in wanted:
            inside += rf"\p{{{name}}}"
            left_out |= ASCII[byte] - wanted
            ascii_left -= ASCII[byte]
    inside += _ranges(sorted(ascii_left))
    if not negated:
        if len(members) == 1 and inside != "" and "\\p" not in inside:
            return inside + count
        text = f"[{inside}]"
        if left_out:
            text = f"(?:(?![{_ranges(sorted(left_out))}]){text})"
        return text + count
    if not inside:
        return r"[\x{0}-\x{10FFFF}]" + count
    text = f"[^{inside}]"
    if left_out:
        text = f"(?:{text}|[{_ranges(sorted(left_out))}])"
    return text + count


def _ranges(values: list[int]) -> str:
    """Write ASCII values as members of a class, runs of four and more as ranges."""
    text, at = "", 0
    while at < len(values):
        end = at
        while end + 1 < len(values) and values[end + 1] == values[end] + 1:
            end += 1
        run = values[at : end + 1]
        if len(run) > 3:
            text += f"{_member(run[0])}-{_member(run[-1])}"
        else:
            text += "".join(_member(value) for value in run)
        at = end + 1
    return text


def _member(value: int) -> str:
    char = chr(value)
    if char.isalnum():
        return char
    return f"\\x{value:02x}" if value <= 32 or value == 127 else f"\\{char}"
