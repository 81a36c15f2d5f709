"""Weights that another program quantized, as tensors of plain numbers.

A folder has such a weight as several tensors: packed integers or FP8, scales, zero points. Each
becomes one tensor, whose rows are computed when they are read (``ComputedTensor``). What the
methods of ``METHODS`` give is, bit for bit, what llama.cpp's converter computes, and for AWQ,
bitsandbytes and MLX, which it refuses, what their own libraries compute.

Whatever the rows depend on is checked before: shapes, types, and indices within their bounds.

Source: llama.cpp, conversion/base.py (``dequant_model``); autoawq, utils/packing_utils.py; mlx,
ops.cpp (``dequantize``) and bitsandbytes, functional.py (``dequantize_4bit``,
``int8_vectorwise_dequant``) for the last three.
"""

from __future__ import annotations

from functools import cache
from math import prod

from mtkit.base.escape import quoted, shown
from mtkit.checkpoints.folder_files import ComputedTensor
from mtkit.checkpoints.safetensors import Weight
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf.values import DTYPES, bits_as_floats

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.checkpoints.folder_files import StoredTensor

    Rows = Callable[[int, int], Any]


FLOATS_8 = {"F8_E4M3": (4, 3, 7), "F8_E5M2": (5, 2, 15)}
"""Type -> bits of its exponent, of its mantissa, and the bias."""
_FLOATS = ("F32", "F16", "BF16", "F64")
_NO_EFFECT = (
    ".activation_scale", "_activation_scale", ".input_scale", ".k_scale", ".v_scale",
    ".output_scale", ".qscale_act", ".weight_format",
)  # fmt: skip
"""Ends of tensors about the activations, which llama.cpp quantizes in its own way."""


class Tensors:
    """The tensors of a folder: those that are read, and those that are put in their place."""

    def __init__(self, tensors: Mapping[str, StoredTensor], settings: Mapping[str, Any]) -> None:
        self.left = dict(tensors)
        self.settings = settings
        self.count = 0

    def ends(self, end: str) -> list[str]:
        """Return what stands in front of an end of names."""
        return [name.removesuffix(end) for name in self.left if name.endswith(end)]

    def take(self, name: str, types: Sequence[str] = _FLOATS, axes: int | None = None) -> Any:
        """Return a tensor, which is not one of the folder any more."""
        stored = self.left.pop(name, None)
        field = f"tensor {quoted(name)}"
        if stored is None:
            raise FormatError("is missing, and a quantized weight needs it", field=field)
        if stored.weight.type not in types:
            what = f"has the type {shown(stored.weight.type)}, not {' or '.join(types)}"
            raise FormatError(what, source=stored.path, field=field)
        if axes is not None and len(stored.weight.shape) != axes:
            shape = list(stored.weight.shape)
            raise FormatError(f"has the shape {shape}, not {axes} axes", source=stored.path,
                              field=field)  # fmt: skip
        return stored

    def put(
        self, name: str, shape: Sequence[int], rows: Rows, *parts: StoredTensor, kind: str = "F32"
    ) -> None:
        """Put a tensor in the place of its parts."""
        size = prod(shape) * {"F32": 4, "F16": 2, "BF16": 2}[kind]
        weight = Weight(name, kind, tuple(shape), 0, size)
        self.put_tensor(ComputedTensor(weight, memoryview(b""), parts[0].path, rows, parts))

    def put_tensor(self, tensor: ComputedTensor) -> None:
        """Put a tensor in the place of its parts."""
        self.count += 1
        self.left[tensor.weight.name] = tensor

    def number(self, name: str, *among: int, default: int | None = None) -> int:
        """Return one of the settings, which is one of these numbers."""
        value = self.settings.get(name, default)
        if type(value) is not int or (value not in among if among else not 0 < value < 1 << 20):
            what = f"is {shown(str(value))}; mtkit reads {' or '.join(map(str, among)) or 'counts'}"
            raise UnsupportedError(what, field=f"quantization_config.{name}")
        return value


def demand(fits: bool, stored: StoredTensor, what: str = "") -> None:
    """Raise unless the tensors of a weight fit each other."""
    if not fits:
        shape = list(stored.weight.shape)
        what = what or f"has the shape {shape}, which does not fit the other tensors of its weight"
        field = f"tensor {quoted(stored.weight.name)}"
        raise FormatError(what, source=stored.path, field=field)


def bits_of(stored: StoredTensor) -> Any:
    """Return a tensor as an array of its bits: a view of the mapped file."""
    import numpy as np

    dtype = DTYPES.get(stored.weight.type, "u1")
    return np.frombuffer(stored.data, dtype).reshape(stored.weight.shape)


