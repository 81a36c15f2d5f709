"""The core's index of pieces: what it finds, and the tables it makes, read as their layout says."""

from __future__ import annotations

import random
import struct
from typing import TYPE_CHECKING

import pytest

from mtkit.base.native import native
from mtkit.base.packed import Pieces
from mtkit.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Sequence

MASK = (1 << 64) - 1


def mix(value: int) -> int:
    value ^= value >> 32
    value = value * 0xD6E8FEB86659FD93 & MASK
    return value ^ value >> 29


def hash_bytes(text: bytes) -> int:
    """As native/base/hash.hpp defines it."""
    state = 0x9E3779B97F4A7C15 * (len(text) + 1) & MASK
    at = 0
    while len(text) - at > 8:
        part = int.from_bytes(text[at : at + 8], "little")
        state = mix((state ^ part) * 0xA0761D6478BD642F & MASK)
        at += 8
    state ^= int.from_bytes(text[at:], "little")
    return mix(mix(state * 0xE7037ED1A0B428DB & MASK))


class Table:
    """A WordTable: the longest length, then slots (upper half of the hash, number and one)."""

    def __init__(self, data: bytes, pieces: Sequence[bytes]) -> None:
        self.longest, *self.slots = struct.unpack(f"<{len(data) // 8}Q", data)
        self.pieces = pieces

    def find(self, text: bytes) -> int | None:
        key = hash_bytes(text)
        at = key % len(self.slots)
        while slot := self.slots[at]:
            number = (slot & 0xFFFFFFFF) - 1
            if slot >> 32 == key >> 32 and self.pieces[number] == text:
                return number
            at = (at + 1) % len(self.slots)
        return None

    def numbers(self) -> list[int]:
        return sorted((slot & 0xFFFFFFFF) - 1 for slot in self.slots if slot)


def drawn(rng: random.Random, size: int) -> list[bytes]:
    """Return different pieces of 1 to 40 bytes, most of them short."""
    sizes = rng.choices([1, 2, 3, 7, 8, 9, 15, 16, 17, 40], [4, 9, 9, 4, 4, 4, 2, 2, 2, 1], k=size)
    return list(dict.fromkeys(rng.randbytes(length) for length in sizes))


@pytest.mark.parametrize("size", [1, 2, 5, 10, 21, 42, 85, 1000, 5000])
def test_tables_without_some_pieces(size: int) -> None:
    """Whatever is taken out, every other piece is found; small tables wrap around."""
    rng = random.Random(size)
    taken_out = 0
    for _ in range(3 if size > 200 else 60):
        texts = drawn(rng, size)
        pieces = Pieces.of(texts)
        index = native.PieceIndex(pieces.blob, pieces.ends.data)
        assert index.distinct
        assert [index.find(text) for text in texts] == list(range(len(texts)))
        assert index.find(b"not there, too long for it") is None
        whole = index.words(b"")
        assert whole == native.build_words(pieces.blob, pieces.ends.data, b"", b"", b"")
        assert whole is not None
        assert Table(whole, texts).longest == max(map(len, texts))
        listed = bytes(rng.random() < 0.7 for _ in texts)
        words = index.words(listed)
        if sum(listed) < len(texts) // 2:
            assert words is None
            continue
        assert words is not None
        table = Table(words, texts)
        kept = [number for number, mark in enumerate(listed) if mark]
        assert table.numbers() == kept
        found = [table.find(text) for text in texts]
        assert found == [number if mark else None for number, mark in enumerate(listed)]
        built = Table(native.build_words(pieces.blob, pieces.ends.data, b"", b"", listed), texts)
        assert built.numbers() == kept
        assert [built.find(text) for text in texts] == found
        taken_out += len(texts) - len(kept)
    assert taken_out or size == 1


def test_equal_pieces() -> None:
    """The first of equal ones is found; tables of a part are built, for another may be wanted."""
    texts = [b"a", b"", b"b", b"a", b"c", b"d"]
    pieces = Pieces.of(texts)
    index = native.PieceIndex(pieces.blob, pieces.ends.data)
    assert not index.distinct
    assert [index.find(text) for text in texts] == [0, 1, 2, 0, 4, 5]
    listed = b"\0\1\1\1\1\1"
    assert index.words(listed) is None
    table = Table(native.build_words(pieces.blob, pieces.ends.data, b"", b"", listed), texts)
    assert table.find(b"a") == 3
    assert not native.PieceIndex(b"ab", struct.pack("<4I", 1, 1, 1, 2)).distinct
    assert native.PieceIndex(b"ab", struct.pack("<3I", 1, 1, 2)).distinct


@pytest.mark.parametrize("ends", [(2, 1), (1, 9), (0xFFFFFFFF,)])
def test_ends_that_are_damaged(ends: tuple[int, ...]) -> None:
    with pytest.raises(FormatError, match="ends outside the texts"):
        native.PieceIndex(b"abc", struct.pack(f"<{len(ends)}I", *ends))
