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
        shorthands: Whether ``\s \d \w \b`` and POSIX classes mean Unicode's sets or ASCII's.
        properties: ``exact``: ``\p{Lu}`` and the like are Unicode general categories, scripts and
            properties. ``coarse``: only the first letter of a category counts (``\p{Lu}`` is
            ``\p{L}``), and code points outside ASCII are known by that letter alone.
        anchors: Whether ``^`` and ``$`` match at every line or only at the ends of the text.
        unicode: Version of the Unicode data that decides categories, for example "16.0".
    """

    pattern: str
    shorthands: Literal["unicode", "ascii"] = "unicode"
    properties: Literal["exact", "coarse"] = "exact"
    anchors: Literal["line", "text"] = "line"
    unicode: str = ""


if TYPE_CHECKING:
    Pattern = Union[Text, Regex]