@cache
def float8_values(kind: str) -> Any:
    """Return the 256 values of a type of 8 bits: float32."""
    import numpy as np

    exponent_bits, mantissa_bits, bias = FLOATS_8[kind]
    codes = np.arange(128)
    exponents, mantissas = codes >> mantissa_bits, codes & ((1 << mantissa_bits) - 1)
    fractions = mantissas / (1 << mantissa_bits)
    values = np.where(
        exponents == 0,
        np.ldexp(fractions, 1 - bias),
        np.ldexp(1 + fractions, exponents - bias),
    )
    if kind == "F8_E4M3":  # no infinity: the last code is NaN
        values[127] = np.nan
    else:
        top = exponents == (1 << exponent_bits) - 1
        values[top] = np.where(mantissas[top] == 0, np.inf, np.nan)
    return np.concatenate([values, -values]).astype(np.float32)


def floats_of(bits: Any, kind: str) -> Any:
    """Return an array of a type's bits as float32; those of U8 are exponents (E8M0)."""
    if kind in ("U8", "F8_E8M0"):
        import numpy as np

        return np.ldexp(np.float32(1), bits.view(np.uint8).astype(np.int32) - 127)
    return float8_values(kind)[bits] if kind in FLOATS_8 else bits_as_floats(bits, kind)


_STORED = (*FLOATS_8, "I8", *_FLOATS)


