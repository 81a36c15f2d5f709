"""Reading a GGUF file: header, metadata, tensor table, with every rule about them.

Layout (versions 2 and 3): "GGUF", u32 version, u64 tensor count, u64 key count; per key: name,
u32 type, value; per tensor: name, u32 axis count, u64 per axis, u32 type, u64 offset; padding;
data. A string is u64 length and bytes. Version 1 has u32 for all counts, lengths and axes. Version
3 may be big-endian but for the magic; no flag says so, the version read the other way does.

What the format document or llama.cpp accepts is read; where the two or common readers differ, a
finding says so. No count is believed before the bytes that it needs are seen to be there.
Source: docs/gguf.md of ggml; gguf.cpp and llama-model-loader.cpp of llama.cpp.
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.escape import is_utf8
from mtkit.errors import FormatError
from mtkit.gguf.array_reader import LENGTHS, ArrayReader
from mtkit.gguf.arrays import read_array
from mtkit.gguf.file import Entry, Finding, GgufFile, Metadata
from mtkit.gguf.magic import check_magic
from mtkit.gguf.names import read_name, shown
from mtkit.gguf.tensors import read_tensors
from mtkit.gguf.types import ARRAY, BOOL, I8, I16, I32, I64, STRING, U8, U16, U32, U64, VALUE_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from typing import Any

    from mtkit.gguf.types import ValueType

DEFAULT_ALIGNMENT = 32
MAX_ENTRIES = 1 << 18
"""Keys or tensors in one file; reading more would take seconds, the largest models have 2^16."""

MAX_KEY_BYTES = 65535
_INTEGERS = (U8, I8, U16, I16, U32, I32, U64, I64)
_KEY_LETTERS = frozenset("abcdefghijklmnopqrstuvwxyz0123456789_.-")
_CHECKED_BYTES = 1 << 16
"""How much of a padding or of an array of bool is looked at for a warning."""


def open_gguf(source: str | os.PathLike[str] | Source) -> GgufFile:
    """Map a GGUF file and read its header, metadata and tensor table.

    Arrays and tensor data stay in the file. ``source`` is a path, "-" or a ``Source``.

    Raises:
        FormatError: The file is damaged or no GGUF.
        UsageError: It does not exist or cannot be read.
    """
    if not isinstance(source, Source):
        source = Source.open(source if isinstance(source, str) else source.__fspath__())
    try:
        return _read(memoryview(source.data).cast("B").toreadonly(), source.name)
    except FormatError as error:
        error.located(source.name)
        raise


def _read(data: memoryview, name: str) -> GgufFile:
    version, big_endian = check_magic(data)
    length = LENGTHS[version > 1, big_endian]
    reader = ArrayReader(data, length, big_endian=big_endian, offset=8)
    findings: list[Finding] = []

    counts = []
    for field, smallest in (
        ("tensor_count", 2 * length.size + 16),  # no axis, no letter
        ("metadata_kv_count", length.size + 6),  # one letter, one byte
    ):
        counts.append((field, smallest, reader.offset, reader.size(field)))
    (_, smallest_tensor, at, tensor_count), (_, smallest_key, key_at, key_count) = counts
    reader.count(key_count, smallest_key, "metadata_kv_count", key_at)
    reader.count(tensor_count, smallest_tensor, "tensor_count", at)
    for field, many, where in (
        ("metadata_kv_count", key_count, key_at),
        ("tensor_count", tensor_count, at),
    ):
        if many > MAX_ENTRIES:
            raise FormatError(f"is {many}, the limit is {MAX_ENTRIES}", field=field, offset=where)

    entries: dict[str, Entry] = {}
    for _ in range(key_count):
        entry = _read_entry(reader, findings)
        if entry.key in entries:
            raise FormatError("stands twice", field=shown(entry.key), offset=entry.offset)
        entries[entry.key] = entry
    alignment = _alignment(entries.get("general.alignment"), findings)
    table = read_tensors(reader, tensor_count, alignment, findings)
    return GgufFile(
        name=name,
        data=data,
        version=version,
        byte_order="big" if big_endian else "little",
        alignment=alignment,
        data_offset=table.data_offset,
        metadata=Metadata(entries),
        tensors=table.tensors,
        trailing_bytes=table.trailing_bytes,
        warnings=tuple(findings),
    )


def _read_entry(reader: ArrayReader, findings: list[Finding]) -> Entry:
    offset = reader.offset
    key = read_name(reader, "key")
    if not key:
        raise FormatError("is empty", field="key", offset=offset)
    name = shown(key)
    if not _KEY_LETTERS.issuperset(key):
        findings.append(Finding(name, _odd_key(key), offset))
    if len(key) > MAX_KEY_BYTES:
        findings.append(Finding(name, f"a key of {len(key)} bytes, not {MAX_KEY_BYTES}", offset))
    at = reader.offset
    number = reader.u32(f"{name} (type)")
    value_type = VALUE_TYPES.get(number)
    if value_type is None:
        raise FormatError(f"is of unknown type {number}", field=name, offset=at)
    at = reader.offset
    value = _read_value(reader, name, value_type)
    odd = _odd_value(reader, value_type, value, at)
    if odd:
        findings.append(Finding(name, odd, at))
    return Entry(key, value_type, value, offset)


def _read_value(reader: ArrayReader, name: str, value_type: ValueType) -> Any:
    if value_type is STRING:
        return read_name(reader, name)
    if value_type is ARRAY:
        return read_array(reader, name)
    value = reader.scalar(value_type.code, name)
    return bool(value) if value_type is BOOL else value


def _odd_key(key: str) -> str:
    if "\0" in key:
        return "a key with a NUL byte, where C programs end it"
    if not is_utf8(key):
        return "a key that is not UTF-8"
    return "a key with other characters than a-z 0-9 _ . -"


def _odd_value(reader: ArrayReader, value_type: ValueType, value: Any, at: int) -> str:
    """What is against the letter of the format in a value, or nothing."""
    if value_type is STRING and not is_utf8(value):
        return "a string that is not UTF-8"
    if value_type is BOOL and reader.data[at] > 1:
        return f"a bool of byte {reader.data[at]}, taken as true"
    if value_type is ARRAY and value.element is BOOL:
        start = reader.data[value.offset : min(value.end, value.offset + _CHECKED_BYTES)]
        if bytes(start).translate(None, b"\0\1"):
            return "an array of bool with other bytes than 0 and 1, taken as true"
    return ""


def _alignment(entry: Entry | None, findings: list[Finding]) -> int:
    """Check ``general.alignment``.

    The format document wants u32 and a multiple of 8, llama.cpp u32 and a power of two; what
    satisfies neither is refused.
    """
    if entry is None:
        return DEFAULT_ALIGNMENT
    if entry.type not in _INTEGERS:
        raise FormatError(
            f"is a value of type {entry.type.name}, not u32", field=entry.key, offset=entry.offset
        )
    value: int = entry.value
    power = value > 0 and value & (value - 1) == 0
    if value <= 0 or not (power or value % 8 == 0):
        raise FormatError(
            f"is {value}, neither a power of two nor a multiple of 8",
            field=entry.key,
            offset=entry.offset,
        )
    if entry.type is not U32:
        findings.append(Finding(entry.key, f"is of type {entry.type.name}, not u32", entry.offset))
    if not power:
        findings.append(Finding(entry.key, f"is {value}, no power of two", entry.offset))
    elif value % 8:
        findings.append(Finding(entry.key, f"is {value}, no multiple of 8", entry.offset))
    return value
