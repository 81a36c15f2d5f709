"""Arrays of GGUF metadata, which stay in the file until they are needed.

An array is u32 element type, count, elements; a string element is a length and its bytes, a nested
array brings type and count of its own. Numbers are viewed in place (copied only when the file's
byte order is not the machine's). Lengths and counts are as wide as the version of the file has
them.

Strings have no index. They are walked once, which proves that all of them lie in the file; every
256th position is kept.
"""

from __future__ import annotations

import struct
from array import array
from collections.abc import Iterator, Sequence
from itertools import accumulate

from mtkit.base.binary import Reader
from mtkit.base.escape import as_text
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError
from mtkit.gguf.rules import DEPTH, ELEMENT_TYPE, NESTED, STRING_LENGTH, STRINGS
from mtkit.gguf.types import ARRAY, BOOL, STRING, VALUE_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType
    from typing import Any

    from mtkit.gguf.types import ValueType


LENGTH_STRUCTS = {(wide, big): struct.Struct(f"{'>' if big else '<'}{'Q' if wide else 'I'}")
           for wide in (False, True) for big in (False, True)}  # fmt: skip
"""Lengths and counts: 32 bits in version 1, 64 since."""


class ArrayReader(Reader):
    """A reader that knows how wide lengths and counts are in this file."""

    def __init__(
        self, data: memoryview, length: struct.Struct, *, big_endian: bool, offset: int
    ) -> None:
        super().__init__(data, big_endian=big_endian, offset=offset)
        self.length = length
        self.big_endian = big_endian

    def size(self, field: str) -> int:
        """Read a length or a count."""
        value: int = self.length.unpack(self.view(self.length.size, field))[0]
        return value

    def text(self, field: str) -> str:
        """Read a string as text with surrogate escapes."""
        at = self.offset
        size = self.size(field)
        STRING_LENGTH.demand(size, field=field, offset=at)
        return as_text(self.take(size, field))


STRING_BLOCK = 256
"""A position is kept for every so many strings."""

FEWEST_NATIVE = 4096
"""Fewer strings than this are not worth loading the native core."""


def walk_strings(reader: ArrayReader, field: str, count: int) -> Sequence[int]:
    """Move behind the strings; return the offset of every ``STRING_BLOCK``-th."""
    native = native_core(count)
    if native is None:
        return _walk_in_python(reader, field, count)
    wide = reader.length.size == 8
    # Ten times as fast as Python, which takes 0.07 s a million; what it refuses Python walks again,
    # for the words of the error.
    try:
        end, marks = native.walk_strings(
            reader.data, reader.offset, count, wide, reader.big_endian, STRING_BLOCK
        )
    except FormatError:
        return _walk_in_python(reader, field, count)
    reader.offset = end
    positions: Sequence[int] = Numbers("Q", marks).view
    return positions


def _walk_in_python(reader: ArrayReader, field: str, count: int) -> list[int]:
    unpack, width, data = reader.length.unpack_from, reader.length.size, reader.data
    at, size, marks = reader.offset, len(data), []
    for first in range(0, count, STRING_BLOCK):
        marks.append(at)
        many = min(STRING_BLOCK, count - first)
        try:
            for _ in range(many):
                at += width + unpack(data, at)[0]
        except (struct.error, OverflowError):  # a length led past the end of the file
            at = size + 1
        if at > size:  # read the block again, to raise with the string's index
            reader.offset = marks[-1]
            for index in range(first, first + many):
                reader.view(reader.size(f"{field}[{index}]"), f"{field}[{index}]")
    reader.offset = at
    return marks


def pack_strings(reader: ArrayReader, start: int, end: int, count: int) -> Pieces:
    """Return the strings between two offsets, which ``walk_strings`` has checked."""
    length = reader.length
    if end - start - length.size * count >= 1 << 32:
        raise FormatError("has strings of more than 4 GiB", field="array", offset=start)
    native = native_core(count)
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


def native_core(count: int) -> ModuleType | None:
    """Return the native core for so many strings; None for few, or where it is not built."""
    if count < FEWEST_NATIVE:
        return None
    try:
        from mtkit.base.native import native
    except ImportError:
        return None
    return native


