"""The vocabulary: what each id stands for, and the tokens that are matched before the model.

A piece is the byte string that the model looks up, that is the text after normalizer and
pre-tokenizer: UTF-8 in general, in the byte alphabet (a space is U+0120) for byte-level models,
with U+2581 where a normalizer marks spaces so. Formats that spell pieces otherwise (raw bytes,
escapes, blanks for U+2581) translate in their reader and writer.
"""

from __future__ import annotations

from enum import IntEnum

from mtkit.base.packed import Numbers, Pieces, places_of_byte, whole
from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Literal


BYTE_TOKENS = tuple(b"<0x%02X>" % byte for byte in range(256))
"""Byte -> the token that spells it where a model falls back to bytes."""
HOLES_LIMIT = 1 << 17
"""Ids that no token has; a file with more of them than tokens has a forged id."""


def is_sparse(size: int, count: int) -> bool:
    """Tell whether ids below ``size`` are too many for ``count`` tokens: damage, not a table."""
    return size - count > max(HOLES_LIMIT, count)


class TokenType(IntEnum):
    """Role of an id; names and numbers are SentencePiece's and GGUF's."""

    UNDEFINED = 0
    NORMAL = 1
    UNKNOWN = 2
    CONTROL = 3
    USER_DEFINED = 4
    UNUSED = 5
    BYTE = 6
    ABSENT = 255
    """No token has this id: a hole in the numbering."""


SEGMENTED = frozenset({TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED})
"""Roles of the pieces that a text is taken apart into."""


def present_types(marks: bytes) -> bytes:
    """Return the types of ids that have a token (1), which is NORMAL, or none (0)."""
    table = bytes((TokenType.ABSENT, TokenType.NORMAL)).ljust(256, b"\0")
    return marks.translate(table)


class Spelling(Record):
    """Another piece that the model looks up and finds the id of."""

    piece: bytes
    id: int


class Vocabulary(Record):
    """The model's vocabulary, by id.

    Attributes:
        pieces: Id -> bytes that the model looks up; shape (size,); empty at an ABSENT id.
        types: Id -> TokenType, struct letter B; shape (size,). None: all NORMAL.
        scores: Id -> score, higher first; shape (size,); struct letter f, or d where the file has
            64-bit scores that float32 does not hold. None: the model has none.
        hidden: Ids, ascending, that the model never gives: they only decode (entries that the
            lookup of a reference cannot reach).
        also: Further pieces of ids that have one; decoding never gives them.
    """

    pieces: Pieces
    types: Numbers | None = None
    scores: Numbers | None = None
    hidden: tuple[int, ...] = ()
    also: tuple[Spelling, ...] = ()

    def type_of(self, token_id: int) -> TokenType:
        """Return the role of an id; a number that names no role is UNDEFINED."""
        if self.types is None:
            return TokenType.NORMAL
        try:
            return TokenType(self.types[token_id])
        except ValueError:
            return TokenType.UNDEFINED

    def all_types(self) -> bytes:
        """Return the role of each id as a number; all are NORMAL where no roles are given."""
        if self.types is None:
            return bytes((TokenType.NORMAL,)) * len(self)
        return whole(self.types.data)

    def of_type(self, role: int, *others: int) -> list[int]:
        """Return the ids with one of some roles, ascending."""
        if self.types is None:
            return list(range(len(self))) if TokenType.NORMAL in (role, *others) else []
        types = whole(self.types.data)
        if not others:
            return places_of_byte(types, role)
        table = bytearray(256)
        for each in (role, *others):
            table[each] = 1
        return places_of_byte(types.translate(table), 1)

    def below(self, size: int) -> Vocabulary:
        """Return the first ids alone."""
        types, scores = self.types, self.scores
        return Vocabulary(
            Pieces.of(self.pieces[:size]),
            types and Numbers.of(types.code, types[:size]),
            scores and Numbers.of(scores.code, scores[:size]),
            tuple(number for number in self.hidden if number < size),
            tuple(other for other in self.also if other.id < size),
        )

    @property
    def ids(self) -> dict[bytes, int]:
        """Piece -> id as the model looks it up; of equal pieces the lowest id counts."""
        ids = self._ids_in_order(reversed(range(len(self)))) if self.hidden else self.pieces.ids
        return {**ids, **{other.piece: other.id for other in self.also}} if self.also else ids

    def find(self, piece: bytes) -> int | None:
        """Return what ``ids`` has for one piece, or None; asks for no index of all."""
        return self.ids.get(piece) if self.hidden or self.also else self.pieces.find(piece)

    @property
    def last_ids(self) -> dict[bytes, int]:
        """Piece -> id as a model looks it up that is given a vocabulary piece by piece."""
        return self._ids_in_order(range(len(self)))

    def _ids_in_order(self, order: Iterable[int]) -> dict[bytes, int]:
        hidden, pieces = frozenset(self.hidden), list(self.pieces)
        return {pieces[number]: number for number in order if number not in hidden}

    def __len__(self) -> int:
        return len(self.pieces)


class AddedToken(Record):
    """A token that is found in the text before the model sees it.

    Attributes:
        id: Its id, inside or outside the vocabulary.
        content: The bytes looked for (and, for most decoders, given back); nothing is never found.
        single_word: Only where no word character stands before or after.
        lstrip: White space in front belongs to the token.
        rstrip: White space behind belongs to the token.
        normalized: Looked for in the normalized text, after the others.
        special: A control token: decoding can skip it, and it is only looked for in the text when
            special tokens are parsed.
    """

    id: int
    content: bytes
    single_word: bool = False
    lstrip: bool = False
    rstrip: bool = False
    normalized: bool = False
    special: bool = False


class AddedTokens(Record):
    """All added tokens and how they are found.

    Attributes:
        tokens: In the order that decides ties.
        match: ``leftmost_longest``: one pass, at each place the longest. ``longest_first``: each
            token, longest in bytes first (order of ``tokens`` among equals), is cut out of the
            whole text before the next. ``first_listed``: one pass, at each place the first in
            ``tokens``.
        strip: What lstrip and rstrip take for white space: Unicode's or C's six in ASCII.
        parse_special: Whether special ones are found when the caller does not say.
        first: Others that are looked for before these; these are looked for in what lies between.
    """

    tokens: tuple[AddedToken, ...] = ()
    match: Literal["leftmost_longest", "longest_first", "first_listed"] = "leftmost_longest"
    strip: Literal["unicode", "ascii"] = "unicode"
    parse_special: bool = True
    first: AddedTokens | None = None


class SpecialIds(Record):
    """Ids with a role; None where there is none.

    Attributes:
        stop: Every id that ends a generation, ascending.
    """

    bos: int | None = None
    eos: int | None = None
    unk: int | None = None
    sep: int | None = None
    pad: int | None = None
    cls: int | None = None
    mask: int | None = None
    eot: int | None = None
    eom: int | None = None
    fim_pre: int | None = None
    fim_suf: int | None = None
    fim_mid: int | None = None
    fim_pad: int | None = None
    fim_rep: int | None = None
    fim_sep: int | None = None
    stop: tuple[int, ...] = ()
