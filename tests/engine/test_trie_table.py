"""The core's trie, read as native/tables/trie.hpp lays it out."""

from __future__ import annotations

import random
import struct
import time

import pytest

from mtkit.base.native import native
from mtkit.base.packed import Pieces

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
