"""The layout of components and models in a .mtok base, for the reader and the writer.

A component is u8 type and the fields of that type, a list u8 type, u32 count and that many
components. A model is u8 type, fields, the vocabulary, and for BPE the merges. Strings are u16
length and bytes.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``create_normalizer`` and its sisters,
``BPEModel::load`` and its sisters), by its behavior.
"""

from __future__ import annotations

import struct

from mtkit.base.binary import Reader
from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any

STRING_LIMIT = 65535
NO_PREFIX = "\x00\x00"
"""A prefix that no piece has. In a model, only whole words are found; in a decoder, all pieces are
joined with spaces."""
LAST_CODE_POINT = 0x10FFFF


def read_string(reader: Reader, field: str) -> bytes:
    """Read u16 length and bytes."""
    return reader.take(reader.u16(f"{field} length"), field)


def _read_text(reader: Reader, field: str) -> str:
    """Read a string as text; bytes that are not valid UTF-8 are kept as escapes."""
    return read_string(reader, field).decode("utf-8", "surrogateescape")


def read_table(reader: Reader, field: str = "table") -> tuple[Numbers, Pieces]:
    """Read u32 count and (u32 code point, string) in ascending order."""
    at = reader.offset
    count = reader.count(reader.u32(f"{field} size"), 6, f"{field} size", at)
    code_points, values = [], []
    for _ in range(count):
        at = reader.offset
        code_points.append(reader.u32(f"{field} code point"))
        if len(code_points) > 1 and code_points[-1] <= code_points[-2]:
            raise FormatError("is not ascending", field=f"{field} code point", offset=at)
        if code_points[-1] > LAST_CODE_POINT:
            what = f"is 0x{code_points[-1]:x}, no character"
            raise FormatError(what, field=f"{field} code point", offset=at)
        values.append(read_string(reader, f"{field} value"))
    return Numbers.of("I", code_points), Pieces.of(values)


def u8(*values: int) -> bytes:
    """Write bytes."""
    return bytes(values)


def u32(*values: int) -> bytes:
    """Write u32 numbers."""
    try:
        return struct.pack(f"<{len(values)}I", *values)
    except struct.error:
        raise UnsupportedError("a number does not fit the 32 bits of the format") from None


def string(text: str | bytes) -> bytes:
    """Write u16 length and bytes."""
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if len(data) > STRING_LIMIT:
        raise UnsupportedError(f"a text has {len(data)} bytes, but the format holds {STRING_LIMIT}")
    return len(data).to_bytes(2, "little") + data


def table(entries: Iterable[tuple[int, bytes]]) -> bytes:
    """Write (code point, value) in ascending order."""
    parts = [u32(code) + string(value) for code, value in entries]
    return u32(len(parts)) + b"".join(parts)


class Field(Record):
    """A field; the name is for messages."""

    name: str
    read: Callable[[Reader, str], Any]
    write: Callable[[Any], bytes]


class Layout(Record):
    """The fields behind a type."""

    type: int
    fields: tuple[Field, ...] = ()

    def write(self, *values: object) -> bytes:
        """Return the type and its fields."""
        parts = (field.write(value) for field, value in zip(self.fields, values, strict=True))
        return u8(self.type) + b"".join(parts)

    def read(self, reader: Reader) -> list[Any]:
        """Read the fields."""
        return [field.read(reader, field.name) for field in self.fields]


def _flag(name: str) -> Field:
    return Field(name, lambda reader, field: reader.u8(field) != 0, u8)


def _number(name: str) -> Field:
    return Field(name, Reader.u32, u32)


def _text(name: str) -> Field:
    return Field(name, _read_text, string)


def _bytes(name: str) -> Field:
    return Field(name, read_string, string)


def _by_type(*layouts: Layout) -> Mapping[int, Layout]:
    return {layout.type: layout for layout in layouts}


def write_list(layout: Layout, parts: list[bytes]) -> bytes:
    """Write a list of components; one alone stands for itself, none is type 0."""
    if len(parts) == 1:
        return parts[0]
    return layout.write() + u32(len(parts)) + b"".join(parts) if parts else u8(0)


_BERT_FLAGS = (_flag("normalizer flags"),) * 4
"""Clean up, set Han characters apart, strip accents, lowercase."""
NORMALIZERS = _by_type(
    PREPEND := Layout(2, (_text("normalizer.prepend"),)),
    REPLACE := Layout(3, (_text("normalizer.pattern"), _text("normalizer.content"))),
    NORMALIZER_LIST := Layout(4),
    BERT := Layout(5, _BERT_FLAGS),
    TABLE := Layout(6, (Field("table", read_table, table),)),
    BERT_TABLE := Layout(7, _BERT_FLAGS),  # and a table, where accents are stripped
    STRIP := Layout(8, (_flag("normalizer.left"), _flag("normalizer.right"))),
)
PRE_TOKENIZERS = _by_type(
    BYTE_LEVEL := Layout(1, (_flag("pre_tokenizer.use_regex"),)),
    DIGITS := Layout(2, (_flag("pre_tokenizer.individual"),)),
    METASPACE := Layout(
        3, (_text("pre_tokenizer.replacement"), _flag("pre_tokenizer.add_prefix_space"))
    ),
    SPLIT := Layout(
        4,
        (
            _text("pre_tokenizer.pattern"),
            _flag("pre_tokenizer.invert"),
            Field("pre_tokenizer.behavior", Reader.u8, u8),
        ),
    ),
    BERT_WORDS := Layout(5),
    PRE_TOKENIZER_LIST := Layout(6),
)
ISOLATED, REMOVED, GLUED_TO_PREVIOUS = range(3)
"""Behaviors of SPLIT; any other number is REMOVED."""
DECODERS = _by_type(
    DECODE_BYTE_LEVEL := Layout(0),
    DECODE_BYTE_FALLBACK := Layout(1),
    DECODE_METASPACE := Layout(
        2, (_text("decoder.replacement"), _flag("decoder.add_prefix_space"))
    ),
    DECODE_WORD_PIECE := Layout(3, (_text("decoder.prefix"), _flag("decoder.cleanup"))),
    DECODE_FUSE := Layout(4),
    DECODE_REPLACE := Layout(5, (_text("decoder.pattern"), _text("decoder.content"))),
    DECODE_STRIP := Layout(
        6, (_text("decoder.content"), _number("decoder.start"), _number("decoder.stop"))
    ),
    DECODER_LIST := Layout(7),
)
_VOCABULARY_SIZE = _number("vocabulary size")
MODELS = _by_type(
    MODEL_BPE := Layout(
        0,
        (
            _VOCABULARY_SIZE,
            _flag("model.byte_fallback"),
            _flag("model.byte_level"),
            _number("merge count"),
        ),
    ),
    MODEL_WORD_PIECE := Layout(
        1,
        (_VOCABULARY_SIZE, _bytes("model.unk"), _text("model.prefix"), _number("model.max_chars")),
    ),
    MODEL_UNIGRAM := Layout(
        2, (_VOCABULARY_SIZE, _number("model.unk_id"), _flag("model.byte_fallback"))
    ),
)
"""Type -> what stands in front of the vocabulary, and of the merges behind it."""
