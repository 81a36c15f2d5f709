"""The reader of a GGUF: lengths and counts are as wide as the version of the file has them."""

from __future__ import annotations

import struct

from mtkit.base.binary import Reader
from mtkit.base.escape import as_text
from mtkit.gguf.rules import STRING_LENGTH

LENGTHS = {(wide, big): struct.Struct(f"{'>' if big else '<'}{'Q' if wide else 'I'}")
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
