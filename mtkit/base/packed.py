"""Long immutable sequences kept as bytes: numbers and byte strings.

A vocabulary of 150,000 tokens as Python objects costs 15 MB and tens of milliseconds; packed it is
a view of the file. Both classes behave as sequences and compare by content.
"""

from __future__ import annotations

import sys
from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, chain
from operator import eq

from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.base.native import native as core

assert sys.byteorder == "little", "mtkit keeps numbers in the byte order of its files"

_LANES = 1024
"""Numbers that are compared at a time: few enough to stay in the processor's cache."""


class Numbers(Sequence["Any"]):
    """Numbers of one type, little-endian; ``code`` is a struct letter (B i I q f d)."""

    __slots__ = ("code", "data", "view")

    def __init__(self, code: str, data: Buffer) -> None:
        self.code = code
        self.data = memoryview(data).cast("B").toreadonly()
        self.view = self.data.cast(code)  # type: ignore[call-overload]  # any of these

    @classmethod
    def of(cls, code: str, values: Iterable[Any]) -> Numbers:
        """Pack values."""
        return cls(code, memoryview(array(code, values)).cast("B"))

    def __len__(self) -> int:
        return len(self.view)

    def __getitem__(self, index: Any) -> Any:
        return self.view[index] if isinstance(index, int) else self.view[index].tolist()

    def __iter__(self) -> Iterator[Any]:
        return iter(self.view)

    def pairs(self) -> Iterator[tuple[Any, Any]]:
        """Yield the numbers two at a time."""
        numbers = iter(self.view.tolist())
        return zip(numbers, numbers, strict=True)

    def below(self, limit: int) -> bool:
        """Tell whether all numbers (struct letter I) are below a limit of at most 2^31.

        Thousands are compared at a time, as one long integer with 32 bits for each: adding what is
        missing to 2^31 sets the highest bit of those that are not. Asking one by one takes six
        times as long, a good part of what reading a list of merges takes.
        """
        assert self.code == "I"
        lanes = min(_LANES, len(self)) or 1
        top = int.from_bytes(b"\0\0\0\x80" * lanes, "little")
        missing = int.from_bytes(((1 << 31) - limit).to_bytes(4, "little") * lanes, "little")
        for at in range(0, len(self.data), 4 * lanes):
            part = int.from_bytes(self.data[at : at + 4 * lanes], "little")
            if part & top or (part + missing) & top:
                return False
        return True

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Numbers):
            return NotImplemented
        return self.code == other.code and self.data == other.data

    def __hash__(self) -> int:
        return hash((self.code, self.data.tobytes()))

    def __reduce__(self) -> tuple[object, ...]:
        return Numbers, (self.code, self.data.tobytes())

    def __repr__(self) -> str:
        return f"Numbers({self.code!r}, {len(self)} of them)"


def whole(view: memoryview) -> bytes:
    """Return the bytes of a contiguous view, without a copy where it shows a whole bytes object."""
    owner = view.obj
    return owner if isinstance(owner, bytes) and len(owner) == view.nbytes else bytes(view)


def places_of_byte(data: bytes, byte: int) -> list[int]:
    """Return where a byte stands among others, ascending."""
    at, end = data.find(byte), data.rfind(byte) + 1
    if data.count(byte, max(at, 0), end) == end - at:  # as the ids of a type mostly are
        return list(range(at, end))
    places = []
    while at >= 0:
        places.append(at)
        at = data.find(byte, at + 1)
    return places


def narrowed(numbers: Numbers) -> Numbers:
    """Return doubles as float32 where that is exact for all, else as they are."""
    wide = array("d", numbers.data.tobytes())
    try:
        narrow = array("f", wide)
    except OverflowError:
        return numbers
    return Numbers.of("f", narrow) if array("d", narrow) == wide else numbers


