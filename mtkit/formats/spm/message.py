"""Protocol-buffer messages without a schema, and the pieces of a SentencePiece model in them.

A field is a varint tag (number * 8 + wire type) and a value: varint (0), 8 bytes (1), varint length
and bytes (2), 4 bytes (5). Groups (3, 4) are refused. Fields keep their bytes, so that unknown ones
are written back as they were; repeated fields keep their order.

A piece of a SentencePiece model: piece (1), score (2, float32), type (3). Trainers always write the
score, and the type only when it is not NORMAL. Where a file does otherwise, the extras say so, so
that it can be written as it was.

Source: google/sentencepiece, sentencepiece_model.proto; model_interface.cc (``InitializePieces``:
what a loader refuses).
"""

from __future__ import annotations

import struct
from math import isfinite

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.spec import TokenType, Vocabulary
from mtkit.spec.vocabulary import BYTE_TOKENS, SEGMENTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mtkit.base.binary import Buffer


VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Field:
    """One field of a message.

    Attributes:
        number_value: The value of a varint, else 0.
        data: The bytes of any other value.
    """

    __slots__ = ("data", "number", "number_value", "offset", "raw", "wire")

    def __init__(
        self, number: int, wire: int, number_value: int, data: bytes, raw: bytes, offset: int
    ) -> None:
        self.number = number
        self.wire = wire
        self.number_value = number_value
        self.data = data
        self.raw = raw
        self.offset = offset


def parse_fields(data: bytes, name: str, base: int = 0) -> Iterator[Field]:
    """Yield the fields of a message."""
    size = len(data)
    at = 0
    while at < size:
        start = at
        tag, at = parse_varint(data, at, name, base)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise damage_error(f"holds a field with number {number}", name, base + start)
        value = 0
        begin = at
        if wire == VARINT:
            value, at = parse_varint(data, at, name, base)
            end = begin
        elif wire == BYTES:
            length, begin = parse_varint(data, at, name, base)
            end = at = begin + length
        elif wire in {FIXED32, FIXED64}:
            end = at = begin + (4 if wire == FIXED32 else 8)
        else:
            raise damage_error(f"holds a field of wire type {wire}", name, base + start)
        if at > size:
            raise damage_error(
                f"field {number} needs {end - begin} bytes, but only {size - begin} are left",
                name,
                base + start,
                "the file is probably truncated",
            )
        yield Field(number, wire, value, data[begin:end], data[start:at], base + begin)


def parse_varint(data: bytes, at: int, name: str, base: int) -> tuple[int, int]:
    """Return an unsigned 64-bit number and the place behind it."""
    value = shift = 0
    start = at
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift >= 70:
            raise damage_error("holds a number of more than ten bytes", name, base + start)
    raise damage_error("ends inside a number", name, base + start, "the file is probably truncated")


def damage_error(what: str, name: str, offset: int, hint: str = "") -> FormatError:
    """Return the error for a message that does not follow the format."""
    return FormatError(what, field=name, offset=offset, hint=hint)


