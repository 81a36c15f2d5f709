"""The model of a .mtok base file: u8 type, u32 size, then vocabulary and merges.

0 BPE: u8 byte_fallback (ignored), u8 byte_level, u32 merges, vocabulary, merges.
1 WordPiece: string unk, string prefix, u32 max_chars, vocabulary.
2 Unigram: u32 unk_id, u8 byte_fallback, vocabulary with scores.

A model that fits the common components is given as such; only tables that do not (a merge without
its result, ranks twice, some of the byte tokens) need ``LooseBPE``.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, by its behavior.
"""

from __future__ import annotations

from mtkit.base.packed import Pieces
from mtkit.base.record import Record
from mtkit.errors import FormatError
from mtkit.formats.mtok.columns import BaseColumns
from mtkit.formats.mtok.read_components import string
from mtkit.formats.mtok.read_tables import read_entries, read_merges
from mtkit.spec.models import BPE, LatticeUnigram, LooseBPE, Merges, WordPiece
from mtkit.spec.vocabulary import BYTE_TOKENS, Vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.base.binary import Reader
    from mtkit.spec.models import Model


class ModelReading(Record):
    """A model as the file has it.

    Attributes:
        byte_level: The model maps words to the byte alphabet itself.
        unknown: What an id outside the vocabulary decodes to.
    """

    vocabulary: Vocabulary
    model: Model
    unk: int | None
    byte_level: bool = False
    unknown: bytes = b""


def read_model(reader: Reader) -> ModelReading:
    """Read the model.

    Raises:
        FormatError: It is damaged or of a type that the loader crashes on.
    """
    at = reader.offset
    kind = reader.u8("model type")
    if kind not in {0, 1, 2}:
        raise FormatError(f"is {kind}, not 0, 1 or 2", field="model type", offset=at)
    count = reader.u32("vocabulary size")
    if kind == 0:
        return _bpe(reader, count)
    return _word_piece(reader, count) if kind == 1 else _unigram(reader, count)


def read_columns(reader: Reader) -> BaseColumns:
    """Read the model's columns alone, by id and by rank."""
    at = reader.offset
    kind = reader.u8("model type")
    count = reader.u32("vocabulary size")
    if kind == 0:
        reader.view(2, "model flags")
        merge_count = reader.u32("merge count")
        entries = read_entries(reader, count, with_score=False)
        merges = read_merges(reader, merge_count, entries)
        return BaseColumns(entries.pieces, None, merges.pairs)
    if kind == 1:
        string(reader, "model.unk")
        string(reader, "model.prefix")
        reader.u32("model.max_chars")
        return BaseColumns(read_entries(reader, count, with_score=False).pieces)
    if kind != 2:
        raise FormatError(f"is {kind}, not 0, 1 or 2", field="model type", offset=at)
    reader.view(5, "model flags")
    entries = read_entries(reader, count, with_score=True)
    return BaseColumns(entries.pieces, entries.scores)


def _bpe(reader: Reader, count: int) -> ModelReading:
    reader.u8("model.byte_fallback")
    byte_level = reader.u8("model.byte_level") != 0
    merge_count = reader.u32("merge count")
    entries = read_entries(reader, count, with_score=False)
    vocabulary = Vocabulary(entries.pieces, hidden=entries.hidden)
    table = read_merges(reader, merge_count, entries)
    ids = vocabulary.ids
    bytes_there = sum(token in ids for token in BYTE_TOKENS)
    model: Model
    if bytes_there in {0, 256} and table.regular:
        model = BPE(Merges(table.pairs, Pieces.of(())), byte_fallback=bytes_there == 256)
    else:
        model = LooseBPE(table.pairs, table.ranks)
    return ModelReading(vocabulary, model, None, byte_level)


def _word_piece(reader: Reader, count: int) -> ModelReading:
    unk_text = string(reader, "model.unk")
    prefix = string(reader, "model.prefix").decode("utf-8", "surrogateescape")
    max_chars = reader.u32("model.max_chars")
    entries = read_entries(reader, count, with_score=False)
    vocabulary = Vocabulary(entries.pieces, hidden=entries.hidden)
    unk = vocabulary.ids.get(unk_text)
    model = WordPiece(
        -1 if unk is None else unk,
        prefix,
        max_chars,
        unit="bytes",
        too_long="nothing" if unk is None else "unk",
    )
    return ModelReading(vocabulary, model, unk, unknown=unk_text)


def _unigram(reader: Reader, count: int) -> ModelReading:
    at = reader.offset
    unk = reader.u32("model.unk_id")
    byte_fallback = reader.u8("model.byte_fallback") != 0
    entries = read_entries(reader, count, with_score=True)
    if unk >= count:
        raise FormatError(
            f"{unk} is outside the {count} ids of the vocabulary", field="model.unk_id", offset=at
        )
    vocabulary = Vocabulary(entries.pieces, scores=entries.scores, hidden=entries.hidden)
    unknown: bytes = entries.pieces[unk]
    return ModelReading(vocabulary, LatticeUnigram(unk, byte_fallback), unk, unknown=unknown)
