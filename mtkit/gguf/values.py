"""Numbers in the types of tensors: read from any, written as F32, F16, BF16 and Q8_0.

Rounding is the converter's, bit for bit. Work goes a megabyte at a time, which stays in the cache
of a core.
Source: ggml-impl.h (``ggml_compute_fp32_to_bf16``), ggml-quants.c (``quantize_row_q8_0_ref``).
"""

from __future__ import annotations

from mtkit.base.binary import pieces
from mtkit.errors import UnsupportedError
from mtkit.gguf.types import TENSOR_TYPES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mtkit.base.binary import Buffer
    from mtkit.gguf.types import TensorType

F32, F16, Q8_0, BF16, MXFP4 = (TENSOR_TYPES[number] for number in (0, 1, 8, 30, 39))
CHUNK = 1 << 18
"""Values converted at once: what they take at most, 2 MB with two floats each, fits an L2 cache."""
_LARGEST_BLOCK = 256
_SIGN, _HALF = 1 << 31, 0x3EFFFFFF
"""Bits of a float32: its sign, and the largest number below one half. That with the sign of what it
is added to, and then cutting, rounds halves away from 0."""
DTYPES = {
    "F64": "<f8", "F32": "<f4", "F16": "<f2", "BF16": "<u2", "I64": "<i8", "I32": "<i4",
    "I16": "<i2", "I8": "i1", "U8": "u1", "BOOL": "?", "U16": "<u2", "U32": "<u4", "U64": "<u8",
}  # fmt: skip
"""Type of a tensor in safetensors -> the numpy dtype of its bits."""


def floats(bits: Any, dtype: str) -> Any:
    """Return an array of a type's bits as float32 of the same shape."""
    import numpy as np

    if dtype == "BF16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    with np.errstate(over="ignore", invalid="ignore"):
        return bits.astype(np.float32, copy=False)


def encoded(values: Any, kind: TensorType) -> Any:
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
        return _bf16(np.ascontiguousarray(flat)).view(np.uint8)
    assert kind is Q8_0, kind
    return _q8_0(flat)


def _bf16(values: Any) -> Any:
    import numpy as np

    bits = values.view(np.uint32)
    rounded = bits + (((bits >> 16) & 1) + 0x7FFF)
    odd = np.isnan(values)
    if odd.any():
        rounded[odd] = bits[odd] | 0x400000  # quiet, as ggml makes them
    return (rounded >> 16).astype("<u2")


def _q8_0(values: Any) -> Any:
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


def decoded(data: Any, dtype: str) -> Any:
    """Return the numbers of a tensor: float32 of one axis.

    Args:
        data: uint8 of one axis; of a quantized type whole blocks.
        dtype: Type, as safetensors or GGUF names it.

    Raises:
        UnsupportedError: It is quantized in a way that cannot be undone here.
    """
    if dtype in DTYPES:
        return floats(data.view(DTYPES[dtype]), dtype)
    import gguf
    import numpy as np

    try:
        kind = gguf.GGMLQuantizationType[dtype]
        with np.errstate(all="ignore"):  # damaged scales are not numbers
            return gguf.dequantize(data.reshape(-1, _block_bytes(dtype)), kind).reshape(-1)
    except (KeyError, NotImplementedError):
        raise UnsupportedError(f"{dtype} cannot be turned into floats") from None


def _block_bytes(dtype: str) -> int:
    for kind in TENSOR_TYPES.values():
        if kind.name == dtype:
            return kind.block_bytes
    raise UnsupportedError(f"{dtype} cannot be turned into floats")


def converted(data: memoryview, dtype: str, kind: TensorType) -> Iterator[Buffer]:
    """Yield a tensor's bytes in another type, piece by piece; as they are where it is the same.

    Args:
        data: Of the tensor, little-endian; pages of a mapped file go back once they are read.
        dtype: Its type, as safetensors or GGUF names it.
        kind: F32, F16, BF16 or Q8_0.

    Raises:
        UnsupportedError: It is quantized in a way that cannot be undone here.
    """
    import numpy as np

    if dtype == kind.name:
        yield data
        return
    if dtype in DTYPES:
        step = CHUNK * np.dtype(DTYPES[dtype]).itemsize
    else:
        step = CHUNK // _LARGEST_BLOCK * _block_bytes(dtype)
    for piece in pieces(data, step):
        yield encoded(decoded(np.frombuffer(piece, np.uint8), dtype), kind)
