"""The tensor table of a GGUF file and where its data section lies."""

from __future__ import annotations

from functools import cache
from math import prod
from struct import Struct

from mtkit.base.escape import quoted
from mtkit.gguf.file import Section, Tensor
from mtkit.gguf.rules import AXES, LOOKED_AT_BYTES
from mtkit.gguf.types import TENSOR_TYPES, TensorType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.gguf.array_reader import ArrayReader
    from mtkit.gguf.file import GgufFile


def read_tensor(reader: ArrayReader) -> Tensor:
    """Read a row of the table; a type that is not known is one of no bytes.

    Raises:
        BrokenRule: It is not in the file, or has more axes than a row can be trusted with.
    """
    row = reader.offset
    name = reader.text("tensor name")
    label = f"tensor {quoted(name)}"
    at = reader.offset
    axes = reader.u32(label)
    AXES.demand(axes, field=label, offset=at)
    shape_at = reader.offset
    rest = _rest(reader.length.format, axes)
    *axis, number, offset = rest.unpack(reader.view(rest.size, label))
    shape, type_at = tuple(axis), reader.offset - 12
    tensor_type = TENSOR_TYPES.get(number) or TensorType(number, f"unknown ({number})", 1, 0)
    n_elements = prod(shape)
    n_bytes = n_elements // tensor_type.block * tensor_type.block_bytes
    places = row, shape_at, type_at
    return Tensor(name, shape, tensor_type, offset, n_elements, n_bytes, places)


@cache
def _rest(length: str, axes: int) -> Struct:
    """Return the layout of a row behind the number of its axes."""
    return Struct(f"{length[0]}{axes}{length[1]}IQ")


def data_section(file: GgufFile, table_end: int) -> Section:
    """Return where the data of the tensors is."""
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
        shared=_overlaps(tensors),
        padding=bytes(file.data[table_end:looked_at]),
        trailing_bytes=max(0, trailing),
    )


def _overlaps(tensors: Iterable[Tensor]) -> dict[int, Tensor]:
    """Return row -> tensor in front, of each whose data begins before that one's ends."""
    end, before = 0, None
    found: dict[int, Tensor] = {}
    for tensor in sorted(tensors, key=lambda tensor: tensor.offset):
        if before and tensor.n_bytes and tensor.offset < end:
            found[tensor.places[0]] = before
        if tensor.offset + tensor.n_bytes > end:
            end, before = tensor.offset + tensor.n_bytes, tensor
    return found
