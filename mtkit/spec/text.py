"""What a component looks for in a text: a literal string or a regular expression."""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Union

MARK = "\u2581"
"""What stands for a space in the pieces of subword models."""
MARK_BYTES = MARK.encode()


class Text(Record):
    """A literal string."""

    text: str


class Regex(Record):
    r"""A regular expression, with the rules of the engine that it was written for.

    Attributes:
        pattern: The expression as its file has it.
        alphabet: What the expression is run on: the text's ``characters``, or ``kinds``: those
            outside ASCII are known by their kind alone, as a byte that ranges and negations see
            too: 1 letter, 2 number, 3 space, 5 mark, 6 punctuation, 7 symbol, 4 rest. Then of
            ``\p{Lu}`` only the first letter counts.
        shorthands: Whether ``\s \d \w \b`` and POSIX classes mean Unicode's sets or ASCII's.
        word: What Unicode's ``\w`` has besides letters, marks, decimal digits and connectors:
            ``fractions``: U+00B2 U+00B3 U+00B9 U+00BC-00BE, outside brackets; ``joiners``: U+200C
            and U+200D.
        anchors: Whether ``^`` and ``$`` match at every line or only at the ends of the text.
        case_folding: Whether ``(?i)`` knows foldings to several characters, as of U+00DF to ``ss``.
        counted: What ``+`` and ``?`` behind ``{2,3}`` do: ``repeated``: quantify it once more;
            ``modified``: make it possessive or lazy.
        empty: Whether matches of length zero count.
        unicode: Version of the Unicode data that decides categories: "15.0", "15.1", "16.0".
    """

    pattern: str
    alphabet: Literal["characters", "kinds"] = "characters"
    shorthands: Literal["unicode", "ascii"] = "unicode"
    word: Literal["fractions", "joiners"] = "fractions"
    anchors: Literal["line", "text"] = "line"
    case_folding: Literal["full", "simple"] = "full"
    counted: Literal["repeated", "modified"] = "repeated"
    empty: Literal["kept", "ignored"] = "kept"
    unicode: str = "16.0"


if TYPE_CHECKING:
    Pattern = Union[Text, Regex]
