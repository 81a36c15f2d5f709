"""The model of a .mtok base file and its long tables: vocabulary entries and merges.

A BPE model ignores its byte_fallback. It becomes a ``BPE``; only tables that do not fit (a merge
without its result, equal ranks, some of the byte tokens) need ``LooseBPE``.

A vocabulary entry is u16 length, bytes, u32 id, and f64 score for Unigram; a merge is u32 left, u32
right, u32 rank. Both are sorted (by bytes; by left and right) and searched by bisection: in a table
that is not sorted some entries are never found, and those ids are hidden.

The two parsers here are the reference for those of the native core (native/files/mtok_tables.cpp),
which are used where it is built: same results, same errors.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``BPEModel::load`` and its sisters), by
its behavior.
"""

from __future__ import annotations

import struct
from array import array

from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record
from mtkit.errors import FormatError
from mtkit.formats.mtok.columns import BaseColumns
from mtkit.formats.mtok.layout import MODEL_BPE, MODEL_UNIGRAM, MODEL_WORD_PIECE, MODELS
from mtkit.spec.models import BPE, LatticeUnigram, LooseBPE, Merges, WordPiece
from mtkit.spec.vocabulary import BYTE_TOKENS, Vocabulary

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType
    from typing import Any

    from mtkit.base.binary import Reader
    from mtkit.formats.mtok.layout import Layout
    from mtkit.spec.models import Model

    RawVocab = tuple[bytes, bytes, bytes, bytes, int]

    RawMerges = tuple[bytes, bytes, bool]


RANK_LIMIT = 1_000_000_000
"""A merge of this rank or a higher one never applies."""
MERGE_BYTES = 12


class Entries(Record):
    """A vocabulary by id; ``scores`` only for Unigram."""

    pieces: Pieces
    scores: Numbers | None
    hidden: tuple[int, ...]


class MergeTable(Record):
    """Merges that can apply, by rank.

    Attributes:
        pairs: left 0, right 0, left 1, …; struct letter I.
        regular: All ranks differ, and the result of each merge is a token that is not hidden.
    """

    pairs: Numbers
    ranks: Numbers
    regular: bool


def read_entries(reader: Reader, count: int, *, with_score: bool) -> Entries:
    """Read ``count`` vocabulary entries."""
    at = reader.offset
    reader.count(count, 14 if with_score else 6, "vocabulary size", at)
    native = _native()
    parse = native.parse_mtok_vocab if native else parse_vocab
    blob, ends, scores, hidden, end = parse(reader.data, at, count, with_score)
    reader.view(end - at, "vocabulary")
    column = _narrow(scores) if with_score else None
    return Entries(
        Pieces(blob, Numbers("I", ends)), column, tuple(Numbers("I", hidden).view.tolist())
    )


def read_merges(reader: Reader, count: int, entries: Entries) -> MergeTable:
    """Read ``count`` merges and put those that can apply in the order of their ranks."""
    at = reader.offset
    reader.count(count, MERGE_BYTES, "merge count", at)
    reader.view(count * MERGE_BYTES, "merges")
    native = _native()
    parse = native.parse_mtok_merges if native else parse_merges
    hidden = array("I", entries.hidden).tobytes()
    pairs, ranks, regular = parse(
        reader.data, at, count, entries.pieces.blob, entries.pieces.ends.data, hidden
    )
    return MergeTable(Numbers("I", pairs), Numbers("I", ranks), regular)


def parse_vocab(data: memoryview, offset: int, count: int, with_score: bool) -> RawVocab:
    """Read entries; return pieces by id, their ends, scores, hidden ids and the offset behind."""
    tokens: list[bytes] = []
    ids: list[int] = []
    by_id: list[int] = [-1] * min(count, len(data))
    scores: list[float] = []
    size, start = len(data), offset
    length_of = struct.Struct("<H").unpack_from
    id_of = struct.Struct("<I").unpack_from
    score_of = struct.Struct("<d").unpack_from
    behind = 12 if with_score else 4
    if count > (size - offset) // (2 + behind):
        raise _cut_error("vocabulary", 0, count, offset)
    for entry in range(count):
        at = offset
        if size - offset < 2 or size - offset - 2 < (length := length_of(data, offset)[0]) + behind:
            raise _cut_error("vocabulary", entry, count, at)
        offset += 2
        tokens.append(bytes(data[offset : offset + length]))
        offset += length
        token_id = id_of(data, offset)[0]
        if with_score:
            scores.append(score_of(data, offset + 4)[0])
        offset += behind
        if token_id >= count:
            what = f"{token_id} is outside the {count} ids of the vocabulary"
            raise FormatError(what, field="token id", offset=at)
        if by_id[token_id] >= 0:
            raise FormatError(f"{token_id} is given twice", field="token id", offset=at)
        by_id[token_id] = entry
        ids.append(token_id)
    if sum(map(len, tokens)) >= 1 << 32:
        raise FormatError("has pieces of 4 GiB or more", field="vocabulary", offset=start)
    places = set(_bisected_places(tokens))
    hidden = sorted(token_id for place, token_id in enumerate(ids) if place not in places)
    ends, end = array("I"), 0
    for place in by_id:
        end += len(tokens[place])
        ends.append(end)
    return (
        b"".join([tokens[place] for place in by_id]),
        ends.tobytes(),
        array("d", [scores[place] for place in by_id] if with_score else ()).tobytes(),
        array("I", hidden).tobytes(),
        offset,
    )