class Pieces(Sequence[bytes]):
    """Byte strings in one blob; ``ends[i]`` is where string i ends and string i+1 begins."""

    __slots__ = ("_has_empty", "_ids", "_index", "blob", "ends")

    def __init__(self, blob: Buffer, ends: Numbers) -> None:
        self.blob = memoryview(blob).cast("B").toreadonly()
        self.ends = ends
        self._ids: dict[bytes, int] | None = None
        self._index: core.PieceIndex | None = None
        self._has_empty: bool | None = None

    @classmethod
    def of(cls, values: Iterable[bytes]) -> Pieces:
        """Pack byte strings."""
        items = list(values)
        ends = list(accumulate(map(len, items)))
        if ends and ends[-1] >= 1 << 32:
            raise FormatError(f"has {ends[-1]} bytes, but the limit is 4 GiB", field="vocabulary")
        return cls(b"".join(items), Numbers.of("I", ends))

    def __len__(self) -> int:
        return len(self.ends)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return self._several(range(*index.indices(len(self))))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(index)
        ends = self.ends.view
        return bytes(self.blob[ends[index - 1] if index else 0 : ends[index]])

    def _several(self, numbers: range) -> list[bytes]:
        if numbers.step != 1 or not numbers:
            return [self[number] for number in numbers]
        ends = self.ends.view[numbers.start : numbers.stop].tolist()
        start = self.ends.view[numbers.start - 1] if numbers.start else 0
        part = bytes(self.blob[start : ends[-1]])
        places = [end - start for end in ends]
        return list(map(part.__getitem__, map(slice, chain((0,), places), places)))

    def __iter__(self) -> Iterator[bytes]:
        ends = self.ends.view.tolist()
        return map(bytes(self.blob).__getitem__, map(slice, chain((0,), ends), ends))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Pieces):
            return NotImplemented
        return self.ends == other.ends and self.blob == other.blob

    def __hash__(self) -> int:
        return hash((self.blob.tobytes(), self.ends))

    def __reduce__(self) -> tuple[object, ...]:
        return Pieces, (self.blob.tobytes(), self.ends)

    def __repr__(self) -> str:
        return f"Pieces({len(self)} of them)"

    def has_empty(self) -> bool:
        """Tell whether a byte string has no bytes."""
        if self._has_empty is None:
            ends = self.ends.view.tolist()
            self._has_empty = any(map(eq, chain((0,), ends), ends))
        return self._has_empty

    def indexed(self) -> core.PieceIndex:
        """Return the core's table of them, 12 to 24 bytes each, made on first use."""
        if self._index is None:
            from mtkit.base.native import native

            self._index = native.PieceIndex(self.blob, self.ends.data)
        return self._index

    def places(self, strings: Iterable[bytes]) -> list[int]:
        """Return where any of a few strings stands, rising; makes no index of all."""
        texts = frozenset(strings)
        if self._index is not None and self._index.distinct:
            places = map(self._index.find, texts)
            return sorted(number for number in places if number is not None)
        try:
            from mtkit.base.native import native
        except ImportError:
            return [number for number, piece in enumerate(self) if piece in texts]
        return native.places_of(self.blob, self.ends.data, list(texts))

    def are_distinct(self) -> bool:
        """Tell whether no two strings are equal."""
        try:
            return self.indexed().distinct
        except ImportError:
            return len(set(self)) == len(self)

    def find(self, text: bytes) -> int | None:
        """Return where a string stands, the first of equal ones, or None."""
        if self._ids is not None:
            return self._ids.get(text)
        if self._index is not None:
            return self._index.find(text)
        return next(iter(self.places([text])), None)

    @property
    def ids(self) -> dict[bytes, int]:
        """Piece -> id, made on first use; of equal pieces the first counts."""
        if self._ids is None:
            items = list(self)
            ids = dict(zip(items, range(len(items)), strict=True))
            if len(ids) < len(items):
                ids = {}
                for number, piece in enumerate(items):
                    ids.setdefault(piece, number)
            self._ids = ids
        return self._ids
