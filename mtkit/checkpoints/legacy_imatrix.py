"""Importance matrices as llama-imatrix wrote them before GGUF: .dat, without a magic number.

i32 number of entries; each entry: i32 length and name of a tensor, i32 number of calls, i32 number
of values, that many f32 (sums of squares, of all experts one behind the other). Then, in younger
files, i32 number of chunks, i32 length and name of the file of text. A value divided by the calls
is the weight of its column; where there are no calls, the value is.
Source: llama.cpp, common/imatrix-loader.cpp (``common_imatrix_load_legacy``), tools/imatrix.
"""

from __future__ import annotations

from mtkit.base.binary import Reader
from mtkit.base.record import Record
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping

    from mtkit.base.binary import Source


_MOST_ENTRIES, _MOST_NAME = 1 << 20, 256
"""More than any model has; ggml's own names have at most 64 bytes."""


class LegacyMatrix(Record):
    """An importance matrix.

    Attributes:
        entries: Name of a tensor -> number of calls, and its values as the bytes of f32.
        chunks: Windows of text that it was made from; 0 where the file does not say.
        dataset: File of the text; empty where the file does not say.
    """

    entries: Mapping[str, tuple[int, memoryview]]
    chunks: int = 0
    dataset: str = ""


def sniff(source: Source) -> bool:
    """Tell by the first entry: a number of entries, and the name of a tensor."""
    head = bytes(source.data[: 8 + _MOST_NAME])
    entries, length = (int.from_bytes(head[at : at + 4], "little") for at in (0, 4))
    name = head[8 : 8 + length]
    is_name = name.isascii() and name.decode("latin-1").isprintable() and b" " not in name
    return (
        0 < entries <= _MOST_ENTRIES
        and 0 < length <= _MOST_NAME
        and len(name) == length
        and is_name
        and name.endswith((b".weight", b".bias"))
    )


def read(source: Source) -> LegacyMatrix:
    """Read a file.

    Raises:
        FormatError: It is damaged.
    """
    reader = Reader(source.data)
    entries: dict[str, tuple[int, memoryview]] = {}
    count = reader.i32("number of entries")
    for number in range(count):
        field = f"entry {number + 1} of {count}"
        name = reader.take(_size(reader, field), field).decode("utf-8", "surrogateescape")
        calls, values = reader.i32(f"{field}: calls"), _size(reader, f"{field}: values")
        if values < 1:
            raise FormatError("has no values", field=field, offset=reader.offset)
        entries[name] = calls, reader.view(4 * values, f"{field}: values")
    if not entries:
        raise FormatError("has no entries")
    if not reader.left:
        return LegacyMatrix(entries)
    chunks = reader.i32("number of chunks")
    dataset = b""
    if reader.left:
        dataset = reader.take(_size(reader, "dataset"), "dataset")
    return LegacyMatrix(entries, max(chunks, 0), dataset.decode("utf-8", "replace"))


def _size(reader: Reader, field: str) -> int:
    at = reader.offset
    size = reader.i32(field)
    if size < 0:
        raise FormatError(f"has the length {size}", field=field, offset=at)
    return reader.count(size, 1, field, at)
