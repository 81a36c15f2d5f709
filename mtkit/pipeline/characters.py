"""What kind a character is, each kind in the Unicode version that its reference uses.

The components of ``tokenizers`` get their character data from crates of different age: normal
forms and marks from Unicode 9.0, punctuation, controls and nonspacing marks from 8.0, white space,
numbers and case from the standard library. ``docs/unicode.md`` says how that was found out.
"""

from __future__ import annotations

import unicodedata

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

_HAN = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    # BERT's own code has 2B820 here; tokenizers does not.
    (0x2B920, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)

is_white_space: Callable[[str], bool] = WHITE_SPACE.__contains__
is_ascii_space: Callable[[str], bool] = ASCII_SPACE.__contains__
is_ascii_punctuation: Callable[[str], bool] = ASCII_PUNCTUATION.__contains__


def is_number(character: str) -> bool:
    """Tell a number (Nd, Nl, No)."""
    return unicodedata.category(character)[0] == "N"


def is_punctuation(character: str) -> bool:
    """Tell punctuation (P* of Unicode 8.0, and ASCII's symbols)."""
    return character in ASCII_PUNCTUATION or unicodedata.category(character)[0] == "P"


def is_control(character: str) -> bool:
    """Tell a control, format or private-use character; unassigned ones are none."""
    return unicodedata.category(character) in {"Cc", "Cf", "Co"}


def is_nonspacing_mark(character: str) -> bool:
    """Tell a nonspacing mark (Mn of Unicode 8.0)."""
    return unicodedata.category(character) == "Mn"


def is_mark(character: str, version: str = "9.0") -> bool:
    """Tell a mark of any kind (M*)."""
    return bool(version) and unicodedata.category(character)[0] == "M"


def is_any_control(character: str) -> bool:
    """Tell a control, format, private-use character or surrogate; unassigned ones are none."""
    return unicodedata.category(character) in {"Cc", "Cf", "Co", "Cs"}


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
    r"""Tell a character that ``\w`` matches."""
    return character.isalnum() or character == "_" or unicodedata.category(character)[0] == "M"


def is_han(character: str) -> bool:
    """Tell a character that BERT sets apart as Chinese."""
    code_point = ord(character)
    return any(first <= code_point <= last for first, last in _HAN)


def is_han_block(character: str) -> bool:
    """Tell a character of the blocks that BERT's own code sets apart."""
    return is_han(character) or "\U0002b820" <= character < "\U0002b920"


def simple_lower(character: str) -> str:
    """Return the lower case that is one character."""
    return "i" if character == "\u0130" else character.lower()


def lower(character: str) -> str:
    """Return the lower case of one character, which can be several."""
    return character.lower()


def combining_class(character: str) -> int:
    """Return the canonical combining class."""
    return unicodedata.combining(character)


def decomposition(character: str, *, compatible: bool) -> str:
    """Return the full decomposition of one character, itself if it has none."""
    return unicodedata.normalize("NFKD" if compatible else "NFD", character)


def composition(first: str, second: str) -> str | None:
    """Return the character that two neighbours compose to."""
    composed = unicodedata.normalize("NFC", first + second)
    return composed if len(composed) == 1 else None
