"""Normalizers: text to text, before it is split. ``Normalizer`` is the closed union."""

from __future__ import annotations

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Union

    from mtkit.base.packed import Numbers, Pieces
    from mtkit.spec.text import Pattern


class UnicodeForm(Record):
    """A Unicode normal form, with canonical ordering and composition across characters."""

    form: Literal["NFC", "NFD", "NFKC", "NFKD"]


class Bert(Record):
    """BERT's clean-up: controls dropped, white space made blank, Han set apart, accents, case.

    Attributes:
        strip_accents: None: as ``lowercase``.
        per_character: Each character on its own: an accented one becomes the first of its
            canonical decomposition and every mark goes, case is the simple mapping, unassigned
            code points stay.
    """

    clean_text: bool = True
    handle_chinese_chars: bool = True
    strip_accents: bool | None = None
    lowercase: bool = True
    per_character: bool = False

    @property
    def strips_accents(self) -> bool:
        """Whether accents go, where nothing is said, too."""
        return self.lowercase if self.strip_accents is None else self.strip_accents


class Lowercase(Record):
    """Lower-casing.

    Attributes:
        mapping: ``full``: one character can become several. ``simple``: one stays one, by Unicode
            15.1.
    """

    mapping: Literal["full", "simple"] = "full"


class Strip(Record):
    """Remove white space from the ends.

    Attributes:
        white_space: What counts as such: Unicode's property, or ``spaces``: ASCII's six and the
            space separators (Zs).
    """

    left: bool = True
    right: bool = True
    white_space: Literal["unicode", "spaces"] = "unicode"


class StripAccents(Record):
    """Remove nonspacing marks; decomposing is the business of a form before it."""


class Prepend(Record):
    """Put a text in front of a text.

    Attributes:
        empty: Also of one that the steps before have emptied.
    """

    text: str
    empty: bool = False


class Replace(Record):
    """Replace every match."""

    pattern: Pattern
    content: str


class Precompiled(Record):
    """SentencePiece's character map applied grapheme by grapheme, as tokenizer.json does.

    Attributes:
        charsmap: The map as the file has it (double-array trie and replacements).
    """

    charsmap: bytes


class Nmt(Record):
    """The clean-up of neural machine translation: controls dropped, exotic spaces made blank."""


class ByteLevel(Record):
    """Map each byte of the UTF-8 form to its letter in the byte alphabet."""


class Spaces(Record):
    """Character map and white-space rules of trained subword models, as one pass over the text.

    Attributes:
        charsmap: The precompiled map; empty for none.
        add_dummy_prefix: Put a space in front (behind with ``suffix``).
        remove_extra_whitespaces: Drop leading, trailing and repeated spaces.
        escape_whitespaces: Write U+2581 for a space.
        suffix: The mark of a word stands behind it.
        keep: Which texts escape the map: ``pieces``: the longest user-defined piece.
            ``paths``: the longest common prefix with any user-defined piece.
        prefix: Where the dummy prefix stands: in front of the ``text``, or of its first ``word``,
            behind the spaces before it. With ``word`` only blanks are white space to be dropped,
            U+2581 in the text is not, and removing them gives each word its mark, the first one
            too.
    """

    charsmap: bytes = b""
    add_dummy_prefix: bool = True
    remove_extra_whitespaces: bool = True
    escape_whitespaces: bool = True
    suffix: bool = False
    keep: Literal["pieces", "paths"] = "pieces"
    prefix: Literal["text", "word"] = "text"


class CodePointTable(Record):
    """Replace single code points by a table; nothing is composed or reordered.

    Attributes:
        code_points: Ascending, struct letter I.
        values: The UTF-8 replacement of each.
        blank_controls: Controls, zero-width and format characters become a blank first.
    """

    code_points: Numbers
    values: Pieces
    blank_controls: bool = True


class BertTable(Record):
    """BERT's clean-up code point by code point, with a decomposition table of its own.

    Tab, LF, CR and space separators become blanks; NUL, U+FFFD and controls (Cc) are dropped; Han
    is set apart; a code point in the table becomes its value; marks (Mn, Mc, Me) are dropped;
    each code point becomes its one-to-one lower case.

    Attributes:
        strip_accents: Decompose by the table and drop marks.
        code_points: Ascending, struct letter I.
        values: The UTF-8 replacement of each.
        unicode: Version of the Unicode data that decides categories.
    """

    clean_text: bool
    handle_chinese_chars: bool
    strip_accents: bool
    lowercase: bool
    code_points: Numbers
    values: Pieces
    unicode: str = ""


class Sequence(Record):
    """One after the other."""

    steps: tuple[Normalizer, ...]


if TYPE_CHECKING:
    Normalizer = Union[
        UnicodeForm,
        Bert,
        Lowercase,
        Strip,
        StripAccents,
        Prepend,
        Replace,
        Precompiled,
        Nmt,
        ByteLevel,
        Spaces,
        CodePointTable,
        BertTable,
        Sequence,
    ]