def scale_weight(
    tensors: Tensors,
    name: str,
    scale_name: str,
    block: Sequence[int] | None = None,
    types: Sequence[str] = _FLOATS,
) -> None:
    """Multiply a weight with its scale: one, one a row, or one a block."""
    weight = tensors.take(name, _STORED)
    scale = tensors.take(scale_name, types)
    shape, steps = weight.weight.shape, scale.weight.shape
    if block is not None:
        sizes = (*(1,) * (len(steps) - len(block)), *block)
        fits = len(steps) == len(shape) and len(sizes) == len(steps)
        fits = fits and all(-(-n // b) <= s for n, b, s in zip(shape, sizes, steps, strict=True))
    else:
        sizes = (1,) * len(steps)
        padded = (*steps, *(1,) * (len(shape) - len(steps)))
        fits = len(steps) <= len(shape) and all(s in (1, n) for s, n in zip(padded, shape))  # noqa: B905
        if prod(steps) == 1:
            sizes, fits = (), True
    demand(fits, scale)

    def rows(start: int, stop: int) -> Any:
        import numpy as np

        values = floats_of(bits_of(weight)[start:stop], weight.weight.type)
        scales = floats_of(bits_of(scale), scale.weight.type)
        if not sizes:
            return values * scales.reshape((1,) * len(shape))
        if scales.shape[0] > 1:
            scales = scales[np.arange(start, stop) // sizes[0]]
        for axis, size in enumerate(sizes[1:], 1):
            if size > 1:
                scales = np.take(scales, np.arange(shape[axis]) // size, axis)
        with np.errstate(all="ignore"):
            return values * scales.reshape(*scales.shape, *(1,) * (len(shape) - scales.ndim))

    tensors.put(name, shape, rows, weight, scale)


def read_fp8(tensors: Tensors) -> None:
    """FP8 of DeepSeek, Qwen and Mistral: a scale for each block, or one."""
    block = tensors.settings.get("weight_block_size")
    block = _block(block, "weight_block_size") if block is not None else None
    for end, rest in (
        ("_scale_inv", ""),
        (".qscale_weight", ".weight"),
        (".weight_scale", ".weight"),
    ):
        for name in tensors.ends(end):
            scale_weight(tensors, name + rest, name + end, block)


def _block(value: Any, name: str) -> list[int]:
    is_list = isinstance(value, list) and all(type(n) is int and n > 0 for n in value)
    if not is_list or not 0 < len(value) <= 3:
        raise UnsupportedError(f"is {shown(str(value))}", field=f"quantization_config.{name}")
    return list(value)


def read_modelopt(tensors: Tensors) -> None:
    """FP8 of NVIDIA's ModelOpt."""
    for name in tensors.ends(".weight_scale"):
        if f"{name}.weight" not in tensors.left:
            del tensors.left[f"{name}.weight_scale"]
            continue
        scale_weight(tensors, f"{name}.weight", f"{name}.weight_scale")


def read_compressed(tensors: Tensors) -> None:
    """compressed-tensors of vLLM: FP8, integers of 8 bits, and packed integers of 4 or 8."""
    kind: Any = tensors.settings.get("format")
    groups: Any = tensors.settings.get("config_groups")
    first = next(iter(groups.values()), None) if isinstance(groups, dict) else None
    weights = first.get("weights") if isinstance(first, dict) else None
    if not isinstance(weights, dict) or len(groups) != 1:
        raise UnsupportedError("has several groups, or none", field="config_groups")
    if tensors.ends(".weight_g_idx"):
        raise UnsupportedError("orders its columns by activation, which mtkit does not read")
    if kind in ("float-quantized", "int-quantized", "naive-quantized"):
        block = weights.get("block_structure")
        if weights.get("strategy") == "block":
            block = _block(block, "block_structure")
        for name in tensors.ends(".weight_scale"):
            scale_weight(tensors, f"{name}.weight", f"{name}.weight_scale", block)
    elif kind == "pack-quantized":
        settings = Tensors(tensors.left, weights)
        bits = settings.number("num_bits", 4, 8)
        for name in tensors.ends(".weight_packed"):
            _unpack(tensors, f"{name}.weight", bits, weights)
    else:
        raise UnsupportedError(f"is {shown(str(kind))}, which mtkit does not read", field="format")


def _unpack(tensors: Tensors, name: str, bits: int, weights: Mapping[str, Any]) -> None:
    packed = tensors.take(f"{name}_packed", ("I32",), 2)
    scale = tensors.take(f"{name}_scale", _FLOATS, 2)
    sizes = tensors.take(f"{name}_shape", ("I32", "I64"), 1)
    has_zero = f"{name}_zero_point" in tensors.left
    zero = tensors.take(f"{name}_zero_point", ("I32",), 2) if has_zero else None
    demand(sizes.weight.shape == (2,), sizes)
    n_rows, columns = shape = tuple(map(int, bits_of(sizes)))
    groups, many = scale.weight.shape[1], 32 // bits
    size = columns // groups if groups else 0
    demand(0 < size * groups == columns and scale.weight.shape[0] == n_rows, scale)
    demand(weights.get("group_size") in (None, -1, size), scale)
    demand(packed.weight.shape == (n_rows, -(-columns // many)), packed)
    demand(zero is None or zero.weight.shape == (-(-n_rows // many), groups), zero or scale)

    def rows(start: int, stop: int) -> Any:
        import numpy as np

        shifts = np.arange(0, 32, bits, dtype=np.int32)
        numbers = bits_of(packed)[start:stop, :, None] >> shifts & ((1 << bits) - 1)
        numbers = numbers.reshape(stop - start, -1)[:, :columns].reshape(-1, groups, size)
        if zero is None:
            numbers = numbers - (1 << (bits - 1))
        else:
            at = np.arange(start, stop)
            words = bits_of(zero)[at // many]
            numbers = numbers - (words >> shifts[at % many, None] & ((1 << bits) - 1))[:, :, None]
        scales = floats_of(bits_of(scale)[start:stop], scale.weight.type)
        return (numbers.astype(np.float32) * scales[:, :, None]).reshape(stop - start, columns)

    parts = [packed, scale, sizes, *([zero] if zero else [])]
    tensors.put(name, shape, rows, *parts)


def _columns(
    words: Any, start: int, stop: int, bits: int, order: Sequence[int] | None = None
) -> Any:
    """Return numbers that are packed along rows: columns ``start`` to ``stop``."""
    import numpy as np

    many, first = 32 // bits, start // (32 // bits)
    shifts = np.arange(0, 32, bits, dtype=np.int32)
    if order is not None:
        shifts = shifts[list(order)]
    part = words[:, first : -(-stop // many), None] >> shifts & ((1 << bits) - 1)
    return part.reshape(len(words), -1)[:, start - first * many : stop - first * many]


def read_gptq(tensors: Tensors) -> None:
    """GPTQ: integers packed along the columns, groups in the order of g_idx."""
    bits = tensors.number("bits", 2, 4, 8)
    offset = 1 if tensors.settings.get("checkpoint_format", "gptq") == "gptq" else 0
    for name in tensors.ends(".qweight"):
        words = tensors.take(f"{name}.qweight", ("I32",), 2)
        zeros = tensors.take(f"{name}.qzeros", ("I32",), 2)
        scales = tensors.take(f"{name}.scales", _FLOATS, 2)
        group = tensors.take(f"{name}.g_idx", ("I32", "I64"), 1)
        many, (groups, n_rows) = 32 // bits, scales.weight.shape
        columns = group.weight.shape[0]
        demand(words.weight.shape == (-(-columns // many), n_rows), words)
        demand(columns % many == 0, words)
        demand(zeros.weight.shape == (groups, -(-n_rows // many)), zeros)
        numbers = bits_of(group)
        in_range = columns > 0 and int(numbers.min()) >= 0 and int(numbers.max()) < groups
        demand(in_range, group, "names a group that is not there")
        rows = _gptq_rows(words, zeros, scales, group, bits, offset)
        tensors.put(f"{name}.weight", (n_rows, columns), rows, words, zeros, scales, group)


def _gptq_rows(
    words: StoredTensor, zeros: StoredTensor, scales: StoredTensor, group: StoredTensor, bits: int,
    offset: int,
) -> Rows:  # fmt: skip
    def rows(start: int, stop: int) -> Any:
        import numpy as np

        shifts = np.arange(0, 32, bits, dtype=np.int32)[:, None]
        numbers = bits_of(words)[:, None, start:stop] >> shifts & ((1 << bits) - 1)
        numbers = numbers.reshape(-1, stop - start)
        order = bits_of(group)
        zero = (_columns(bits_of(zeros), start, stop, bits) + offset)[order]
        factors = floats_of(bits_of(scales)[:, start:stop], scales.weight.type)[order]
        return (factors * (numbers - zero).astype(np.float32)).T

    return rows


_AWQ_PLACES = (0, 4, 1, 5, 2, 6, 3, 7)
"""Where the eight numbers of a word are, in units of four bits."""


def read_awq(tensors: Tensors) -> None:
    """AWQ of the kind gemm: like GPTQ, but packed along the rows, in an order of its own."""
    bits = tensors.number("bits", 4, default=tensors.settings.get("w_bit"))
    version = str(tensors.settings.get("version", "gemm")).lower()
    if version != "gemm":
        raise UnsupportedError(f"is {shown(version)}; mtkit reads gemm", field="version")
    for name in tensors.ends(".qweight"):
        words = tensors.take(f"{name}.qweight", ("I32",), 2)
        zeros = tensors.take(f"{name}.qzeros", ("I32",), 2)
        scales = tensors.take(f"{name}.scales", ("F16",), 2)
        columns, (groups, n_rows) = words.weight.shape[0], scales.weight.shape
        demand(groups > 0 and columns % groups == 0, scales)
        demand(words.weight.shape[1] * 8 == n_rows, words)
        demand(zeros.weight.shape == (groups, n_rows // 8), zeros)
        rows = _awq_rows(words, zeros, scales, bits)
        parts = (words, zeros, scales)
        tensors.put(f"{name}.weight", (n_rows, columns), rows, *parts, kind="F16")


def _awq_rows(words: StoredTensor, zeros: StoredTensor, scales: StoredTensor, bits: int) -> Rows:
    def rows(start: int, stop: int) -> Any:
        import numpy as np

        size = words.weight.shape[0] // scales.weight.shape[0]
        numbers = _columns(bits_of(words), start, stop, bits, _AWQ_PLACES)
        zero = _columns(bits_of(zeros), start, stop, bits, _AWQ_PLACES)
        numbers = numbers.reshape(-1, size, stop - start) - zero[:, None]
        with np.errstate(all="ignore"):
            values = numbers.astype("<f2") * bits_of(scales)[:, None, start:stop]
        return values.reshape(-1, stop - start).T

    return rows


def read_bitnet(tensors: Tensors) -> None:
    """BitNet: four numbers of -1, 0 and 1 in a byte, a quarter of the rows apart."""
    for name in tensors.ends(".weight_scale"):
        packed = tensors.take(f"{name}.weight", ("U8",), 2)
        scale = tensors.take(f"{name}.weight_scale")
        demand(prod(scale.weight.shape) == 1, scale)
        quarter, columns = packed.weight.shape

        def rows(
            start: int, stop: int, packed: StoredTensor = packed, scale: StoredTensor = scale,
            quarter: int = quarter,
        ) -> Any:  # fmt: skip
            import numpy as np

            at = np.arange(start, stop)
            shifts = (at // quarter * 2).astype(np.uint8)[:, None]
            numbers = (bits_of(packed)[at % quarter] >> shifts & 3).astype(np.float32)
            with np.errstate(all="ignore"):
                return (numbers - 1) / scale.floats().reshape(1, 1)

        tensors.put(f"{name}.weight", (quarter * 4, columns), rows, packed, scale)


def read_float8(tensors: Tensors) -> None:
    """FP8 without any scale."""
    for name in [name for name, stored in tensors.left.items() if stored.weight.type in FLOATS_8]:
        stored = tensors.left[name]

        def rows(start: int, stop: int, stored: StoredTensor = stored) -> Any:
            return floats_of(bits_of(stored)[start:stop], stored.weight.type)

        if stored.weight.shape:
            tensors.put(name, stored.weight.shape, rows, stored)


def drop_unused(tensors: Tensors) -> None:
    """Leave out what is about the activations."""
    for name in [name for name in tensors.left if name.endswith(_NO_EFFECT)]:
        del tensors.left[name]
