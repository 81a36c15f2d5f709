"""Numbers in the types of tensors: read from any, written as F32, F16, BF16 and Q8_0; and rows.

Rounding is the converter's, bit for bit. Work goes a megabyte at a time, which stays in the cache
of a core.

A row of a quantized matrix is a whole number of blocks, so matrices with a row for each id can be
cut to some ids by copying bytes. The logits of the rows that stay are what they were: to the bit
where their number is a multiple of ``ROWS_MULTIPLE``, as some kernels add in another order for odd
numbers of rows.

Source: ggml-impl.h (``ggml_compute_fp32_to_bf16``), ggml-quants.c (``quantize_row_q8_0_ref``).
"""

from __future__ import annotations

from mtkit.base.binary import pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf.draft import refuse_forks
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.value_counts import FLOATS
from mtkit.gguf.writer import NewTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.gguf.file import GgufFile, Tensor
    from mtkit.gguf.types import TensorType
    from mtkit.gguf.value_counts import ValueCounts


F32, F16, Q8_0, I32, I64, BF16, MXFP4, NVFP4 = (
    TENSOR_TYPES[n] for n in (0, 1, 8, 26, 27, 30, 39, 40)
)
CHUNK = 1 << 18
"""Values converted at once: with two floats each, 2 MB, they fit an L2 cache."""
_KEPT_BYTES = 1 << 19
_SIGN, _HALF = 1 << 31, 0x3EFFFFFF
"""Bits of a float32: its sign, and the largest number below one half. Adding that with the sign of
the value and then truncating rounds halves away from 0."""
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip
"""Type of a tensor in safetensors -> the numpy dtype of its bits."""


def bits_as_floats(bits: Any, dtype: str) -> Any:
    """Return an array of a type's bits as float32 of the same shape."""
    import numpy as np

    if dtype == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return bits.astype(np.float32, copy=False)


def encode_values(values: Any, kind: TensorType) -> Any:
    """Return float32 values as a tensor's bytes: uint8 of one axis.

    Args:
        values: Of any shape; for Q8_0 a row is a whole number of 32.
        kind: F32, F16, BF16 or Q8_0.
    """
    import numpy as np

    flat = values.reshape(-1)
    if kind is F32:
        return np.ascontiguousarray(flat, "<f4").view(np.uint8)
    if kind is F16:
        with np.errstate(over="ignore"):
            return flat.astype("<f2").view(np.uint8)
    if kind is BF16:
        return _encode_bf16(np.ascontiguousarray(flat)).view(np.uint8)
    assert kind is Q8_0, kind
    return _encode_q8_0(flat)


def _encode_bf16(values: Any) -> Any:
    import numpy as np

    bits = values.view(np.uint32)
    rounded = bits + (((bits >> 16) & 1) + 0x7FFF)
    odd = np.isnan(values)
    if odd.any():
        rounded[odd] = bits[odd] | 0x400000  # quiet, as ggml makes them
    return (rounded >> 16).astype("<u2")


def _encode_q8_0(values: Any) -> Any:
    import numpy as np

    blocks = values.reshape(-1, Q8_0.block)
    largest = np.abs(values)
    # Neighbors in turn: numpy's own maximum of rows of 32 takes three times as long.
    while len(largest) > len(blocks):
        largest = np.maximum(largest[::2], largest[1::2])
    scale = largest / np.float32(127)
    out = np.empty((len(blocks), Q8_0.block_bytes), np.uint8)
    with np.errstate(all="ignore"):
        inverse = np.where(scale == 0, np.float32(0), np.float32(1) / scale)
        scaled = (blocks * inverse[:, None]).reshape(-1)
        scaled += (scaled.view(np.uint32) & _SIGN | _HALF).view(np.float32)
        out[:, :2] = scale.astype("<f2").view(np.uint8).reshape(-1, 2)
        out[:, 2:] = scaled.astype(np.int8).view(np.uint8).reshape(-1, Q8_0.block)
    return out.reshape(-1)


def import_quants() -> Any:
    """Return gguf.quants alone: the package imports mistral_common, if that is installed.

    That takes 3 s, as long as a model of 1.5 billion parameters for 70 tokens; this takes 0.1 s.
    """
    import sys
    from importlib import import_module, util
    from types import ModuleType

    name = "mtkit.gguf._package"
    if name not in sys.modules:
        spec = util.find_spec("gguf")
        if spec is None:
            raise ModuleNotFoundError("No module named 'gguf'", name="gguf")
        package = ModuleType(name)
        package.__path__ = list(spec.submodule_search_locations or ())
        sys.modules[name] = package
    return import_module(f"{name}.quants")


def decode_values(data: Any, dtype: str) -> Any:
    """Return the numbers of a tensor: float32 of one axis.

    Args:
        data: uint8 of one axis; of a quantized type whole blocks.
    """
    if dtype in DTYPES:
        return bits_as_floats(data.view(DTYPES[dtype]), dtype)
    import numpy as np

    quants = import_quants()
    try:
        kind = quants.GGMLQuantizationType[dtype]
        with np.errstate(all="ignore"):  # damaged scales are not numbers
            return quants.dequantize(data.reshape(-1, _block_of(dtype)[1]), kind).reshape(-1)
    except (KeyError, NotImplementedError):
        raise UnsupportedError(f"{dtype} cannot be turned into floats") from None


