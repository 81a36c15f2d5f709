"""Bytes of views, and where a byte stands among others."""

from __future__ import annotations

import pytest

from mtkit.base.packed import places_of_byte, whole


def test_a_view_of_a_whole_object_is_that_object() -> None:
    data = b"abcd" * 9
    assert whole(memoryview(data)) is data
    assert whole(memoryview(data).cast("I").cast("B")) is data
    assert whole(memoryview(data)[1:]) == data[1:]
    assert whole(memoryview(bytearray(data))) == data


@pytest.mark.parametrize("data", [b"", b"a", b"b", b"aab", b"baa", b"abba", b"bab", b"babab"])
def test_places_of_a_byte(data: bytes) -> None:
    assert places_of_byte(data, ord("a")) == [at for at, c in enumerate(data) if c == ord("a")]
