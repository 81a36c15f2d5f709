"""Pre-tokenizers: normalized text to the words that the model encodes one by one.

``PreTokenizer`` is the closed union.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.spec.text import MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Union

    from mtkit.spec.text import Pattern

    Behavior = Literal[
        "removed",
        "isolated",
        "merged_with_previous",
        "merged_with_next",
        "contiguous",
        "glued_to_previous",  # like merged_with_previous, and adjacent matches stay together, too
    ]

BYTE_LEVEL_SPLIT = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
"""The pattern that ``ByteLevel`` splits with: GPT-2's."""


class ByteLevel(Record):
    """Map bytes to the byte alphabet, after ``BYTE_LEVEL_SPLIT`` if ``use_regex``."""

    add_prefix_space: bool = True
    use_regex: bool = True
    trim_offsets: bool = True


class Metaspace(Record):
    """Write ``replacement`` for a space and split before it."""

    replacement: str = MARK
    prepend_scheme: Literal["always", "first", "never"] = "always"
    split: bool = True


class MarkSpaces(Record):
    """Write ``replacement`` for each space of a word, without splitting it.

    Attributes:
        prefix: Put one in front of a word that does not begin with a space.
    """

    replacement: str = MARK
    prefix: bool = True


class Bert(Record):
    """Split at white space (dropped) and around each punctuation character.

    Attributes:
        unicode: Version of the Unicode data that decides what punctuation is, for example "8.0";
            ASCII's symbols are punctuation in any case.
    """

    unicode: str = "8.0"


class Split(Record):
    """Split by a pattern; ``invert`` swaps matches and the text between them."""

    pattern: Pattern
    behavior: Behavior = "isolated"
    invert: bool = False


class Punctuation(Record):
    """Split at punctuation characters."""

    behavior: Behavior = "isolated"


class Digits(Record):
    """Set runs of digits apart, or each digit."""

    individual: bool = False


class Whitespace(Record):
    r"""Split into ``\w+`` and ``[^\w\s]+``, dropping white space."""


class WhitespaceSplit(Record):
    """Split at white space, dropping it."""


class CharDelimiterSplit(Record):
    """Split at a character, dropping it."""

    delimiter: str


class UnicodeScripts(Record):
    """Split where the script changes."""


class FixedLength(Record):
    """Cut into pieces of that many characters."""

    length: int


class DigitGroups(Record):
    """Cut runs of numbers into groups of three from their right end.

    A stretch without numbers stays with the group behind it: "abc1234" is "abc1" "234".
    """


class Sequence(Record):
    """One after the other, each on the words that the one before left."""

    steps: tuple[PreTokenizer, ...]


if TYPE_CHECKING:
    PreTokenizer = Union[
        ByteLevel,
        Metaspace,
        MarkSpaces,
        Bert,
        Split,
        Punctuation,
        Digits,
        Whitespace,
        WhitespaceSplit,
        CharDelimiterSplit,
        UnicodeScripts,
        FixedLength,
        DigitGroups,
        Sequence,
    ]
