"""Weights quantized by bitsandbytes (NF4, FP4, int8) and by MLX, as tensors of plain numbers.

bitsandbytes has the state of a weight beside it, in tensors whose names begin with its own; where
the scales are quantized as well, their scales are ``nested_absmax``. Its result is rounded to the
type that the state names. MLX rounds to the type of its scales, after each of two steps.

Source: bitsandbytes, functional.py (``QuantState.from_dict``, ``dequantize_4bit``,
``dequantize_blockwise``, ``int8_vectorwise_dequant``); mlx, ops.cpp (``affine_dequantize``).
"""

from __future__ import annotations

from math import prod

from mtkit.base.escape import shown
from mtkit.checkpoints.quantized import bits_of, demand, floats_of
from mtkit.errors import UnsupportedError
from mtkit.gguf.values import BF16, F16, encode_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.checkpoints.folder_files import StoredTensor
    from mtkit.checkpoints.quantized import Rows, Tensors

_STATE = ".quant_state.bitsandbytes__"
_TYPES = {"bfloat16": "BF16", "float16": "F16", "float32": "F32"}
_BY_127 = 7.874015718698502e-3
"""The number that the library takes for 1 / 127."""


def _rounded(values: Any, kind: str) -> Any:
    """Return float32 as bits of another type."""
    if kind == "F32":
        return values
    target = {"F16": F16, "BF16": BF16}[kind]
    return (
        encode_values(values, target).view("<u2" if kind == "BF16" else "<f2").reshape(values.shape)
    )


def read_bitsandbytes(tensors: Tensors) -> None:
    """NF4 and FP4 with their state, int8 with a scale a row."""
    for kind in ("nf4", "fp4"):
        for name in tensors.ends(f".weight{_STATE}{kind}"):
            _read_4bit(tensors, f"{name}.weight", kind)
    for name in tensors.ends(".SCB"):
        weight = tensors.take(f"{name}.weight", ("I8",), 2)
        scale = tensors.take(f"{name}.SCB", ("F32",), 1)
        demand(scale.weight.shape[0] == weight.weight.shape[0], scale)

        def rows(
            start: int, stop: int, weight: StoredTensor = weight, scale: StoredTensor = scale
        ) -> Any:
            import numpy as np

            values = bits_of(weight)[start:stop] * bits_of(scale)[start:stop, None]
            return values * np.float32(_BY_127)

        tensors.put(f"{name}.weight", weight.weight.shape, rows, weight, scale)


