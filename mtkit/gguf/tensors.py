"""The tensor table of a GGUF file and where its data section lies."""

from __future__ import annotations

from math import prod

from mtkit.base.escape import is_utf8
from mtkit.base.record import Record
from mtkit.errors import FormatError
from mtkit.gguf.file import Finding, Tensor
from mtkit.gguf.names import read_name, shown
from mtkit.gguf.types import REMOVED_TENSOR_TYPES, TENSOR_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.gguf.array_reader import ArrayReader
    from mtkit.gguf.types import TensorType

MAX_AXES = 4
MAX_NAME_BYTES = 64
SIGNED_LIMIT = 1 << 63
"""llama.cpp keeps axes, element counts and sizes in signed 64 bits."""

_CHECKED_BYTES = 1 << 16


class Table(Record):
    """What follows from the tensor table."""

    tensors: tuple[Tensor, ...]
    data_offset: int
    trailing_bytes: int


def read_tensors(reader: ArrayReader, count: int, alignment: int, findings: list[Finding]) -> Table:
    """Read the tensor table and compare it with the bytes of the file.

    Raises:
        FormatError: It is damaged, or the data of a tensor is not in the file.
    """
    tensors: dict[str, Tensor] = {}
    places: dict[str, int] = {}
    for _ in range(count):
        at = reader.offset
        tensor = _read_tensor(reader, findings)
        if tensor.name in tensors:
            raise FormatError("is the name of two tensors", field=_label(tensor.name), offset=at)
        tensors[tensor.name] = tensor
        places[tensor.name] = at
    table_end, size = reader.offset, len(reader.data)
    data_offset = -(-table_end // alignment) * alignment
    end = data_offset if tensors else table_end
    for tensor in tensors.values():
        _check_place(tensor, places[tensor.name], data_offset, alignment, size)
        end = max(end, data_offset + tensor.offset + tensor.n_bytes)
    _look_for_overlaps(tensors, places, findings)

    padding = reader.data[table_end : min(data_offset, table_end + _CHECKED_BYTES)]
    if tensors and bytes(padding).strip(b"\0"):
        findings.append(Finding("padding", "is not all zero", table_end))
    trailing = size - end
    pad = bytes(reader.data[end : end + min(-end % alignment, _CHECKED_BYTES)])
    if not pad.strip(b"\0"):
        trailing = max(0, trailing - (-end % alignment))
    if trailing:
        findings.append(Finding("trailing bytes", f"{trailing} of them", size - trailing))
    return Table(tuple(tensors.values()), data_offset, trailing)


def _label(name: str) -> str:
    return f"tensor {shown(name)!r}"


def _read_tensor(reader: ArrayReader, findings: list[Finding]) -> Tensor:
    offset = reader.offset
    name = read_name(reader, "tensor name")
    label = _label(name)
    odd = _odd_name(name)
    if odd:
        findings.append(Finding(label, odd, offset))
    at = reader.offset
    axes = reader.u32(f"{label} (n_dims)")
    if axes > MAX_AXES:
        raise FormatError(f"has {axes} axes, at most {MAX_AXES}", field=label, offset=at)
    at = reader.offset
    shape = tuple(reader.size(f"{label} (shape)") for _ in range(axes))
    n_elements = prod(shape)
    if n_elements >= SIGNED_LIMIT or any(axis >= SIGNED_LIMIT for axis in shape):
        raise FormatError(f"has shape {shape}, 2^63 elements or more", field=label, offset=at)
    if not shape or not n_elements:
        what = "has an axis of length 0" if shape else "has no axis: one element"
        findings.append(Finding(label, what, at))
    at = reader.offset
    tensor_type = _tensor_type(reader.u32(f"{label} (type)"), label, at)
    row = shape[0] if shape else 1
    if row % tensor_type.block:
        raise FormatError(
            f"has {row} elements a row, {tensor_type.name} needs a multiple of {tensor_type.block}",
            field=label,
            offset=at,
        )
    data_at = reader.u64(f"{label} (offset)")
    n_bytes = n_elements // tensor_type.block * tensor_type.block_bytes
    return Tensor(name, shape, tensor_type, data_at, n_elements, n_bytes)


def _tensor_type(number: int, label: str, at: int) -> TensorType:
    if number in TENSOR_TYPES:
        return TENSOR_TYPES[number]
    removed = REMOVED_TENSOR_TYPES.get(number)
    raise FormatError(
        f"is of type {number} ({removed}), which ggml has removed"
        if removed
        else f"is of unknown type {number}",
        field=label,
        offset=at,
        hint="" if removed else "the file is damaged or newer than this mtkit",
    )


def _odd_name(name: str) -> str:
    if not name:
        return "has no name"
    if not is_utf8(name):
        return "has a name that is not UTF-8"
    if "\0" in name:
        return "has a NUL byte in its name, where C programs end it"
    length = len(name.encode("utf-8"))
    return f"has a name of {length} bytes, not {MAX_NAME_BYTES}" if length > MAX_NAME_BYTES else ""


def _check_place(tensor: Tensor, at: int, data_offset: int, alignment: int, size: int) -> None:
    if tensor.offset % alignment:
        raise FormatError(
            f"has its data at {tensor.offset}, no multiple of the alignment {alignment}",
            field=_label(tensor.name),
            offset=at,
        )
    left = size - data_offset - tensor.offset
    if left < tensor.n_bytes:
        raise FormatError(
            f"needs {tensor.n_bytes} bytes from {data_offset + tensor.offset} on, "
            f"the file has {max(left, 0)}",
            field=_label(tensor.name),
            offset=at,
            hint="the file is probably cut",
        )


def _look_for_overlaps(
    tensors: dict[str, Tensor], places: dict[str, int], findings: list[Finding]
) -> None:
    end, before = 0, ""
    for tensor in sorted(tensors.values(), key=lambda tensor: tensor.offset):
        if tensor.n_bytes and tensor.offset < end:
            what = f"shares bytes with {_label(before)}"
            findings.append(Finding(_label(tensor.name), what, places[tensor.name]))
        if tensor.offset + tensor.n_bytes > end:
            end, before = tensor.offset + tensor.n_bytes, tensor.name
