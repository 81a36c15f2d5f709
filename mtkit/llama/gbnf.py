"""Pieces of a grammar in GBNF: literals, repetitions, and the patterns of JSON schemas.

Characters that JSON writes as escapes cannot be in a pattern.

Source: llama.cpp, grammars/README.md and src/llama-grammar.cpp (``parse_char``,
``handle_repetitions``).
"""

from __future__ import annotations

import re
import warnings

from mtkit.errors import UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

MOST_REPEATS = 2000
"""Of a schema and a pattern; llama.cpp itself repeats a thing one time less."""
ANY = '[^"\\\\\\x00-\\x1F\\U00110000-\\U7FFFFFFF]'
"""What JSON takes in a string as it is; llama.cpp reads bad UTF-8 as numbers beyond Unicode."""
_TOKEN = re.compile(
    r"\\(.)|\[(\^?)((?:\\.|[^\]\\])*)\]|\{(\d*)(,?)(\d*)\}(?<!\{\})|\(\?|.", re.DOTALL
)
_CLASSES = {
    "d": [(0x30, 0x39)], "w": [(0x41, 0x5A), (0x61, 0x7A), (0x30, 0x39), (0x5F, 0x5F)],
    "s": [(0x20, 0x20)],
}  # fmt: skip
_PLAIN = [(0x20, 0x21), (0x23, 0x5B), (0x5D, 0x10FFFF)]


def literal(text: str) -> str:
    """Return a text as a literal."""
    marked = re.sub(r'(["\\])', r"\\\1", text)
    return '"' + re.sub(r"[\x00-\x1f\x7f]", lambda found: f"\\x{ord(found[0]):02X}", marked) + '"'


def repeated(item: str, least: int, most: int | None) -> str:
    """Return one item several times.

    Args:
        item: A rule's name, a set, or a literal of one character.
        least: How often at least.
        most: How often at most; None: any number.
    """
    if most == 0:
        return '""'
    if least == MOST_REPEATS:
        return f"{item} {repeated(item, least - 1, most and most - 1)}"
    if most == MOST_REPEATS:
        rest = f"{item} {repeated(item, max(least - 1, 0), most - 1)}"
        return rest if least else f"({rest})?"
    if most is None:
        return item + ("*", "+")[least] if least < 2 else f"{item}{{{least},}}"
    if (least, most) == (0, 1):
        return f"{item}?"
    return f"{item}{{{least}}}" if least == most else f"{item}{{{least},{most}}}"


def pattern_rule(pattern: str, add: Callable[[str], str]) -> str:
    """Return the body of a string that a regular expression describes.

    Args:
        pattern: The regular expression.
        add: Makes a rule of a text, and returns its name.

    Raises:
        UnsupportedError: It says what GBNF cannot say.
        UsageError: It is none.
    """
    refused = _Refusals(pattern)
    _check(pattern, refused)
    levels: list[list[str]] = [[]]
    for found in _TOKEN.finditer(pattern, 1, len(pattern) - 1):
        text, escaped, negated, inner = found[0], found[1], found[2], found[3]
        made = levels[-1]
        if inner is not None:
            made.append(_set(inner, text, refused, negated=bool(negated)))
        elif escaped in _CLASSES:
            made.append(_written(_CLASSES[escaped]))
        elif (escaped and (escaped.isalnum() or escaped in '"\\')) or text in ("^", "$", "(?"):
            raise refused(text)
        elif text == '"' or (escaped or text) < " ":
            raise refused("a character that JSON escapes")
        elif escaped:
            made.append(literal(escaped))
        elif text == "(":
            levels.append([])
        elif text == ")":
            levels.pop()
            levels[-1].append(f"({' '.join(made)})")
        elif text == "|":
            if len(levels) == 1:
                raise refused("a choice outside parentheses")
            made.append(text)
        elif text in "*+?":
            made.append(made.pop() + text)
        elif found[5] is not None:
            least = int(found[4] or 0)
            most = (int(found[6]) if found[6] else None) if found[5] else least
            if max(least, most or 0) > MOST_REPEATS:
                raise refused(f"a repetition above {MOST_REPEATS}")
            item = made.pop()
            made.append(repeated(add(item) if item[0] == "(" else item, least, most))
        else:
            made.append(ANY if text == "." else literal(text))
    return " ".join(levels[0]) or '""'


class _Refusals:
    """Makes the errors about a pattern."""

    def __init__(self, pattern: str) -> None:
        self._field = f"pattern {pattern}"

    def __call__(self, what: str, hint: str = "") -> UnsupportedError:
        what = f"{what} cannot be turned into a grammar"
        return UnsupportedError(what, field=self._field, hint=hint)

    def none(self, why: str) -> UsageError:
        return UsageError(why, field=self._field)


def _check(pattern: str, refused: _Refusals) -> None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
    except (re.error, RecursionError, OverflowError) as error:
        raise refused.none(str(error)) from None
    if pattern[:1] != "^" or not re.search(r"(?<!\\)(?:\\\\)*\$\Z", pattern):
        raise refused("a part of a text", "begin with ^ and end with $")
    if re.search(r"(?<!\\)[*+?}][*+?]", pattern):
        raise refused("a quantifier after another")
    if re.search(r"[\ud800-\udfff]", pattern):
        raise refused("half a character")


def _set(inner: str, text: str, refused: _Refusals, *, negated: bool) -> str:
    """Return a set; of ranges, what JSON escapes is left out."""
    if re.search(r"\\[^\Wdws]|\\[\\\"]|[\"\x00-\x1f]", inner) or not inner:
        raise refused(text)
    parts = re.findall(r"\\.|[^\\]", inner)
    ranges: list[tuple[int, int]] = []
    while parts:
        part = parts.pop(0)
        if part[1:] in _CLASSES:
            ranges += _CLASSES[part[1:]]
            continue
        last = part
        if len(parts) > 1 and parts[0] == "-":
            last = parts[1]
            del parts[:2]
        ranges.append((ord(part[-1]), ord(last[-1])))
    if negated:
        return f"[^{_written(ranges)[1:-1]}{ANY[2:]}"
    cut = [(max(a, c), min(b, d)) for a, b in ranges for c, d in _PLAIN if max(a, c) <= min(b, d)]
    if not cut:
        raise refused(text)
    return _written(cut)


def _written(ranges: list[tuple[int, int]]) -> str:
    return f"[{''.join(_hex(a) if a == b else f'{_hex(a)}-{_hex(b)}' for a, b in ranges)}]"


def _hex(code: int) -> str:
    """Return a character as GBNF writes it, by its number where it could mean something else."""
    if code < 0x7F:
        return chr(code) if chr(code).isalnum() else f"\\x{code:02X}"
    return f"\\U{code:08X}"