def _read_4bit(tensors: Tensors, name: str, kind: str) -> None:
    packed = tensors.take(name, ("U8",))
    scales = tensors.take(f"{name}.absmax", ("U8", "F32"), 1)
    table = tensors.take(f"{name}.quant_map", ("F32",), 1)
    state = tensors.take(f"{name}{_STATE}{kind}", ("U8",), 1)
    settings = _state(state)
    shape: Any = settings.get("shape")
    block: Any = settings.get("blocksize")
    result = _TYPES.get(str(settings.get("dtype")).removeprefix("torch."), "")
    is_shape = isinstance(shape, list) and all(type(n) is int and 0 < n < 1 << 40 for n in shape)
    sound = is_shape and len(shape) == 2 and type(block) is int and 0 < block <= 1 << 16
    if not sound or not result or settings.get("quant_type") != kind:
        demand(False, state, "has a state that mtkit does not read")
    count = prod(shape)
    demand(-(-count // 2) == prod(packed.weight.shape), packed)
    demand(scales.weight.shape[0] == -(-count // block), scales)
    demand(table.weight.shape == (16,), table)
    nested = None
    if scales.weight.type == "U8":
        inner: Any = settings.get("nested_blocksize")
        offset: Any = settings.get("nested_offset")
        sizes = tensors.take(f"{name}.nested_absmax", ("F32",), 1)
        values = tensors.take(f"{name}.nested_quant_map", ("F32",), 1)
        sound = type(inner) is int and inner > 0 and type(offset) in (int, float)
        demand(sound, state, "has a state that mtkit does not read")
        demand(sizes.weight.shape[0] == -(-scales.weight.shape[0] // inner), sizes)
        demand(values.weight.shape == (256,), values)
        nested = (sizes, values, inner, float(offset))
    rows = _rows_4bit(packed, scales, table, nested, (shape[1], block, result))
    tensors.put(name, shape, rows, packed, scales, table, kind=result)


def _state(stored: StoredTensor) -> Mapping[str, Any]:
    import json

    try:
        document = json.loads(bytes(stored.data)) if len(stored.data) < 1 << 16 else None
    except (ValueError, RecursionError):
        document = None
    return document if isinstance(document, dict) else {}


def _rows_4bit(
    packed: StoredTensor,
    scales: StoredTensor,
    table: StoredTensor,
    nested: tuple[StoredTensor, StoredTensor, int, float] | None,
    form: tuple[int, int, str],
) -> Rows:
    columns, block, result = form

    def rows(start: int, stop: int) -> Any:
        import numpy as np

        first, last = start * columns, stop * columns
        codes = bits_of(packed).reshape(-1)[first // 2 : -(-last // 2)]
        numbers = np.stack([codes >> 4, codes & 15], axis=-1).reshape(-1)
        numbers = numbers[first % 2 : first % 2 + last - first]
        low, high = first // block, -(-last // block)
        factors = bits_of(scales)[low:high]
        if nested is not None:
            sizes, values, inner, offset = nested
            outer = bits_of(sizes)[np.arange(low, high) // inner]
            factors = bits_of(values)[factors] * outer + np.float32(offset)
        at = np.arange(first, last) // block - low
        with np.errstate(all="ignore"):
            product = bits_of(table)[numbers] * factors[at]
        return _rounded(product.reshape(stop - start, columns), result)

    return rows


def read_mlx(tensors: Tensors) -> None:
    """Integers of 2, 4 or 8 bits with a scale and a bias for each group of a row."""
    for name in tensors.ends(".scales"):
        words = tensors.take(f"{name}.weight", ("U32",))
        scales = tensors.take(f"{name}.scales", ("F32", "F16", "BF16"))
        bias = tensors.take(f"{name}.biases", (scales.weight.type,))
        own = tensors.settings.get(name)
        settings = own if isinstance(own, dict) else tensors.settings
        size = settings.get("group_size", tensors.settings.get("group_size"))
        if type(size) is not int or size not in (16, 32, 64, 128):
            what = f"is {shown(str(size))}; mtkit reads 32, 64 or 128"
            raise UnsupportedError(what, field="quantization.group_size")
        shape, packed = scales.weight.shape, words.weight.shape
        demand(len(shape) >= 2 and shape == bias.weight.shape, bias)
        demand(packed[:-1] == shape[:-1], words)
        columns = shape[-1] * size
        bits = packed[-1] * 32 // max(columns, 1)
        if bits not in (2, 4, 8) or packed[-1] * 32 != columns * bits:
            what = f"takes {packed[-1] * 32} bits for {columns} numbers; mtkit reads 2, 4 or 8 each"
            raise UnsupportedError(what, source=words.path, field=f"tensor {name}.weight")
        rows = _mlx_rows(words, scales, bias, bits)
        full = (*shape[:-1], columns)
        tensors.put(f"{name}.weight", full, rows, words, scales, bias, kind=scales.weight.type)


def _mlx_rows(words: StoredTensor, scales: StoredTensor, bias: StoredTensor, bits: int) -> Rows:
    def rows(start: int, stop: int) -> Any:
        import numpy as np

        kind = scales.weight.type
        shifts = np.arange(0, 32, bits, dtype=np.uint32)
        numbers = bits_of(words)[start:stop, ..., None] >> shifts & np.uint32((1 << bits) - 1)
        factors = floats_of(bits_of(scales)[start:stop], kind)
        numbers = numbers.reshape(*factors.shape, -1).astype(np.float32)
        with np.errstate(all="ignore"):
            product = _rounded(numbers * factors[..., None], kind)
            addend = floats_of(bits_of(bias)[start:stop], kind)
            total = _rounded(floats_of(product, kind) + addend[..., None], kind)
        return total.reshape(*factors.shape[:-1], -1)

    return rows
