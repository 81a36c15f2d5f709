"""What the core builds, read as its layout says: the program's numbers, index, trie."""

from __future__ import annotations

import ast
import random
import re
import struct
import time
from enum import IntEnum
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from mtkit.base.native import native
from mtkit.base.packed import Pieces
from mtkit.engine import Engine, opcodes, tables
from mtkit.engine import program_writer as encoding
from mtkit.errors import FormatError
from mtkit.spec import TokenizerSpec, models
from mtkit.spec.vocabulary import Vocabulary

if TYPE_CHECKING:
    from collections.abc import Sequence


ROOT = Path(__file__).parents[2]


def test_no_number_means_two_things() -> None:
    kinds = [
        kind
        for kind in vars(opcodes).values()
        if isinstance(kind, type) and issubclass(kind, IntEnum) and kind is not IntEnum
    ]
    assert len(kinds) > 10
    for kind in kinds:
        assert len(set(map(int, kind))) == len(kind.__members__), kind


def test_no_step_is_written_as_a_bare_number() -> None:
    """A kind that the compiler writes has a name; flags and counts are no kinds."""
    for path in sorted((ROOT / "mtkit" / "engine").glob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not (isinstance(node, ast.Call) and getattr(node.func, "id", "") == "u8"):
                continue
            argument = node.args[0]
            bare = isinstance(argument, ast.Constant) and argument.value not in (0, 1)
            assert not bare, f"{path.name}:{node.lineno}"
    for path in sorted((ROOT / "native").rglob("*.cpp")):
        assert not re.search(r"case \d+:", path.read_text(encoding="utf-8")), path.name


def test_forged_programs_are_refused() -> None:
    """Sequences in sequences, added tokens before added tokens: deeper than any stack."""
    pytest.importorskip("mtkit._native")
    good = tables(TokenizerSpec(Vocabulary(Pieces.of([b"a"])), models.WordLevel(unk=0)))
    u8, u32 = encoding.u8, encoding.u32
    empty = u8(0) + u8(1) + u32(0) + u32(0) + u32(0)
    at = good["PROG"].index(empty + u8(0), 4)
    before = good["PROG"][:at]
    forged = {
        "added": before + (empty + u8(1)) * 200_000,
        "normalizer": before + empty + u8(0) + (u8(2) + u32(1)) * 200_000,
        "cut": before + empty + u8(0) + u8(0) + (u8(2) + u32(1)) * 200_000,
        "nothing": before + empty + u8(0) + u8(2) + u32(1) + u8(0) + good["PROG"][at + 17 :],
    }
    for program in forged.values():
        with pytest.raises(FormatError, match=r"nested too deep|not a step of a sequence"):
            Engine({**good, "PROG": program}, lambda: None)  # type: ignore[arg-type,return-value]


# The core's index of pieces: what it finds, and the tables it makes, read as their layout says.


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


# The core's trie, read as native/tables/trie.hpp lays it out.


NO_BYTE, NO_PIECE = 256, (1 << 27) - 1
BLOCK = 256


def built(texts: list[bytes], listed: bytes = b"") -> list[int]:
    pieces = Pieces.of(texts)
    data = native.build_trie(pieces.blob, pieces.ends.data, listed)
    return list(struct.unpack(f"<{len(data) // 8}Q", data))


def prefixes(units: list[int], text: bytes) -> list[tuple[int, int]]:
    """Return end and id of each piece that a text begins with."""
    found, base = [], units[0] >> 36
    for at, byte in enumerate(text):
        place = base ^ byte
        if place >= len(units) or units[place] & 511 != byte:
            break
        token_id = units[place] >> 9 & NO_PIECE
        if token_id != NO_PIECE:
            found.append((at + 1, token_id))
        base = units[place] >> 36
    return found


def bases(units: list[int]) -> list[int]:
    return [unit >> 36 for unit in units if unit & 511 != NO_BYTE and unit >> 36]


@pytest.mark.parametrize("size", [0, 1, 2, 30, 500, 4000])
@pytest.mark.parametrize("alphabet", [b"ab", bytes(range(256)), "日本語あいう".encode()])
def test_each_piece_is_found_by_the_bytes_it_begins_with(size: int, alphabet: bytes) -> None:
    rng = random.Random(size)
    texts = [bytes(rng.choices(alphabet, k=rng.choice((1, 2, 3, 5, 9, 12)))) for _ in range(size)]
    texts += rng.choices(texts, k=size // 10)  # equal ones: the first counts
    listed = bytes(rng.random() < 0.8 for _ in texts)
    units = built(texts, listed)
    assert len(units) % BLOCK == 0
    assert len(set(bases(units))) == len(bases(units))
    first: dict[bytes, int] = {}
    for number, (text, mark) in enumerate(zip(texts, listed, strict=True)):
        if mark:
            first.setdefault(text, number)
    others = [bytes(rng.choices(alphabet, k=14)) for _ in range(200)]
    for text in [*texts, *others]:
        wanted = [(end, first[text[:end]]) for end in range(1, 15) if text[:end] in first]
        assert prefixes(units, text) == [pair for pair in wanted if pair[0] <= len(text)]


def test_places_that_none_can_have_do_not_slow_the_others() -> None:
    """A unit that no node fits in was passed by again for each of those behind it."""

    def took(size: int) -> float:
        start = time.process_time()
        units = built([b"b" + b"a" * size])
        assert len(units) < size + 1024
        assert prefixes(units, b"b" + b"a" * size) == [(size + 1, 0)]
        return time.process_time() - start

    took(1000)
    assert took(1 << 21) < 64 * max(took(1 << 17), 0.005)  # 256 times where it was quadratic
