"""What kind a character is, each kind in the Unicode version that its reference uses.

The components of ``tokenizers`` get their character data from crates of different age: normal
forms, marks and scripts from Unicode 9.0, punctuation, controls and nonspacing marks from 8.0,
word characters from 16.0, numbers and case from 17.0. ``docs/unicode.md`` says how that was found.
"""

from __future__ import annotations

from bisect import bisect_right
from functools import lru_cache

from mtkit.unicode import tables as unicode

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

WHITE_SPACE = frozenset(
    "\t\n\v\f\r \x85\xa0\u1680\u2028\u2029\u202f\u205f\u3000"
    + "".join(map(chr, range(0x2000, 0x200B)))
)
"""Unicode's White_Space; the set has not changed since Unicode 6.3."""

ASCII_SPACE = frozenset("\t\n\v\f\r ")
"""What ``isspace`` of C takes for a space."""

ASCII_PUNCTUATION = frozenset("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")

HAN = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    # BERT's own code has 2B820 here; tokenizers and llama.cpp do not.
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)
BERT_BLOCKS = (*HAN, (0x2B820, 0x2B91F))

is_white_space: Callable[[str], bool] = WHITE_SPACE.__contains__
is_ascii_space: Callable[[str], bool] = ASCII_SPACE.__contains__
is_ascii_punctuation: Callable[[str], bool] = ASCII_PUNCTUATION.__contains__
lower = unicode.lower
simple_lower = unicode.simple_lower


@lru_cache(maxsize=4)
def _edges(name: str) -> list[int]:
    return unicode.property_edges(name)


def _has(name: str, character: str) -> bool:
    return bisect_right(_edges(name), ord(character)) % 2 == 1


def is_number(character: str, version: str = "17.0") -> bool:
    """Tell a number (Nd, Nl, No)."""
    return unicode.category(character, version)[0] == "N"


def is_punctuation(character: str) -> bool:
    """Tell punctuation (P* of Unicode 8.0, and ASCII's symbols)."""
    return character in ASCII_PUNCTUATION or unicode.category(character, "8.0")[0] == "P"


def is_control(character: str) -> bool:
    """Tell a control, format or private-use character; unassigned ones are none."""
    return unicode.category(character, "8.0") in {"Cc", "Cf", "Co"}


def is_nonspacing_mark(character: str) -> bool:
    """Tell a nonspacing mark (Mn of Unicode 8.0)."""
    return unicode.category(character, "8.0") == "Mn"


def is_mark(character: str, version: str = "9.0") -> bool:
    """Tell a mark of any kind (M*)."""
    return unicode.category(character, version)[0] == "M"


def is_any_control(character: str, version: str) -> bool:
    """Tell a control, format, private-use character or surrogate; unassigned ones are none."""
    return unicode.category(character, version) in {"Cc", "Cf", "Co", "Cs"}


def is_c0_or_c1(character: str) -> bool:
    """Tell a control (Cc)."""
    return character < " " or "\x7f" <= character <= "\x9f"


def is_space_separator(character: str) -> bool:
    """Tell a space separator (Zs)."""
    return character in WHITE_SPACE and character not in "\t\n\v\f\r\x85\u2028\u2029"


def is_blank(character: str) -> bool:
    """Tell one of ASCII's six or a space separator."""
    return character in ASCII_SPACE or is_space_separator(character)


def is_word(character: str) -> bool:
    r"""Tell a character that ``\w`` matches: Alphabetic, M*, Nd, Pc or Join_Control."""
    if character.isascii():
        return character.isalnum() or character == "_"
    category = unicode.category(character, "16.0")
    if category in {"Mn", "Mc", "Me", "Nd", "Pc"}:
        return True
    return _has("Alphabetic", character) or _has("Join_Control", character)


def is_han(character: str) -> bool:
    """Tell a character that BERT sets apart as Chinese."""
    code_point = ord(character)
    return any(first <= code_point <= last for first, last in HAN)


def is_han_block(character: str) -> bool:
    """Tell a character of the blocks that BERT's own code sets apart."""
    code_point = ord(character)
    return any(first <= code_point <= last for first, last in BERT_BLOCKS)


def script(character: str) -> str:
    """Return the script (Unicode 9.0) for cutting texts, "" where a character goes with any.

    Japanese syllables count as Han. Characters that are not assigned go with any, and so does the
    space. Four characters have the script of an older table.
    """
    if character == "\u30fc":
        return "Han"
    if character in "\u0589\u061c":
        return "Common"
    if character in "\u0953\u0954":
        return "Devanagari"
    if character == " " or unicode.category(character, "9.0") == "Cn":
        return ""
    name = unicode.script(character)
    return {"Hiragana": "Han", "Katakana": "Han", "Unknown": ""}.get(name, name)


def combining_class(character: str) -> int:
    """Return the canonical combining class."""
    return unicode.combining_class(character, "9.0")


def decomposition(character: str, *, compatible: bool) -> str:
    """Return the full decomposition of one character, itself if it has none."""
    return unicode.decomposition(character, compatible=compatible, version="9.0")


def composition(first: str, second: str) -> str | None:
    """Return the character that two neighbors compose to."""
    return unicode.composition(first, second, "9.0")