class GgufArray(Sequence["Any"]):
    """One array of the metadata: a sequence of int, float, bool, str or ``GgufArray``.

    Strings come as ``str`` with surrogate escapes for bytes that are not valid UTF-8; ``raw`` and
    ``pieces`` give the bytes.

    Attributes:
        offset: Of the first element, in bytes from the start of the file.
    """

    __slots__ = (
        "_children", "_count", "_marks", "_numbers", "_pieces", "_reader",
        "element", "end", "offset",
    )  # fmt: skip

    def __init__(
        self, element: ValueType, count: int, marks: Sequence[int], reader: ArrayReader
    ) -> None:
        self.element = element
        self.offset = marks[0]
        self.end = reader.offset
        self._count = count
        self._marks = marks
        self._reader = reader
        self._numbers: Numbers | None = None
        self._pieces: Pieces | None = None
        self._children: list[GgufArray] | None = None

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._count))]
        if index < 0:
            index += self._count
        if not 0 <= index < self._count:
            raise IndexError(index)
        if self.element is STRING:
            return as_text(self.raw(index))
        if self.element is ARRAY:
            return self.children()[index]
        value = self.numbers().view[index]
        return bool(value) if self.element is BOOL else value

    def __iter__(self) -> Iterator[Any]:
        if self.element is STRING:
            return (as_text(raw) for raw in self.raws())
        if self.element is ARRAY:
            return iter(self.children())
        numbers = iter(self.numbers())
        return map(bool, numbers) if self.element is BOOL else numbers

    def __repr__(self) -> str:
        return f"GgufArray({self.element.name!r}, {self._count} of them at {self.offset})"

    def numbers(self) -> Numbers:
        """Return the elements of an array of numbers; bool as 0 and another byte."""
        assert self.element.code, "strings and arrays are not numbers"
        if self._numbers is None:
            view = self._reader.data[self.offset : self.end]
            if self.element.size > 1 and self._reader.big_endian:
                swapped = array(self.element.code, view.tobytes())
                swapped.byteswap()
                view = memoryview(swapped).cast("B")
            self._numbers = Numbers(self.element.code, view)
        return self._numbers

    def raw_bytes(self) -> bytes:
        """Return the bytes of all elements as the file has them, lengths of strings included."""
        return bytes(self._reader.data[self.offset : self.end])

    def raw(self, index: int) -> bytes:
        """Return the bytes of one string; ``0 <= index < len``."""
        data, length = self._reader.data, self._reader.length
        at = self._marks[index // STRING_BLOCK]
        for _ in range(index % STRING_BLOCK):
            at += length.size + length.unpack_from(data, at)[0]
        start: int = at + length.size
        return bytes(data[start : start + length.unpack_from(data, at)[0]])

    def raws(self) -> Iterator[bytes]:
        """Iterate over the bytes of an array of strings."""
        assert self.element is STRING, f"an array of {self.element.name}"
        length = self._reader.length
        unpack, width, data = length.unpack_from, length.size, self._reader.data
        at = self.offset
        for _ in range(self._count):
            start = at + width
            at = start + unpack(data, at)[0]
            yield bytes(data[start:at])

    def pieces(self) -> Pieces:
        """Return an array of strings as packed byte strings: a copy, made once."""
        assert self.element is STRING, f"an array of {self.element.name}"
        if self._pieces is None:
            self._pieces = pack_strings(self._reader, self.offset, self.end, self._count)
        return self._pieces

    def children(self) -> list[GgufArray]:
        """Return the arrays of an array of arrays."""
        assert self.element is ARRAY, f"an array of {self.element.name}"
        if self._children is None:
            own = self._reader
            inner = ArrayReader(own.data, own.length, big_endian=own.big_endian, offset=self.offset)
            self._children = [read_array(inner, "") for _ in range(self._count)]
        return self._children


def read_array(reader: ArrayReader, field: str) -> GgufArray:
    """Read an array and move behind it; nothing is allocated for its elements."""
    element, count = _read_head(reader, field)
    marks: Sequence[int] = (reader.offset,)
    if element is ARRAY:
        _skip_nested(reader, field, count)
    else:
        marks = _skip_flat(reader, field, element, count)
    return GgufArray(element, count, marks, reader)


def _read_head(reader: ArrayReader, field: str) -> tuple[ValueType, int]:
    at = reader.offset
    number = reader.u32(field)
    ELEMENT_TYPE.demand(number, field=field, offset=at)
    element = VALUE_TYPES[number]
    at = reader.offset
    count = reader.size(field)
    smallest = element.size or reader.length.size + (4 if element is ARRAY else 0)
    reader.count(count, smallest, f"{field} (count)", at)
    return element, count


def _skip_flat(reader: ArrayReader, field: str, element: ValueType, count: int) -> Sequence[int]:
    """Move behind numbers or strings; return the offset of every ``STRING_BLOCK``-th string."""
    start = reader.offset
    if element is not STRING:
        reader.offset += count * element.size  # _read_head compared the count with what is left
        return (start,)
    STRINGS.demand(count, field=field, offset=start)
    return walk_strings(reader, field, count) or (start,)


def _skip_nested(reader: ArrayReader, field: str, count: int) -> None:
    """Move behind ``count`` arrays; a stack of counts instead of recursion."""
    stack, total = [count], 0
    while stack:
        if not stack[-1]:
            stack.pop()
            continue
        stack[-1] -= 1
        total += 1
        DEPTH.demand(len(stack), field=field, offset=reader.offset)
        NESTED.demand(total, field=field, offset=reader.offset)
        element, inner = _read_head(reader, field)
        if element is ARRAY:
            stack.append(inner)
        else:
            _skip_flat(reader, field, element, inner)


def metadata_array(metadata: Mapping[str, Any], key: str, element: str) -> Sequence[Any]:
    """Return the array of a key; nothing where there is none, or elements of another type."""
    value = metadata.get(key)
    if not isinstance(value, GgufArray) or value.element.name != element:
        return ()
    return value
