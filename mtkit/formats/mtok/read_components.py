"""Normalizer, pre-tokenizer and decoder of a .mtok base file: u8 type, then what the type needs.

Lists nest. A type that the loader does not know is none, and its payload is not skipped, so
whatever follows is read from there: a reader that guessed would give other ids.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``create_normalizer`` and its sisters),
by its behavior.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.formats.mtok.pattern import UNICODE, folded, read_pattern
from mtkit.spec import decoders, normalizers, pre_tokenizers
from mtkit.spec.text import Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Protocol, TypeVar

    from mtkit.base.binary import Reader
    from mtkit.spec.decoders import Decoder
    from mtkit.spec.normalizers import Normalizer
    from mtkit.spec.pre_tokenizers import PreTokenizer

    T_co = TypeVar("T_co", covariant=True)

    class Read(Protocol[T_co]):
        """Reads one component at some depth."""

        def __call__(self, reader: Reader, depth: int = 0) -> T_co | None:
            """Read it; None where it is none."""


DEPTH_LIMIT = 64
BERT_PUNCTUATION = r"[\p{P}!-/:-@\[-`{-~]"


def text(reader: Reader, field: str) -> str:
    """Read u16 length and bytes as text; bytes that are not valid UTF-8 are kept as escapes."""
    return string(reader, field).decode("utf-8", "surrogateescape")


LAST_CODE_POINT = 0x10FFFF


def string(reader: Reader, field: str) -> bytes:
    """Read u16 length and bytes."""
    return reader.take(reader.u16(f"{field} length"), field)


def read_normalizer(reader: Reader, depth: int = 0) -> Normalizer | None:
    """Read a normalizer; None where the text stays as it is."""
    match reader.u8("normalizer type"):
        case 2:
            return normalizers.Prepend(text(reader, "normalizer.prepend"), empty=True)
        case 3:
            pattern = text(reader, "normalizer.pattern")
            content = text(reader, "normalizer.content")
            return normalizers.Replace(Text(pattern), content) if pattern else None
        case 4:
            steps: list[Normalizer] = _children(reader, "normalizer count", read_normalizer, depth)
            return normalizers.Sequence(tuple(steps)) if steps else None
        case 5:
            flags = [reader.u8("normalizer flags") != 0 for _ in range(4)]
            # Without a table the strip flag does nothing.
            flags[2] = False
            return _bert(flags, Numbers.of("I", ()), Pieces.of(()))
        case 6:
            code_points, values = _table(reader)
            # An empty table is not a normalizer at all: controls are kept then, too.
            return normalizers.CodePointTable(code_points, values) if len(values) else None
        case 7:
            flags = [reader.u8("normalizer flags") != 0 for _ in range(4)]
            table = _table(reader) if flags[2] else (Numbers.of("I", ()), Pieces.of(()))
            return _bert(flags, *table)
        case 8:
            left = reader.u8("normalizer.left") != 0
            right = reader.u8("normalizer.right") != 0
            # Where both are set the right end keeps its white space (seen in 44 of 819 texts).
            return normalizers.Strip(left, right and not left, white_space="spaces")
        case _:
            return None


def read_pre_tokenizer(reader: Reader, depth: int = 0) -> PreTokenizer | None:
    """Read a pre-tokenizer; None where the whole text is one word."""
    match reader.u8("pre-tokenizer type"):
        case 1:
            letters = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
            if not reader.u8("pre_tokenizer.use_regex"):
                return letters
            return pre_tokenizers.Sequence(
                (pre_tokenizers.Split(folded(pre_tokenizers.BYTE_LEVEL_SPLIT)), letters)
            )
        case 2:
            individual = reader.u8("pre_tokenizer.individual")
            # Runs of digits are not set apart at all, and single digits are ASCII's.
            return pre_tokenizers.Split(folded("[0-9]")) if individual else None
        case 3:
            replacement = text(reader, "pre_tokenizer.replacement")
            prefix = reader.u8("pre_tokenizer.add_prefix_space") != 0
            return pre_tokenizers.MarkSpaces(replacement, prefix)
        case 4:
            pattern = text(reader, "pre_tokenizer.pattern")
            invert = reader.u8("pre_tokenizer.invert") != 0
            behavior = reader.u8("pre_tokenizer.behavior")
            return pre_tokenizers.Split(
                read_pattern(pattern),
                "isolated"
                if behavior == 0
                else "glued_to_previous"
                if behavior == 2
                else "removed",
                invert,
            )
        case 5:
            return pre_tokenizers.Sequence(
                (
                    pre_tokenizers.Split(folded(r"\s+"), "removed"),
                    pre_tokenizers.Split(folded(BERT_PUNCTUATION)),
                )
            )
        case 6:
            words: list[PreTokenizer] = _children(
                reader, "pre-tokenizer count", read_pre_tokenizer, depth
            )
            return pre_tokenizers.Sequence(tuple(words)) if words else None
        case _:
            return None


def read_decoder(reader: Reader, depth: int = 0) -> Decoder | None:
    """Read a decoder step; None for one that is not known."""
    match reader.u8("decoder type"):
        case 0:
            return decoders.ByteLevel()
        case 1:
            return decoders.ByteFallback()
        case 2:
            replacement = text(reader, "decoder.replacement")
            prefix = reader.u8("decoder.add_prefix_space") != 0
            return decoders.Metaspace(replacement, "always" if prefix else "never", split=False)
        case 3:
            prefix_text = text(reader, "decoder.prefix")
            return decoders.WordPiece(prefix_text, reader.u8("decoder.cleanup") != 0)
        case 4:
            return decoders.Fuse()
        case 5:
            at = reader.offset
            pattern = text(reader, "decoder.pattern")
            content = text(reader, "decoder.content")
            if not pattern:
                raise FormatError(
                    "is empty: the loader never ends on it", field="decoder.pattern", offset=at
                )
            return decoders.Replace(Text(pattern), content)
        case 6:
            content = text(reader, "decoder.content")
            start = reader.u32("decoder.start")
            return decoders.Strip(content, start, reader.u32("decoder.stop"))
        case 7:
            return decoders.Sequence(tuple(_children(reader, "decoder count", read_decoder, depth)))
        case _:
            return None


def _children(reader: Reader, field: str, read: Read[T_co], depth: int) -> list[T_co]:
    """Read u32 count and that many components, leaving out those that are none."""
    at = reader.offset
    if depth == DEPTH_LIMIT:
        raise FormatError(f"components nest deeper than {DEPTH_LIMIT}", field=field, offset=at)
    count = reader.count(reader.u32(field), 1, field, at)
    children = [read(reader, depth + 1) for _ in range(count)]
    return [child for child in children if child is not None]


def _table(reader: Reader) -> tuple[Numbers, Pieces]:
    """Read u32 count and (u32 code point, string) in ascending order."""
    at = reader.offset
    count = reader.count(reader.u32("table size"), 6, "table size", at)
    code_points, values = [], []
    for _ in range(count):
        at = reader.offset
        code_points.append(reader.u32("table code point"))
        if len(code_points) > 1 and code_points[-1] <= code_points[-2]:
            raise FormatError("is not ascending", field="table code point", offset=at)
        if code_points[-1] > LAST_CODE_POINT:
            what = f"is 0x{code_points[-1]:x}, no character"
            raise FormatError(what, field="table code point", offset=at)
        values.append(string(reader, "table value"))
    return Numbers.of("I", code_points), Pieces.of(values)


def _bert(flags: list[bool], code_points: Numbers, values: Pieces) -> normalizers.BertTable:
    clean, han, accents, lower = flags
    return normalizers.BertTable(clean, han, accents, lower, code_points, values, UNICODE)
