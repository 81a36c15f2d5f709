"""The native parsers of .mtok tables give what the readable ones give, errors included."""

from __future__ import annotations

import struct
from array import array
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mtkit.errors import FormatError
from mtkit.formats.mtok.model_reader import parse_merges, parse_vocab

tokens = st.lists(st.binary(max_size=3) | st.sampled_from([b"a", b"ab", b"b"]), max_size=8)


def entries(pieces: list[bytes], ids: list[int], *, with_score: bool) -> bytes:
    out = b""
    for piece, token_id in zip(pieces, ids, strict=True):
        out += len(piece).to_bytes(2, "little") + piece + struct.pack("<I", token_id)
        out += struct.pack("<d", -0.5 * token_id) if with_score else b""
    return out


def outcome(parse: object, *arguments: object) -> object:
    try:
        return parse(*arguments)
    except FormatError as error:
        return error.what, error.field, error.offset


@pytest.fixture(scope="module")
def native() -> Any:
    return pytest.importorskip("mtkit._native")


unhurried = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)
"""A busy machine is no failure."""


@unhurried
@given(tokens, st.booleans(), st.booleans(), st.data())
def test_vocabularies(
    native: Any, pieces: list[bytes], with_score: bool, is_sorted: bool, data: st.DataObject
) -> None:
    ids = data.draw(st.permutations(range(len(pieces))))
    content = entries(sorted(pieces) if is_sorted else pieces, ids, with_score=with_score)
    if data.draw(st.booleans()) and content:
        at = data.draw(st.integers(0, len(content) - 1))
        content = content[:at] + data.draw(st.binary(max_size=2)) + content[at + 1 :]
    count = len(pieces) + data.draw(st.integers(0, 1))
    arguments = (memoryview(content), 0, count, with_score)
    assert outcome(native.parse_mtok_vocab, *arguments) == outcome(parse_vocab, *arguments)


@unhurried
@given(
    st.lists(st.tuples(*[st.integers(0, 4)] * 2, st.integers(0, 5) | st.just(10**9)), max_size=8),
    st.booleans(),
    st.integers(0, 2),
)
def test_merges(native: Any, rows: list[tuple[int, int, int]], is_sorted: bool, more: int) -> None:
    rows = sorted(rows) if is_sorted else rows
    content = b"".join(struct.pack("<III", *row) for row in rows)
    pieces = [b"a", b"b", b"ab", b"aba"]
    ends = array("I", [1, 2, 4, 7]).tobytes()
    hidden = array("I", [3]).tobytes()
    where = memoryview(content), 0, len(rows) + more
    arguments = (*where, memoryview(b"".join(pieces)), memoryview(ends), hidden)
    assert outcome(native.parse_mtok_merges, *arguments) == outcome(parse_merges, *arguments)


@pytest.mark.parametrize("count", [1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1])
def test_forged_counts_allocate_nothing(native: Any, count: int) -> None:
    content = memoryview(b"\0" * 64)
    for parse in (native.parse_mtok_vocab, parse_vocab):
        with pytest.raises(FormatError, match="ends in entry 0"):
            parse(content, 0, count, False)
    empty = memoryview(b"")
    for parse in (native.parse_mtok_merges, parse_merges):
        with pytest.raises(FormatError, match="ends in entry 0"):
            parse(content, 0, count, empty, empty, b"")


def test_what_bisection_does_not_find_is_hidden() -> None:
    content = entries([b"b", b"a", b"c"], [0, 1, 2], with_score=False)
    blob, _, _, hidden, end = parse_vocab(memoryview(content), 0, 3, False)
    assert (blob, end) == (b"bac", len(content))
    assert list(array("I", hidden)) == [0, 1]
