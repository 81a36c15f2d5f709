"""The container behind the last byte that MNN's loader reads of a .mtok.

```
base   complete up to the post-processor block
pad    8 to 23 zero bytes, to a multiple of 16 of the file (64 more where the length is the bad one)
head   "MTKX", u32 version, u32 section count, u32 flags (0)
table  per section: char[4] tag, u32 flags (bit 0: a reader must know it), u64 offset, u64 length
data   sections, each at a multiple of 64 of the file
foot   u64 offset of head, u64 length of base, u32 CRC-32 of base, u32 CRC-32 of head to data,
       u64 length of the file, "MTKX", "END1"
```

Integers are little-endian, offsets count from the start of the file. The container is found from
its foot, at the end of the file. The loader takes the post-processor block for an older form when
exactly four bytes an entry follow its count, so the writer avoids that one length.
"""

from __future__ import annotations

import struct

from mtkit.base.record import Record
from mtkit.errors import FormatError, UnsupportedError, wording

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from mtkit.base.binary import Buffer

MARK = b"MTKX"
END = b"END1"
VERSION = 1
MUST_KNOW = 1
"""Section flag: a reader that does not know the tag must not use the file."""
SECTION_ALIGNMENT = 64
HEAD_ALIGNMENT = 16
_HEAD = struct.Struct("<4sIII")
_ENTRY = struct.Struct("<4sIQQ")
_FOOT = struct.Struct("<QQIIQ4s4s")


class Extension(Record):
    """The places of the sections; nothing behind the table has been read.

    Attributes:
        sections: Tag -> content, a view of the file.
        flags: Tag -> flags.
    """

    base_length: int
    sections: Mapping[str, memoryview]
    flags: Mapping[str, int]
    head: int
    base_crc: int
    crc: int

    def optional(self) -> dict[str, memoryview]:
        """Return the sections that a reader may skip."""
        return {tag: part for tag, part in self.sections.items() if not self.flags[tag] & MUST_KNOW}


def base_length(data: Buffer) -> int:
    """Return the length of the base of a file."""
    extension = find_extension(data)
    return len(data) if extension is None else extension.base_length


def find_extension(data: Buffer) -> Extension | None:
    """Find the container of a file; None where there is none.

    Only foot, head and table are read, whatever the size of the file.
    """
    view = memoryview(data).cast("B")
    size = len(view)
    if size < _FOOT.size or view[size - 8 :] != MARK + END:
        return None
    at = size - _FOOT.size
    head, base_length, base_crc, crc, file_length, _, _ = _FOOT.unpack_from(view, at)
    if file_length != size:
        what = f"says {file_length}, but the file has {size} bytes"
        raise _damage_error(what, "file length", at + 24)
    if not 0 < base_length <= head <= at - _HEAD.size or head % HEAD_ALIGNMENT:
        raise _damage_error(f"base of {base_length} bytes, head at {head}", "head offset", at)
    mark, version, count, _ = _HEAD.unpack_from(view, head)
    if mark != MARK:
        raise _damage_error(f"is {bytes(mark)!r}, not {MARK!r}", "head", head)
    if version != VERSION:
        raise UnsupportedError(
            f"is {version}, but this mtkit knows {VERSION}",
            field="extension version",
            offset=head + 4,
            hint=f"a newer mtkit reads it; {base_alone()}",
        )
    table = head + _HEAD.size
    if count > (at - table) // _ENTRY.size:
        raise _damage_error(f"is {count}, but the file ends before", "section count", head + 8)
    sections, flags = {}, {}
    lowest = table + count * _ENTRY.size
    for number in range(count):
        entry = table + number * _ENTRY.size
        raw, flag, offset, length = _ENTRY.unpack_from(view, entry)
        tag = raw.decode("latin-1")
        if offset % SECTION_ALIGNMENT or not lowest <= offset <= at or length > at - offset:
            raise _damage_error(f"{length} bytes at {offset} do not fit", f"section {tag}", entry)
        if tag in sections:
            raise _damage_error("is there twice", f"section {tag}", entry)
        sections[tag], flags[tag] = view[offset : offset + length], flag
    return Extension(base_length, sections, flags, head, base_crc, crc)


def verify_checksums(data: Buffer, extension: Extension) -> None:
    """Compare both checksums with the file."""
    from zlib import crc32

    view = memoryview(data).cast("B")
    foot = len(view) - _FOOT.size
    if crc32(view[: extension.base_length]) != extension.base_crc:
        raise _damage_error("checksum differs", "base", 0)
    if crc32(view[extension.head : foot]) != extension.crc:
        raise _damage_error("checksum differs", "data", extension.head)


def begins_extension(rest: memoryview) -> bool:
    """Tell whether what follows a base is the beginning of a container."""
    zeros = min(len(rest), 24)
    for at in range(8, zeros):
        if bytes(rest[at : at + 4]) == MARK:
            return not any(rest[:at])
    return False


def append_extension(
    base: bytes, sections: Sequence[tuple[str, int, bytes]], *, forbidden_length: int | None = None
) -> bytes:
    """Write a file of a base and sections (tag, flags, content)."""
    from zlib import crc32

    for extra in (0, SECTION_ALIGNMENT):
        head = -(-(len(base) + 8) // HEAD_ALIGNMENT) * HEAD_ALIGNMENT + extra
        table, body = b"", b""
        start = head + _HEAD.size + len(sections) * _ENTRY.size
        for tag, flags, content in sections:
            offset = -(-(start + len(body)) // SECTION_ALIGNMENT) * SECTION_ALIGNMENT
            body += bytes(offset - start - len(body)) + content
            table += _ENTRY.pack(tag.encode("latin-1"), flags, offset, len(content))
        inside = _HEAD.pack(MARK, VERSION, len(sections), 0) + table + body
        size = head + len(inside) + _FOOT.size
        if size - len(base) != forbidden_length:
            break
    foot = _FOOT.pack(head, len(base), crc32(base), crc32(inside), size, MARK, END)
    return base + bytes(head - len(base)) + inside + foot


def base_alone() -> str:
    """Return a hint: how to read what MNN reads."""
    return wording("--as mnn", 'reader="mnn"') + " reads the base alone"


def _damage_error(what: str, field: str, offset: int) -> FormatError:
    return FormatError(
        what,
        field=f"extension {field}" if field != "base" else field,
        offset=offset,
        hint=f"the file is damaged; {base_alone()}",
    )
