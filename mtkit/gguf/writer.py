"""Writing GGUF, version 3, little-endian.

Keys and tensors are written in the order given; tensor data is streamed from the caller's buffers,
each tensor padded to the alignment (``general.alignment`` if it is among the keys, else 32). A
file without tensors ends with its last key, as the files of llama.cpp do.
"""

from __future__ import annotations

import struct
from array import array
from math import prod

from mtkit.base.escape import quoted, shown
from mtkit.base.packed import Numbers
from mtkit.base.record import Record
from mtkit.errors import UsageError
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.file import DEFAULT_ALIGNMENT
from mtkit.gguf.rules import ALIGNMENT
from mtkit.gguf.types import ARRAY, BY_NAME, STRING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.gguf.types import TensorType, ValueType

VERSION = 3


class Key(Record):
    """A key to write.

    Attributes:
        type: ``u8`` … ``f64``, ``bool``, ``string``, or one of these with ``[]`` behind it.
        value: A number, bool, str or bytes; for arrays any sequence of them (``Numbers``,
            ``Pieces`` and ``GgufArray`` are copied without making Python objects).
    """

    name: str
    type: str
    value: Any


class LazyData(Record):
    """Bytes that are computed while they are written."""

    n_bytes: int
    pieces: Callable[[], Iterator[Buffer]]


class NewTensor(Record):
    """A tensor to write."""

    name: str
    shape: tuple[int, ...]
    type: TensorType
    data: Buffer | LazyData

    @property
    def n_bytes(self) -> int:
        """Size of the data."""
        return (
            self.data.n_bytes if isinstance(self.data, LazyData) else memoryview(self.data).nbytes
        )

    def pieces(self) -> Iterator[Buffer]:
        """Give the data, piece by piece."""
        return self.data.pieces() if isinstance(self.data, LazyData) else iter((self.data,))


def write_gguf(
    path: str, keys: Iterable[Key], tensors: Iterable[NewTensor] = (), *, force: bool = False
) -> None:
    """Write a file; it appears whole or not at all."""
    from mtkit.base.files import write_files

    write_files({path: gguf_chunks(keys, tensors)}, force=force)


def gguf_bytes(keys: Iterable[Key], tensors: Iterable[NewTensor] = ()) -> bytes:
    """Return a whole file."""
    return b"".join(gguf_chunks(keys, tensors))


def gguf_chunks(keys: Iterable[Key], tensors: Iterable[NewTensor] = ()) -> Iterator[Buffer]:
    """Give the bytes of a file, piece by piece; all checks are done before the first."""
    keys, tensors = list(keys), list(tensors)
    _check_names("key", [key.name for key in keys])
    _check_names("tensor", [tensor.name for tensor in tensors])
    alignment = next((k.value for k in keys if k.name == ALIGNMENT), DEFAULT_ALIGNMENT)
    return file_chunks([key_bytes(key) for key in keys], tensors, alignment)


def file_chunks(
    keys: Sequence[Buffer], tensors: Sequence[NewTensor], alignment: object, version: int = VERSION
) -> Iterator[Buffer]:
    """Give the bytes of a file, piece by piece; all checks are done before the first.

    Args:
        version: 2 or 3, which have the same layout.
    """
    head, _ = header_chunks(keys, tensors, alignment, version)
    assert isinstance(alignment, int)
    return _pieces(head, tensors, alignment)


def header_chunks(
    keys: Sequence[Buffer], tensors: Sequence[NewTensor], alignment: object, version: int
) -> tuple[list[Buffer], list[int]]:
    """Return the header with its padding, and the offset of each tensor's data."""
    if not isinstance(alignment, int) or alignment < 8 or alignment & (alignment - 1):
        what = f"is {alignment!r}, but must be a power of two, at least 8"
        raise UsageError(what, field=ALIGNMENT)
    head = [struct.pack("<4sIQQ", b"GGUF", version, len(tensors), len(keys)), *keys]
    offset, offsets = 0, []
    for tensor in tensors:
        size = tensor.n_bytes
        head.append(tensor_row(tensor, offset, size))
        offsets.append(offset)
        offset += -(-size // alignment) * alignment
    if tensors:
        head.append(bytes(-sum(memoryview(part).nbytes for part in head) % alignment))
    return head, offsets


def _pieces(head: list[Buffer], tensors: Sequence[NewTensor], alignment: int) -> Iterator[Buffer]:
    yield from head
    for tensor in tensors:
        yield from tensor.pieces()
        yield bytes(-tensor.n_bytes % alignment)


def _check_names(kind: str, names: list[str]) -> None:
    seen: set[str] = set()
    for name in names:
        if name in seen or not name:
            what = f"two of the name {quoted(name)}" if name else "one without a name"
            raise UsageError(f"cannot write {what}", field=kind)
        seen.add(name)


def _string(text: str | bytes) -> bytes:
    raw = text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")
    return struct.pack("<Q", len(raw)) + raw


def key_bytes(key: Key) -> bytes:
    """Return the bytes of a key: name, type, value."""
    return b"".join((_string(key.name), *_value(key)))


def _value(key: Key) -> tuple[bytes, ...]:
    is_array = key.type.endswith("[]")
    value_type = BY_NAME.get(key.type.removesuffix("[]"))
    if value_type is None or value_type is ARRAY:
        raise UsageError(f"cannot be written as {key.type!r}", field=shown(key.name))
    try:
        if not is_array:
            return struct.pack("<I", value_type.number), _scalar(value_type, key.value)
        head = struct.pack("<IIQ", ARRAY.number, value_type.number, len(key.value))
        return head, _elements(value_type, key.value)
    except UnicodeEncodeError:
        raise UsageError("has half of a surrogate pair", field=shown(key.name)) from None
    except (struct.error, OverflowError, TypeError, AttributeError) as error:
        out_of_range = isinstance(error, (struct.error, OverflowError))
        why = "a number is out of range" if out_of_range else str(error)
        what = f"cannot be written as {key.type}: {why}"
        raise UsageError(what, field=shown(key.name)) from None


def _scalar(value_type: ValueType, value: Any) -> bytes:
    return _string(value) if value_type is STRING else struct.pack("<" + value_type.code, value)


def _elements(value_type: ValueType, values: Any) -> bytes:
    if isinstance(values, GgufArray):
        values = values.pieces() if value_type is STRING else values.numbers()
    if value_type is STRING:
        return b"".join(map(_string, values))
    if isinstance(values, Numbers) and values.code == value_type.code:
        return values.data.tobytes()
    return array(value_type.code, values).tobytes()


def tensor_row(tensor: NewTensor, offset: int, size: int) -> bytes:
    """Return a row of the tensor table."""
    row = tensor.shape[0] if tensor.shape else 1
    n_bytes = prod(tensor.shape) // tensor.type.block * tensor.type.block_bytes
    fits = size == n_bytes or tensor.type.origin  # the size of a fork's type is the file's to know
    if row % tensor.type.block or not fits or len(tensor.shape) > 4:
        what = f"shape {tensor.shape} of {tensor.type.name} does not go with {size} bytes"
        raise UsageError(what, field=f"tensor {quoted(tensor.name)}")
    axes = struct.pack(f"<I{len(tensor.shape)}Q", len(tensor.shape), *tensor.shape)
    return _string(tensor.name) + axes + struct.pack("<IQ", tensor.type.number, offset)