def tensor_array(tensor: Tensor, data: memoryview, byte_order: str, source: str) -> Any:
    """Return a tensor as an array of numpy's shape: integers as they are, else float32."""
    import numpy as np

    name = tensor.type.name
    if byte_order != "little":
        raise UnsupportedError("is big-endian", source=source, hint="mtkit convert-endian")
    refuse_forks([tensor], source)
    raw = np.frombuffer(data, np.uint8)
    is_integer = name in DTYPES and name not in FLOATS
    values = raw.view(DTYPES[name]) if is_integer else decode_values(raw, name)
    return values.reshape(tensor.shape[::-1])


def _block_of(dtype: str) -> tuple[int, int]:
    """Return elements and bytes of a block."""
    for kind in TENSOR_TYPES.values():
        if kind.name == dtype:
            return kind.block, kind.block_bytes
    raise UnsupportedError(f"{dtype} cannot be turned into floats")


def convert_data(
    data: memoryview, dtype: str, kind: TensorType, counts: ValueCounts | None = None
) -> Iterator[Buffer]:
    """Yield a tensor's bytes in another type, piece by piece; as they are where it is the same.

    Args:
        data: Of the tensor, little-endian; pages of a mapped file go back once they are read.
        kind: F32, F16, BF16 or Q8_0.
        counts: What is lost is added to them.
    """
    import numpy as np

    if dtype == kind.name:
        if counts is None or dtype not in FLOATS:
            yield data
            return
        # In steps: what was looked at is still in the cache when it is copied.
        for piece in pieces(data, max(_KEPT_BYTES // kind.block_bytes, 1) * kind.block_bytes):
            counts.take_kept(np.frombuffer(piece, np.uint8))
            yield piece
        return
    row = counts.row if counts and 0 < counts.row <= CHUNK else 1
    many = CHUNK // row * row  # whole rows
    if dtype in DTYPES:
        step = many * np.dtype(DTYPES[dtype]).itemsize
    else:
        block, block_bytes = _block_of(dtype)
        step = (many if many % block == 0 else CHUNK) // block * block_bytes
    for piece in pieces(data, step):
        raw = np.frombuffer(piece, np.uint8)
        values = decode_values(raw, dtype)
        out = encode_values(values, kind)
        if counts is not None:
            counts.take(raw, dtype, values, out)
        yield out


class Rows:
    """The rows of a matrix; the file stays mapped as long as the object lives."""

    def __init__(self, file: GgufFile, tensor: Tensor) -> None:
        """Map a matrix."""
        import numpy as np

        if len(tensor.shape) != 2:
            raise FormatError("is not a matrix", source=file.name, field=tensor.name)
        if file.byte_order != "little":
            raise UnsupportedError("is big-endian", source=file.name)
        self._file, self.tensor = file, tensor
        self.width, self.count = tensor.shape
        refuse_forks([tensor], file.name)
        data = np.frombuffer(file.tensor_data(tensor), np.uint8)
        self._bytes = data.reshape(self.count, tensor.n_bytes // max(self.count, 1))

    def stored(self, ids: Any) -> Any:
        """Return rows as stored: uint8 of shape (n, bytes of a row)."""
        return self._bytes[ids]

    def values(self, ids: Any) -> Any:
        """Return rows as numbers: float32 of shape (n, width)."""
        import numpy as np

        quants = import_quants()
        kind = quants.GGMLQuantizationType(self.tensor.type.number)
        try:
            numbers = quants.dequantize(self._bytes[ids], kind)
        except (NotImplementedError, ValueError):
            what = f"{self.tensor.type.name} cannot be dequantized"
            raise UnsupportedError(what, source=self._file.name, field=self.tensor.name) from None
        return np.ascontiguousarray(numbers, np.float32)


ROWS_MULTIPLE = 64
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
_ROW_TENSORS = frozenset((EMBEDDING, HEAD, "output.bias"))


def count_rows(file: GgufFile) -> int:
    """Return the number of ids of a model that can be cut."""
    source = file.name
    tensor = file.names.get(EMBEDDING)
    if tensor is None or len(tensor.shape) != 2:
        raise UnsupportedError(f"has no {EMBEDDING} to cut", source=source)
    n_vocab = tensor.shape[1]
    odd = [
        tensor.label
        for tensor in file.tensors
        if (tensor.shape[-1:] != (n_vocab,) if tensor.name in _ROW_TENSORS
            else len(tensor.shape) > 1 and tensor.shape[-1] == n_vocab)
    ]  # fmt: skip
    if odd:
        raise UnsupportedError(f"{', '.join(odd)}: not known how to cut it", source=source)
    return n_vocab


def cut_rows(file: GgufFile, ids: Sequence[int]) -> list[NewTensor]:
    """Return the tensors of a model with the rows of these ids alone, in their order."""
    tensors = []
    for tensor in file.tensors:
        shape, data = tensor.shape, file.tensor_data(tensor)
        if tensor.name in _ROW_TENSORS:
            shape = (*shape[:-1], len(ids))
            data = _cut_matrix(file, tensor.name, ids)
        tensors.append(NewTensor(tensor.name, shape, tensor.type, data))
    return tensors


def _cut_matrix(file: GgufFile, name: str, ids: Sequence[int]) -> memoryview:
    import numpy as np

    tensor = file.names[name]
    if len(tensor.shape) == 1:  # a bias
        size = tensor.n_bytes // tensor.n_elements
        rows = np.frombuffer(file.tensor_data(tensor), np.uint8).reshape(-1, size)[list(ids)]
    else:
        rows = Rows(file, tensor).stored(list(ids))
    return memoryview(np.ascontiguousarray(rows).data).cast("B")
