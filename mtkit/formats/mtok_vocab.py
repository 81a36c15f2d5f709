"""The long tables of a .mtok base file: vocabulary entries and merges.

A vocabulary entry is u16 length, bytes, u32 id, and f64 score for Unigram; a merge is u32 left,
u32 right, u32 rank. Both are sorted (by bytes; by left and right) and searched by bisection: in a
table that is not sorted some entries are never found, and those ids are reported as hidden.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer (``BPEModel::load`` and its sisters), by
its behaviour.
"""

from __future__ import annotations

import struct
from array import array

from mtkit.errors import FormatError
from mtkit.spec.packed import Numbers, Pieces
from mtkit.spec.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.binary import Reader

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
        ranks: Struct letter I, ascending.
    """

    pairs: Numbers
    ranks: Numbers


def read_entries(reader: Reader, count: int, *, with_score: bool) -> Entries:
    """Read ``count`` vocabulary entries.

    Raises:
        FormatError: They do not fit the file, or an id is out of range or given twice.
    """
    at = reader.offset
    reader.count(count, 14 if with_score else 6, "vocabulary size", at)
    tokens, ids, scores, end = parse_vocab(reader.data, at, count, with_score=with_score)
    reader.view(end - at, "vocabulary")
    by_id: list[bytes | None] = [None] * count
    for token, token_id in zip(tokens, ids, strict=True):
        if token_id >= count:
            raise FormatError(
                f"{token_id} is outside the {count} ids of the vocabulary",
                field="token id",
                offset=at,
            )
        if by_id[token_id] is not None:
            raise FormatError(f"{token_id} is given twice", field="token id", offset=at)
        by_id[token_id] = token
    column = None
    if with_score:
        ordered = array("d", bytes(8 * count))
        for token_id, score in zip(ids, scores, strict=True):
            ordered[token_id] = score
        column = _narrow(ordered)
    return Entries(Pieces.of(by_id), column, _hidden(tokens, ids))  # type: ignore[arg-type]


def parse_vocab(
    data: memoryview, offset: int, count: int, *, with_score: bool
) -> tuple[list[bytes], list[int], list[float], int]:
    """Read entries in file order: tokens, ids, scores, and the offset behind the last.

    Raises:
        FormatError: The file ends before they do.
    """
    tokens: list[bytes] = []
    ids: list[int] = []
    scores: list[float] = []
    size = len(data)
    length_of = struct.Struct("<H").unpack_from
    id_of = struct.Struct("<I").unpack_from
    score_of = struct.Struct("<d").unpack_from
    behind = 12 if with_score else 4
    for _ in range(count):
        if size - offset < 2 or size - offset - 2 < (length := length_of(data, offset)[0]) + behind:
            raise FormatError(
                f"the file ends in entry {len(tokens)} of {count}",
                field="vocabulary",
                offset=offset,
                hint="the file is cut",
            )
        offset += 2
        tokens.append(bytes(data[offset : offset + length]))
        offset += length
        ids.append(id_of(data, offset)[0])
        if with_score:
            scores.append(score_of(data, offset + 4)[0])
        offset += behind
    return tokens, ids, scores, offset


def read_merges(reader: Reader, count: int) -> MergeTable:
    """Read ``count`` merges and put those that can apply in the order of their ranks."""
    reader.count(count, MERGE_BYTES, "merge count", reader.offset)
    numbers = array("I", bytes(reader.view(count * MERGE_BYTES, "merges")))
    keys = [left << 32 | right for left, right in zip(numbers[0::3], numbers[1::3], strict=True)]
    ranks = numbers[2::3]
    kept = [place for place in _found(keys) if ranks[place] < RANK_LIMIT]
    kept.sort(key=ranks.__getitem__)
    pairs = array("I", bytes(8 * len(kept)))
    pairs[0::2] = array("I", [keys[place] >> 32 for place in kept])
    pairs[1::2] = array("I", [keys[place] & 0xFFFFFFFF for place in kept])
    return MergeTable(Numbers.of("I", pairs), Numbers.of("I", [ranks[place] for place in kept]))


def _narrow(scores: array[float]) -> Numbers:
    """Keep scores as float32 where that holds them exactly, else as float64."""
    try:
        narrow = array("f", scores)
    except OverflowError:
        return Numbers.of("d", scores)
    # NaN is not equal to itself: bytes are compared, not numbers.
    exact = array("d", narrow).tobytes() == scores.tobytes()
    return Numbers.of("f", narrow) if exact else Numbers.of("d", scores)


def _found(keys: list[int] | list[bytes]) -> list[int]:
    """Return the places, ascending, that bisection finds when it looks for what stands there."""
    if all(map(_less, keys, keys[1:])):
        return list(range(len(keys)))
    found = set()
    for key in set(keys):
        low, left = 0, len(keys)
        while left > 0:
            half = left // 2
            if keys[low + half] < key:  # type: ignore[operator]
                low += half + 1
                left -= half + 1
            else:
                left = half
        if low < len(keys) and keys[low] == key:
            found.add(low)
    return sorted(found)


def _less(left: object, right: object) -> bool:
    return left < right  # type: ignore[operator, no-any-return]


def _hidden(tokens: list[bytes], ids: list[int]) -> tuple[int, ...]:
    found = _found(tokens)
    if len(found) == len(tokens):
        return ()
    return tuple(sorted(set(ids) - {ids[place] for place in found}))
