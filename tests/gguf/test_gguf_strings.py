"""Strings of an array: the native core and the Python loops agree, in values and in words."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mtkit.errors import FormatError
from mtkit.gguf import arrays
from mtkit.gguf.arrays import LENGTH_STRUCTS, ArrayReader

if TYPE_CHECKING:
    from types import ModuleType


@pytest.fixture(scope="module")
def native() -> ModuleType:
    return pytest.importorskip("mtkit._native", reason="the native core is not built")


def result(data: bytes, count: int, *, wide: bool, big: bool, pure: bool) -> object:
    """End, positions and packed strings, or the message."""
    reader = ArrayReader(memoryview(data), LENGTH_STRUCTS[wide, big], big_endian=big, offset=3)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(arrays, "FEWEST_NATIVE", 0)
        if pure:
            patch.setattr(arrays, "native_core", lambda _: None)
        try:
            marks = arrays.walk_strings(reader, "key", count)
            end = reader.offset
            pieces = arrays.pack_strings(reader, 3, end, count)
        except FormatError as error:
            return str(error)
    return end, list(marks), list(pieces)


@given(
    st.lists(st.binary(max_size=3), max_size=600),
    st.booleans(),
    st.booleans(),
    st.none() | st.tuples(st.floats(0, 1), st.sampled_from([0, 1, 2, 127, 128, 255])),
    st.integers(0, 12),
)
def test_native_is_python(
    native: ModuleType,
    texts: list[bytes],
    wide: bool,
    big: bool,
    damage: tuple[float, int] | None,
    cut: int,
) -> None:
    length = LENGTH_STRUCTS[wide, big]
    data = bytearray(b"abc" + b"".join(length.pack(len(text)) + text for text in texts) + b"tail")
    if damage:
        data[3 + int(damage[0] * (len(data) - 4))] = damage[1]
    raw = bytes(data[: max(3, len(data) - cut)])
    found = result(raw, len(texts), wide=wide, big=big, pure=True)
    assert result(raw, len(texts), wide=wide, big=big, pure=False) == found
    if not damage and cut <= 4:
        assert found == (len(data) - 4, marks_of(texts, length.size), texts)


def marks_of(texts: list[bytes], width: int) -> list[int]:
    starts = [3 + sum(len(text) + width for text in texts[:i]) for i in range(0, len(texts), 256)]
    return starts if texts else []


def test_lengths_beyond_the_file(native: ModuleType) -> None:
    for forged in (2**31, 2**32 - 1, 2**63, 2**64 - 1, 2**64 - 8):
        data = b"abc" + LENGTH_STRUCTS[True, False].pack(forged) + b"x" * 20
        shown = result(data, 1, wide=True, big=False, pure=True)
        assert shown == result(data, 1, wide=True, big=False, pure=False)
        assert str(shown).startswith("key[0] at offset 11: needs ")
