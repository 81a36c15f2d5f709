"""Decoders: tokens back to text. ``Decoder`` is the closed union."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.spec.text import MARK

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal, Union

    from mtkit.spec.normalizers import Spaces
    from mtkit.spec.text import Pattern


class ByteLevel(Record):
    """Letters of the byte alphabet back to bytes."""


class Metaspace(Record):
    """``replacement`` back to a space, dropped at the start as ``prepend_scheme`` says."""

    replacement: str = MARK
    prepend_scheme: Literal["always", "first", "never"] = "always"
    split: bool = True


class WordPiece(Record):
    """Join with spaces, gluing pieces that begin with ``prefix``."""

    prefix: str = "##"
    cleanup: bool = True


class ByteFallback(Record):
    """Runs of ``<0xHH>`` tokens to the characters they spell, U+FFFD for each byte otherwise."""


class Fuse(Record):
    """Join all tokens into one."""


class Replace(Record):
    """Replace every match in each token."""

    pattern: Pattern
    content: str


class Strip(Record):
    """Remove a character up to ``start`` times in front of and ``stop`` times behind each token."""

    content: str
    start: int = 0
    stop: int = 0


class BPE(Record):
    """``suffix`` to a space, dropped on the last token."""

    suffix: str = "</w>"


class CTC(Record):
    """Collapse repeats, drop ``pad_token``, ``word_delimiter_token`` to a space."""

    pad_token: str = "<pad>"
    word_delimiter_token: str = "|"
    cleanup: bool = True


class Bytewise(Record):
    """Steps over vocabulary pieces as plain bytes, joined; added tokens have no text of their own.

    Ids of special tokens are dropped from a sequence, never from single tokens. Here ByteLevel maps
    letter by letter and leaves others as they are; ByteFallback turns each ``<0xHH>`` token into
    its byte; Metaspace drops one space at the start of the first token; Strip removes its content
    once at the start of the first and once at the end of the last token; WordPiece drops the prefix
    or puts a space in front (of the first token: nothing), and takes the space before ``. ? ! ,``
    out of the joined text whatever its ``cleanup`` says.

    A single token has U+2581 as a space and ``<0xHH>`` as its byte anywhere in it; then, as far as
    the steps have them, the WordPiece prefix is dropped or a space put in front, and letters of the
    byte alphabet are mapped back.

    Attributes:
        steps: Any of the components named above, FirstMark, Replace (of a literal text) and Fuse.
        unknown: What an id without a piece stands for.
        single: Whether a single token goes its ``own`` way or is a sequence of one: ``steps``.
    """

    steps: tuple[Decoder, ...]
    unknown: bytes = b""
    single: Literal["own", "steps"] = "own"


class FirstMark(Record):
    """The first U+2581 of each token as a space."""


class Pieces(Record):
    """Each token to bytes by its role, joined with nothing between.

    An added token gives its content, a BYTE token its byte, a NORMAL token its piece as
    ``spelling`` says; any other gives nothing. Special added tokens can be hidden.

    Attributes:
        spelling: How NORMAL pieces are written. ``marks``: U+2581 is a space. ``byte_alphabet``:
            one letter a byte; a piece with another letter gives ``[UNK_BYTE_0x``, that letter's
            bytes in hex, the piece and ``]``. ``words``: a piece is a word with a space in front,
            or the rest of one after ``##``; in square brackets it stands alone. ``plain``: every
            token but BYTE ones is its piece. ``bytes``: every token is.
        drop_first_space: The first token loses one leading space, even when it is hidden.
    """

    spelling: Literal["marks", "byte_alphabet", "words", "plain", "bytes"] = "marks"
    drop_first_space: bool = False


class Subwords(Record):
    """Pieces of a trained subword model joined, U+2581 as a space.

    Control pieces give nothing, runs of BYTE pieces the characters they spell and U+FFFD for each
    byte that spells none. What a piece is decides its spelling, control and byte pieces first.

    Attributes:
        unk_surface: What the unknown token gives.
        drop_marks: Which pieces lose one U+2581 in front: ``none``; the ``first`` one that has it,
            as long as nothing has been written; ``all`` as long as nothing has been written.
        denormalizer: Applied to the joined text.
    """

    unk_surface: bytes = b" \xe2\x81\x87 "
    drop_marks: Literal["none", "first", "all"] = "first"
    denormalizer: Spaces | None = None


class AfterBos(Record):
    """Pieces as they are, ``<0xHH>`` as its byte; one that follows BOS loses a leading space.

    BOS at the start gives nothing.
    """


class Sequence(Record):
    """One after the other."""

    steps: tuple[Decoder, ...]


if TYPE_CHECKING:
    Decoder = Union[
        ByteLevel,
        Metaspace,
        WordPiece,
        ByteFallback,
        Fuse,
        Replace,
        Strip,
        BPE,
        CTC,
        Bytewise,
        FirstMark,
        Pieces,
        Subwords,
        AfterBos,
        Sequence,
    ]
