"""Strings of an array: each a length and its bytes, without an index.

They are walked once, which proves that all of them lie in the file; every 256th position is kept.
The native core does the same ten times faster; what it refuses is walked again here, for the
words. Without it the loops below take 0.07 s a million.
"""

from __future__ import annotations

import struct
from itertools import accumulate

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

    from mtkit.gguf.array_reader import ArrayReader

BLOCK = 256
"""A position is kept for every so many strings."""

_FEW = 4096
"""Fewer strings than this are not worth loading the native core."""


def walk(reader: ArrayReader, field: str, count: int) -> Sequence[int]:
    """Move behind the strings; return the offset of every ``BLOCK``-th.

    Raises:
        FormatError: One of them is not in the file.
    """
    native = _native(count)
    if native is not None:
        wide = reader.length.size == 8
        try:
            end, marks = native.walk_strings(
                reader.data, reader.offset, count, wide, reader.big_endian, BLOCK
            )
        except FormatError:
            return _walk(reader, field, count)
        reader.offset = end
        positions: Sequence[int] = Numbers("Q", marks).view
        return positions
    return _walk(reader, field, count)


def _walk(reader: ArrayReader, field: str, count: int) -> list[int]:
    unpack, width, data = reader.length.unpack_from, reader.length.size, reader.data
    at, size, marks = reader.offset, len(data), []
    for first in range(0, count, BLOCK):
        marks.append(at)
        many = min(BLOCK, count - first)
        try:
            for _ in range(many):
                at += width + unpack(data, at)[0]
        except (struct.error, OverflowError):  # a length led past the end of the file
            at = size + 1
        if at > size:  # once more, with words
            reader.offset = marks[-1]
            for index in range(first, first + many):
                reader.view(reader.size(f"{field}[{index}]"), f"{field}[{index}]")
    reader.offset = at
    return marks


def pack(reader: ArrayReader, start: int, end: int, count: int) -> Pieces:
    """Return the strings between two offsets, which ``walk`` has seen.

    Raises:
        FormatError: They are longer than 4 GiB together.
    """
    length = reader.length
    if end - start - length.size * count >= 1 << 32:
        raise FormatError("has strings of more than 4 GiB", field="array", offset=start)
    native = _native(count)
    if native is not None:
        blob, ends = native.pack_strings(
            reader.data, start, count, length.size == 8, reader.big_endian
        )
        return Pieces(blob, Numbers("I", ends))
    unpack, width = length.unpack_from, length.size
    data = bytes(reader.data[start:end])
    at, items = 0, []
    for _ in range(count):
        begin = at + width
        at = begin + unpack(data, at)[0]
        items.append(data[begin:at])
    return Pieces(b"".join(items), Numbers.of("I", accumulate(map(len, items))))


def _native(count: int) -> ModuleType | None:
    if count < _FEW:
        return None
    try:
        from mtkit.base.native import native
    except ImportError:
        return None
    return native
