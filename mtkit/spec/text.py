"""What a component looks for in a text: a literal string or a regular expression."""

from __future__ import annotations

from mtkit.spec.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Union


class Text(Record):
    """A literal string."""

    text: str


class Regex(Record):
    r"""A regular expression, with the rules of the engine that it was written for.

    Attributes:
        pattern: The expression as its file has it.
        alphabet: What the expression is run on. ``characters``: the text's own. ``blank_spaces``:
            white space above U+007F is read as U+000B. ``high_kinds`` and ``low_kinds``: a
            character outside ASCII is known by its kind alone (letter, number, mark, punctuation,
            symbol, white space, rest), a byte that ranges and negations see too: 0xD0 and up with
            white space 0x0B, or 1 to 7; of ``\p{Lu}`` only the first letter counts.
        shorthands: Whether ``\s \d \w \b`` and POSIX classes mean Unicode's sets or ASCII's.
        word: Unicode's ``\w``: ``plain``: letters, marks, decimal digits, connectors;
            ``fractions``: outside brackets U+00B2 U+00B3 U+00B9 U+00BC-00BE too; ``joiners``:
            U+200C and U+200D too.
        anchors: Whether ``^`` and ``$`` match at every line or only at the ends of the text.
        case_folding: Whether ``(?i)`` knows foldings to several characters, as of U+00DF to ``ss``.
        counted: What ``+`` and ``?`` behind ``{2,3}`` do: ``repeated``: quantify it once more;
            ``modified``: make it possessive or lazy.
        empty: Whether matches of length zero count.
        unicode: Version of the Unicode data that decides categories: "15.0", "15.1", "16.0".
    """

    pattern: str
    alphabet: Literal["characters", "blank_spaces", "high_kinds", "low_kinds"] = "characters"
    shorthands: Literal["unicode", "ascii"] = "unicode"
    word: Literal["plain", "fractions", "joiners"] = "fractions"
    anchors: Literal["line", "text"] = "line"
    case_folding: Literal["full", "simple"] = "full"
    counted: Literal["repeated", "modified"] = "repeated"
    empty: Literal["kept", "ignored"] = "kept"
    unicode: str = "16.0"


if TYPE_CHECKING:
    Pattern = Union[Text, Regex]