def parse_merges(
    data: memoryview, offset: int, count: int, blob: memoryview, ends: memoryview, hidden: bytes
) -> RawMerges:
    """Read merges; return pairs and ranks by rank, and whether they are regular."""
    if count > (len(data) - offset) // MERGE_BYTES:
        raise _cut_error("merges", 0, count, offset)
    numbers = array("I", bytes(data[offset : offset + count * MERGE_BYTES]))
    keys = [left << 32 | right for left, right in zip(numbers[0::3], numbers[1::3], strict=True)]
    ranks = numbers[2::3]
    places = [place for place in _bisected_places(keys) if ranks[place] < RANK_LIMIT]
    places.sort(key=ranks.__getitem__)
    pieces = list(Pieces(blob, Numbers("I", ends)))
    left_out = set(array("I", hidden))
    tokens = {piece for token_id, piece in enumerate(pieces) if token_id not in left_out}
    size = len(pieces)
    pairs = array("I")
    regular = len({ranks[place] for place in places}) == len(places)
    for place in places:
        left, right = keys[place] >> 32, keys[place] & 0xFFFFFFFF
        pairs.append(left)
        pairs.append(right)
        if left >= size or right >= size or pieces[left] + pieces[right] not in tokens:
            regular = False
    return pairs.tobytes(), array("I", [ranks[place] for place in places]).tobytes(), regular


def _native() -> ModuleType | None:
    try:
        from mtkit.base.native import native
    except ImportError:
        return None
    return native


def _cut_error(field: str, entry: int, count: int, at: int) -> FormatError:
    return FormatError(f"the file ends in entry {entry} of {count}", field=field, offset=at)


def _narrow(scores: bytes) -> Numbers:
    """Return scores as float32 where that is exact, else as float64."""
    values = array("d", scores)
    try:
        narrow = array("f", values)
    except OverflowError:
        return Numbers("d", scores)
    # NaN is not equal to itself: bytes are compared, not numbers.
    exact = array("d", narrow).tobytes() == scores
    return Numbers.of("f", narrow) if exact else Numbers("d", scores)


def _bisected_places(keys: Sequence[Any]) -> list[int]:
    """Return the places, ascending, at which bisection finds their keys."""
    if all(map(_is_less, keys, keys[1:])):
        return list(range(len(keys)))
    places = set()
    for key in set(keys):
        low, left = 0, len(keys)
        while left > 0:
            half = left // 2
            if keys[low + half] < key:
                low += half + 1
                left -= half + 1
            else:
                left = half
        if low < len(keys) and keys[low] == key:
            places.add(low)
    return sorted(places)


def _is_less(left: Any, right: Any) -> bool:
    return bool(left < right)


class ModelReading(Record):
    """The model of a file.

    Attributes:
        unknown: Bytes that an id outside the vocabulary decodes to.
    """

    vocabulary: Vocabulary
    model: Model
    unk: int | None
    byte_level: bool = False
    unknown: bytes = b""


def _read_head(reader: Reader) -> tuple[Layout, list[Any]]:
    at = reader.offset
    kind = reader.u8("model type")
    if kind not in MODELS:
        raise FormatError(f"is {kind}, not 0, 1 or 2", field="model type", offset=at)
    return MODELS[kind], MODELS[kind].read(reader)


def read_model(reader: Reader) -> ModelReading:
    """Read the model."""
    at = reader.offset
    layout, values = _read_head(reader)
    if layout == MODEL_BPE:
        return _bpe(reader, *values)
    if layout == MODEL_WORD_PIECE:
        return _word_piece(reader, *values)
    return _unigram(reader, *values, at=at + 5)  # behind type and vocabulary size


def read_columns(reader: Reader) -> BaseColumns:
    """Read the model's columns alone, by id and by rank."""
    layout, (count, *values) = _read_head(reader)
    entries = read_entries(reader, count, with_score=layout == MODEL_UNIGRAM)
    pairs = read_merges(reader, values[-1], entries).pairs if layout == MODEL_BPE else None
    return BaseColumns(entries.pieces, entries.scores, pairs)


def _bpe(reader: Reader, count: int, _: bool, byte_level: bool, merge_count: int) -> ModelReading:
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


def _word_piece(
    reader: Reader, count: int, unk_text: bytes, prefix: str, max_chars: int
) -> ModelReading:
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


def _unigram(reader: Reader, count: int, unk: int, byte_fallback: bool, *, at: int) -> ModelReading:
    entries = read_entries(reader, count, with_score=True)
    if unk >= count:
        what = f"{unk} is outside the {count} ids of the vocabulary"
        raise FormatError(what, field="model.unk_id", offset=at)
    vocabulary = Vocabulary(entries.pieces, scores=entries.scores, hidden=entries.hidden)
    unknown: bytes = entries.pieces[unk]
    return ModelReading(vocabulary, LatticeUnigram(unk, byte_fallback), unk, unknown=unknown)
