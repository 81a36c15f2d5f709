"""Reading a GGUF file: header, metadata, tensor table, held to the rules of ``rules``.

Layout (versions 2 and 3): "GGUF", u32 version, u64 tensor count, u64 key count; per key: name,
u32 type, value; per tensor: name, u32 axis count, u64 per axis, u32 type, u64 offset; padding;
data. A string is u64 length and bytes. Version 1 has u32 for all counts, lengths and axes. Version
3 may be big-endian but for the magic; no flag says so, the version read the other way does.

No count is trusted before its bytes are known to be there. What is sound in itself is read,
whatever else is wrong, so that one pass serves strict and tolerant readers.

Source: docs/gguf.md of ggml; gguf.cpp and llama-model-loader.cpp of llama.cpp.
"""

from __future__ import annotations

import os
from collections import Counter
from functools import cache
from math import prod
from struct import Struct

from mtkit.base.binary import Source
from mtkit.base.escape import quoted, shown
from mtkit.base.idioms import explained
from mtkit.base.record import replace
from mtkit.base.rules import BrokenRule, Findings
from mtkit.gguf import rules
from mtkit.gguf.arrays import LENGTH_STRUCTS, ArrayReader, read_array
from mtkit.gguf.file import Entry, GgufFile, Header, Section, Tensor, Tensors, read_version
from mtkit.gguf.rules import AXES, LOOKED_AT_BYTES
from mtkit.gguf.types import ARRAY, BOOL, STRING, TENSOR_TYPES, VALUE_TYPES, TensorType, fork_type

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mtkit.gguf.file import TensorData
    from mtkit.gguf.types import ValueType


def read_tensor(reader: ArrayReader) -> Tensor:
    """Read a row of the table; a type that is not known, or a fork's, is one of no bytes."""
    row = reader.offset
    name = reader.text("tensor name")
    label = f"tensor {quoted(name)}"
    at = reader.offset
    axes = reader.u32(label)
    AXES.demand(axes, field=label, offset=at)
    shape_at = reader.offset
    rest = _row_struct(reader.length.format, axes)
    *axis, number, offset = rest.unpack(reader.view(rest.size, label))
    shape, type_at = tuple(axis), reader.offset - 12
    tensor_type = (
        TENSOR_TYPES.get(number)
        or fork_type(number)
        or TensorType(number, f"unknown ({number})", 1, 0)
    )
    n_elements = prod(shape)
    n_bytes = n_elements // tensor_type.block * tensor_type.block_bytes
    places = row, shape_at, type_at
    return Tensor(name, shape, tensor_type, offset, n_elements, n_bytes, places)


@cache
def _row_struct(length: str, axes: int) -> Struct:
    """Return the layout of a row behind the number of its axes."""
    return Struct(f"{length[0]}{axes}{length[1]}IQ")


