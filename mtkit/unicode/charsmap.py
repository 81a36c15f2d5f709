"""SentencePiece's precompiled character map: a double-array trie over bytes to replacements.

Layout, little-endian: u32 trie size in bytes, the trie's units (u32), then replacements, each
ended by NUL. A unit holds a label (bits 0-7 and 31), whether a value hangs below it (bit 8), and
the offset to its children (bits 10-30, times 256 where bit 9 is set). The value, an index into the
replacements, is bits 0-30 of the unit at the offset itself.

Source: google/sentencepiece, normalizer.cc; the trie is s-yata/darts-clone's.
"""

from __future__ import annotations

from array import array
from sys import byteorder

from mtkit.errors import FormatError


class Charsmap:
    """A map that was checked once and can be asked for the matches at the start of some bytes."""

    def __init__(self, blob: bytes) -> None:
        """Read a map."""
        size = int.from_bytes(blob[:4], "little")
        if len(blob) < 4 or size > len(blob) - 4:
            raise FormatError(
                f"says its trie has {size} bytes, {max(len(blob) - 4, 0)} follow",
                field="precompiled_charsmap",
            )
        self._units = array("I", blob[4 : 4 + size // 4 * 4])
        if byteorder == "big":
            self._units.byteswap()
        if not self._units:
            raise FormatError("its trie is empty", field="precompiled_charsmap")
        self._replacements = blob[4 + size // 4 * 4 :]

    def matches(self, key: bytes) -> list[tuple[int, bytes]]:
        """Return (length, replacement) of every entry that ``key`` begins with, shortest first."""
        matches = []
        node = self._offset(self._unit(0))
        for at, byte in enumerate(key):
            if byte == 0:
                break
            node ^= byte
            unit = self._unit(node)
            if unit & 0x800000FF != byte:
                break
            node ^= self._offset(unit)
            if unit >> 8 & 1:
                matches.append((at + 1, self._replacement(self._unit(node) & 0x7FFFFFFF)))
        return matches

    def _unit(self, node: int) -> int:
        if node >= len(self._units):
            raise FormatError(
                f"its trie leads to unit {node}, it has {len(self._units)}",
                field="precompiled_charsmap",
            )
        return self._units[node]

    @staticmethod
    def _offset(unit: int) -> int:
        return (unit >> 10) << ((unit & 0x200) >> 6)

    def _replacement(self, index: int) -> bytes:
        if index > len(self._replacements):
            raise FormatError(
                f"a replacement begins at {index}, the last at most at {len(self._replacements)}",
                field="precompiled_charsmap",
            )
        end = self._replacements.find(b"\0", index)
        return self._replacements[index : end if end >= 0 else len(self._replacements)]