def encode_varint(value: int) -> bytes:
    """Return an unsigned number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def encode_field(number: int, value: int | bytes) -> bytes:
    """Return a varint or bytes field."""
    if isinstance(value, int):
        return encode_varint(number << 3) + encode_varint(value & 0xFFFFFFFFFFFFFFFF)
    return encode_varint(number << 3 | BYTES) + encode_varint(len(value)) + value


class SettingsMessage:
    """A small message whose fields can be read and replaced; all others stay as they are."""

    def __init__(self, data: bytes, name: str, base: int = 0) -> None:
        """Read a message."""
        self.fields = [(f.number, f.wire, f) for f in parse_fields(data, name, base)]
        self.raw = [(f.number, f.raw) for _, _, f in self.fields]

    def number(self, number: int, default: int) -> int:
        """Return a varint; of several the last counts."""
        values = [f.number_value for n, wire, f in self.fields if n == number and wire == VARINT]
        return values[-1] if values else default

    def truth(self, number: int, default: bool) -> bool:
        """Return a truth value."""
        return bool(self.number(number, int(default)))

    def data(self, number: int, default: bytes = b"") -> bytes:
        """Return bytes; of several the last counts."""
        values = [f.data for n, wire, f in self.fields if n == number and wire == BYTES]
        return values[-1] if values else default

    def set(self, number: int, value: int | bytes) -> None:
        """Replace all values of a number by one; fields stay in the order of numbers."""
        places = [at for at, (n, _) in enumerate(self.raw) if n == number]
        new = number, encode_field(number, value)
        if places:
            self.raw = [f for f in self.raw if f[0] != number]
            self.raw.insert(places[0], new)
        else:
            self.raw.insert(sum(n < number for n, _ in self.raw), new)
        (parsed,) = parse_fields(new[1], "")
        self.fields = [f for f in self.fields if f[0] != number]
        self.fields.append((number, parsed.wire, parsed))

    def remove(self, number: int) -> None:
        """Take all fields of a number out."""
        self.raw = [f for f in self.raw if f[0] != number]
        self.fields = [f for f in self.fields if f[0] != number]

    def message(self) -> bytes:
        """Return the message."""
        return join_fields(raw for _, raw in self.raw)


def join_fields(parts: Iterable[bytes]) -> bytes:
    """Return fields one after the other, which is a message."""
    return b"".join(parts)


F32 = struct.Struct("<f")
LONGEST_PIECE = 7999
"""In bytes; sentencepiece 0.2.3 refuses longer ones (measured)."""
UNIGRAM_TYPE, BPE_TYPE, WORD_TYPE, CHAR_TYPE = 1, 2, 3, 4
"""model_type in trainer_spec."""


class Column:
    """Ids that share an oddity, as (first, behind the last) ranges."""

    def __init__(self, ranges: Iterable[Iterable[int]] = ()) -> None:
        self.ranges: list[list[int]] = [list(r) for r in ranges]

    def add(self, token_id: int) -> None:
        """Add an id that is higher than all before."""
        if self.ranges and self.ranges[-1][1] == token_id:
            self.ranges[-1][1] += 1
        else:
            self.ranges.append([token_id, token_id + 1])

    def ids(self) -> set[int]:
        """Return all ids."""
        return {token_id for first, end in self.ranges for token_id in range(first, end)}

    def value(self) -> list[list[int]]:
        """Return the ranges as JSON has them."""
        return self.ranges


def read_pieces(messages: Iterable[Field]) -> tuple[Vocabulary, dict[str, object]]:
    """Return the vocabulary and what else the pieces hold, as JSON values."""
    pieces: list[bytes] = []
    types = bytearray()
    scores: list[float] = []
    no_score, plain_type = Column(), Column()
    unknown: list[list[object]] = []
    for token_id, message in enumerate(messages):
        piece, score, kind = b"", None, None
        rest = b""
        for part in parse_fields(message.data, f"pieces[{token_id}]", message.offset):
            if part.number == 1 and part.wire == BYTES:
                piece = part.data
            elif part.number == 2 and part.wire == FIXED32:
                score = F32.unpack(part.data)[0]
            elif part.number == 3 and part.wire == VARINT and 1 <= part.number_value <= 6:
                kind = part.number_value
            else:
                rest += part.raw
        if not piece:
            raise damage_error("is empty", f"pieces[{token_id}].piece", message.offset)
        pieces.append(piece)
        types.append(TokenType.NORMAL if kind is None else kind)
        scores.append(0.0 if score is None else score)
        if score is None:
            no_score.add(token_id)
        if kind == TokenType.NORMAL:
            plain_type.add(token_id)
        if rest:
            unknown.append([token_id, rest.hex()])
    odd: dict[str, Any] = {
        "no_score": no_score.value(),
        "plain_type": plain_type.value(),
        "piece_fields": unknown,
    }
    vocabulary = Vocabulary(Pieces.of(pieces), Numbers("B", bytes(types)), Numbers.of("f", scores))
    return vocabulary, {name: value for name, value in odd.items() if value}


def read_native_pieces(data: Buffer) -> tuple[Vocabulary, dict[str, object], bytes] | None:
    """Read the pieces of an ordinary model, and its other fields, by the native core.

    None: ``read_pieces`` has to read it, or to say what is wrong with it.
    """
    try:
        from mtkit.base.native import native
    except ImportError:
        return None
    columns = native.read_spm_pieces(data)
    if columns is None:
        return None
    blob, ends, types, scores, marks, rest = columns
    pieces = Pieces(blob, Numbers("I", ends))
    if not pieces.are_distinct():
        return None
    vocabulary = Vocabulary(pieces, Numbers("B", types), Numbers("f", scores))
    odd = {"no_score": _runs(marks, b"\1"), "plain_type": _runs(marks, b"\2")}
    return vocabulary, {name: runs for name, runs in odd.items() if runs}, rest


def _runs(marks: bytes, mark: bytes) -> list[list[int]]:
    """Return begin and end of runs of ids that have a mark, alone or with the other one (3)."""
    if mark not in marks and b"\3" not in marks:
        return []
    import re

    return [list(run.span()) for run in re.finditer(b"[" + mark + b"\3]+", marks)]


def write_pieces(vocabulary: Vocabulary, odd: dict[str, Any]) -> Iterator[bytes]:
    """Yield the pieces as fields of the model message."""
    no_score, plain_type = (
        Column(odd.get("no_score", ())).ids(),
        Column(odd.get("plain_type", ())).ids(),
    )
    rows: list[tuple[int, str]] = odd.get("piece_fields", [])
    unknown = {token_id: bytes.fromhex(data) for token_id, data in rows}
    scores = vocabulary.scores or Numbers("f", bytes(4 * len(vocabulary)))
    for token_id, (piece, score, kind) in enumerate(
        zip(vocabulary.pieces, scores, vocabulary.all_types(), strict=True)
    ):
        message = b"\x0a" + encode_varint(len(piece)) + piece
        if token_id not in no_score or score:
            message += b"\x15" + F32.pack(score)
        if kind != TokenType.NORMAL or token_id in plain_type:
            message += bytes((0x18, kind))
        yield encode_field(1, message + unknown.get(token_id, b""))


def check_native_pieces(vocabulary: Vocabulary, *, byte_fallback: bool, kind_of_model: int) -> int:
    """As ``check_pieces``, for pieces whose texts and scores the core has checked."""
    types = vocabulary.all_types()
    byte_ids = vocabulary.pieces.places(BYTE_TOKENS) if byte_fallback else []
    plain = (
        types.count(TokenType.UNKNOWN) == 1
        and types.count(TokenType.BYTE) == len(byte_ids) == 256 * byte_fallback
        and {TokenType.BYTE}.issuperset(map(types.__getitem__, byte_ids))
        and any(kind in types for kind in SEGMENTED)
    )
    if plain:
        return types.index(TokenType.UNKNOWN)
    return check_pieces(vocabulary, byte_fallback=byte_fallback, kind_of_model=kind_of_model)


def check_pieces(vocabulary: Vocabulary, *, byte_fallback: bool, kind_of_model: int) -> int:
    """Check what the reference checks when it loads a model; return the id of the unknown piece."""
    seen: dict[bool, dict[bytes, int]] = {True: {}, False: {}}
    unknown: int | None = None
    byte_pieces: set[bytes] = set()
    for token_id, (piece, kind, score) in enumerate(
        zip(vocabulary.pieces, vocabulary.types or (), vocabulary.scores or (), strict=True)
    ):
        wrong = ""
        segmented = kind in SEGMENTED
        # Pairs that merge are looked up in one table, other models have two.
        first = seen[segmented or kind_of_model == BPE_TYPE].setdefault(piece, token_id)
        if first != token_id:
            wrong = f"is the same as pieces[{first}]"
        elif len(piece) > LONGEST_PIECE:
            wrong = f"is {len(piece)} bytes long, but the limit is {LONGEST_PIECE}"
        elif b"\0" in piece:
            wrong = "contains a NUL"
        elif kind_of_model == UNIGRAM_TYPE and not isfinite(score):
            wrong = f"has the score {score}"
        elif kind == TokenType.UNKNOWN and unknown is not None:
            wrong = f"is UNKNOWN, as pieces[{unknown}] is"
        elif kind == TokenType.BYTE and piece not in BYTE_TOKENS:
            wrong = f"is a BYTE piece spelled {piece!r}"
        elif kind == TokenType.BYTE and not byte_fallback:
            wrong = "is a BYTE piece in a model without byte_fallback"
        if wrong:
            raise FormatError(wrong, field=f"pieces[{token_id}]")
        if kind == TokenType.UNKNOWN:
            unknown = token_id
        elif kind == TokenType.BYTE:
            byte_pieces.add(piece)
    if unknown is None:
        raise FormatError("none is UNKNOWN", field="pieces", hint="the file is probably truncated")
    if byte_fallback and len(byte_pieces) < 256:
        raise FormatError(f"has {len(byte_pieces)} BYTE pieces of 256", field="pieces")
    if kind_of_model == UNIGRAM_TYPE and not seen[True]:
        raise FormatError("none can be made by segmentation", field="pieces")
    return unknown