def read_section(file: GgufFile, table_end: int) -> Section:
    """Return the place of the data, and of the bytes around it."""
    alignment, size, tensors = file.alignment, len(file.data), file.tensors
    start = -(-table_end // alignment) * alignment
    end = max([start + t.offset + t.n_bytes for t in tensors], default=table_end)
    looked_at = min(start, table_end + LOOKED_AT_BYTES) if tensors else table_end
    trailing = size - end
    pad = bytes(file.data[end : end + min(-end % alignment, LOOKED_AT_BYTES)])
    if not pad.strip(b"\0"):
        trailing -= -end % alignment
    return Section(
        table_end=table_end,
        start=start,
        size=size,
        alignment=alignment,
        shared=_find_overlaps(tensors),
        padding=bytes(file.data[table_end:looked_at]),
        trailing_bytes=max(0, trailing),
    )


def _decode(section: TensorData, tensor: Tensor) -> Any:
    from mtkit.gguf.values import tensor_array

    return tensor_array(tensor, section.bytes_of(tensor), section.byte_order, section.source)


def _with_sizes(file: GgufFile, table_end: int) -> Tensors:
    """Return the tensors, those of a fork's type with the bytes up to the next tensor's.

    How large its blocks are only the fork knows; some types have a scale for each row besides.
    """
    if not any(tensor.type.origin for tensor in file.tensors):
        return file.tensors
    end = len(file.data) - -(-table_end // file.alignment) * file.alignment
    starts = sorted({tensor.offset for tensor in file.tensors})
    following = dict(zip(starts, [*starts[1:], end], strict=True))
    tensors = Tensors(
        replace(tensor, n_bytes=max(0, min(following[tensor.offset], end) - tensor.offset))
        if tensor.type.origin
        else tensor
        for tensor in file.tensors
    )
    file.names.update((tensor.name, tensor) for tensor in tensors)
    return tensors


def _find_overlaps(tensors: Iterable[Tensor]) -> dict[int, Tensor]:
    """Return offset of a row -> earlier tensor, where the data of the two overlaps."""
    end, owner = 0, None
    overlaps: dict[int, Tensor] = {}
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if owner and tensor.n_bytes and tensor.offset < end:
            overlaps[tensor.places[0]] = owner
        if tensor.offset + tensor.n_bytes > end:
            end, owner = tensor.offset + tensor.n_bytes, tensor
    return overlaps


@explained
def open_gguf(source: str | os.PathLike[str] | Source, *, strict: bool = True) -> GgufFile:
    """Map a GGUF file and read its header, metadata and tensor table.

    Arrays and tensor data stay in the file.

    Args:
        source: A path, "-" or a ``Source``.
        strict: Raise the first error. Otherwise, keep errors in ``GgufFile.findings`` and read as
            much as is safe.

    Raises:
        FormatError: The file is damaged or not a GGUF.
        UsageError: The file does not exist or cannot be read.
    """
    if not isinstance(source, Source):
        source = Source.open(os.fspath(source))
    file = GgufFile(source.name, memoryview(source.data).cast("B").toreadonly())
    findings = Findings(strict=strict)
    finished = findings.hold(rules.UNFINISHED, source.name, field="")
    try:
        file.is_whole = _read_tables(file, findings)
    except BrokenRule as error:
        if strict:
            if not finished:
                error.hint = rules.UNFINISHED.advice
            error.located(source.name)
            raise
        findings.add(error.finding)
    file.findings = tuple(findings.entries)
    return file


def _read_tables(file: GgufFile, findings: Findings) -> bool:
    """Read all but the data; return whether every key and tensor was read."""
    file.version, big_endian = read_version(file.data)
    file.byte_order = "big" if big_endian else "little"
    length = LENGTH_STRUCTS[file.version > 1, big_endian]
    reader = ArrayReader(file.data, length, big_endian=big_endian, offset=8)
    tensor_count, key_count = reader.size("tensor_count"), reader.size("metadata_kv_count")
    header = Header(tensor_count, key_count, length.size, reader.offset)
    findings.check(rules.HEADER, header, file)
    for _ in range(min(key_count, rules.MAX_ENTRIES)):
        _take_entry(file, _read_entry(reader), findings)
    if key_count > rules.MAX_ENTRIES:
        return False
    file.metadata_end = reader.offset
    tensors = []
    try:
        for _ in range(min(tensor_count, rules.MAX_ENTRIES)):
            tensor = read_tensor(reader)
            file.names.setdefault(tensor.name, tensor)
            if not rules.is_plain(tensor.name):
                findings.check(rules.NAME, tensor, file)
            if findings.check(rules.TENSOR, tensor, file):
                tensors.append(tensor)
    finally:
        file.tensors = Tensors(tensors)
    if tensor_count > rules.MAX_ENTRIES:
        return False
    file.tensors = _with_sizes(file, reader.offset)
    section = read_section(file, reader.offset)
    for tensor in file.tensors:
        findings.check(rules.PLACE, tensor, section)
    forks = [tensor for tensor in file.tensors if tensor.type.origin]
    for tensor_type, count in Counter(tensor.type for tensor in forks).items():
        field, at = next(t.place("type") for t in forks if t.type == tensor_type)
        findings.hold(rules.FORK_TYPE, tensor_type, count, field=field, offset=at)
    findings.check(rules.SECTION, section, file)
    file.data_offset, file.trailing_bytes = section.start, section.trailing_bytes
    file.share_data(_decode)
    return True


def _take_entry(file: GgufFile, entry: Entry, findings: Findings) -> None:
    """Hold an entry to the rules and put it into the metadata."""
    file.metadata.entries.setdefault(entry.key, entry)
    key_rules = (*rules.ENTRY, *rules.KEYS.get(entry.key, ()))
    if findings.check(key_rules, entry, file) and entry.key == rules.ALIGNMENT:
        file.alignment = entry.value


def _read_entry(reader: ArrayReader) -> Entry:
    offset = reader.offset
    key = reader.text("key")
    name = shown(key)
    at = reader.offset
    number = reader.u32(f"{name} (type)")
    rules.VALUE_TYPE.demand(number, field=name, offset=at)
    value_type, at = VALUE_TYPES[number], reader.offset
    return Entry(key, value_type, _read_value(reader, name, value_type), offset, at)


def _read_value(reader: ArrayReader, name: str, value_type: ValueType) -> Any:
    if value_type is STRING:
        return reader.text(name)
    if value_type is ARRAY:
        return read_array(reader, name)
    value = reader.scalar(value_type.code, name)
    return bool(value) if value_type is BOOL else value
