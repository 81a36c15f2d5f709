r"""Split patterns of other engines in the spelling that Oniguruma (Ruby's syntax) needs.

Two things mean something else there: a ``+`` behind ``{1,3}`` repeats instead of making it
possessive, so it becomes an atomic group; ``^`` and ``$`` match at every line, so they become
``\A`` and ``\z``.

Source: kkos/oniguruma, doc/RE (ONIG_SYNTAX_RUBY).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError


def for_oniguruma(pattern: str, *, anchors: bool) -> str:
    """Respell a pattern.

    Args:
        pattern: The expression.
        anchors: ``^`` and ``$`` mean the ends of the text.

    Raises:
        UnsupportedError: It uses something that cannot be respelled.
    """
    made: list[str] = []
    opened: list[int] = []
    atom = 0  # where in ``made`` the last atom begins
    at = 0
    while at < len(pattern):
        char = pattern[at]
        if char == "(":
            opened.append(len(made))
            made.append(char)
            at += 1
        elif char == ")":
            atom = opened.pop() if opened else len(made)
            made.append(char)
            at += 1
        elif char == "{" and (end := _count_end(pattern, at)):
            count, follows = pattern[at:end], pattern[end : end + 1]
            if follows == "+":
                made[atom:] = ["(?>", *made[atom:], count, ")"]
                end += 1
            elif follows == "?" and "," not in count:
                raise UnsupportedError(f"the pattern has {count}?, which is not a lazy count here")
            else:
                made.append(count)
            at = end
        elif char in "*+?":
            made.append(char)
            at += 1
        else:
            end = _atom_end(pattern, at)
            atom = len(made)
            text = pattern[at:end]
            made.append({"^": r"\A", "$": r"\z"}.get(text, text) if anchors else text)
            at = end
    return "".join(made)


def _count_end(pattern: str, at: int) -> int:
    """Return where a count ends, 0 when the brace begins none."""
    end = pattern.find("}", at)
    inside = pattern[at + 1 : end]
    return end + 1 if end > 0 and inside.strip("0123456789") in {"", ","} and inside else 0


def _atom_end(pattern: str, at: int) -> int:
    """Return where the character, escape or class ends that begins here."""
    if pattern[at] == "\\":
        if pattern[at + 1 : at + 2] in {"p", "P", "x", "u"} and pattern[at + 2 : at + 3] == "{":
            return pattern.find("}", at) + 1 or len(pattern)
        size = {"x": 4, "u": 6}.get(pattern[at + 1 : at + 2], 2)
        return min(at + size, len(pattern))
    if pattern[at] != "[":
        return at + 1
    depth, place = 0, at
    while place < len(pattern):
        if pattern[place] == "\\":
            place += 1
        elif pattern[place] == "[":
            depth += 1
            place += pattern[place + 1 : place + 2] == "^"
            place += pattern[place + 1 : place + 2] == "]"  # a bracket in first place is itself
        elif pattern[place] == "]":
            depth -= 1
            if not depth:
                return place + 1
        place += 1
    return len(pattern)


def literal(text: str) -> str:
    """Return an expression that matches a text and nothing else."""
    return "".join(c if c.isalnum() or not c.isascii() or c == " " else f"\\{c}" for c in text)
