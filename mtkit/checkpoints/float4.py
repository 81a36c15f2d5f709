"""Numbers of 4 bits that llama.cpp has as well, so that a matrix keeps its bits: NVFP4 and MXFP4.

NVFP4 has a scale for each 16 numbers, and one for the matrix; this one, and the one of what the
matrix is multiplied with, are tensors of their own in a GGUF. A block has 64 numbers: four scales,
whose sign is dropped, then for each scale its 16 numbers, the first eight in the low halves.
MXFP4 has a power of two for each 32 numbers, which begins their block.

Source: llama.cpp, conversion/base.py (``_nvfp4_pack``, ``_tag_prec_a4``, ``repack_mxfp4_blocks``).
"""

from __future__ import annotations

import re

from mtkit.architectures.changes import mxfp4_blocks
from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import PackedTensor
from mtkit.checkpoints.quantized import (
    FLOATS_8,
    bits_of,
    demand,
    read_compressed,
    read_fp8,
    read_modelopt,
    scale_weight,
)
from mtkit.checkpoints.safetensors import Weight

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.checkpoints.quantized import Tensors

TYPE = "NVFP4"
BLOCK, BLOCK_BYTES = 64, 36
_GROUP = 16
_FORMAT = "nvfp4-pack-quantized"
_WEIGHTS_ONLY = "W4A16_NVFP4"
_MX_FORMAT = "mxfp4-pack-quantized"
_MX_BLOCK, _MX_BYTES = 32, 17
_BITS = ("U8", "I8")
SCALES_8 = ("F8_E8M0", "U8")
"""Types of a power of two; a file that does not know the first has its bits."""


class Spelling(Record):
    """How a program names the parts of a matrix: ends of their names.

    Attributes:
        inverse: The scales of whole tensors are those to divide by.
    """

    numbers: str
    matrix_scale: str
    input_scale: str
    inverse: bool = False


_MODELOPT = Spelling(".weight", ".weight_scale_2", ".input_scale")
_COMPRESSED = Spelling(
    ".weight_packed", ".weight_global_scale", ".input_global_scale", inverse=True
)


def read_modelopt_mix(tensors: Tensors) -> None:
    """NVFP4 and FP8 of NVIDIA's ModelOpt, which can stand in one model."""
    for name in tensors.ends(_MODELOPT.numbers):
        scale = tensors.left.get(f"{name}.weight_scale")
        is_packed = tensors.left[name + _MODELOPT.numbers].weight.type == "U8"
        if is_packed and scale is not None:
            _pack(tensors, name, _MODELOPT)
    read_modelopt(tensors)


def read_compressed_mix(tensors: Tensors) -> None:
    """Whatever compressed-tensors writes."""
    if tensors.settings.get("format") == _MX_FORMAT:
        for name in tensors.ends(".weight_packed"):
            pack_mxfp4(tensors, f"{name}.weight", f"{name}.weight_packed", f"{name}.weight_scale")
        return
    if not _is_nvfp4(tensors.settings.get("format"), tensors.settings.get("config_groups")):
        read_compressed(tensors)
        return
    for name in tensors.ends(_COMPRESSED.numbers):
        _pack(tensors, name, _COMPRESSED)


def _is_nvfp4(kind: object, groups: object) -> bool:
    """Tell by the format of the whole model, or of all its groups."""
    if kind == _FORMAT:
        return True
    listed = list(groups.values()) if isinstance(groups, dict) else []
    formats = [group.get("format") for group in listed if isinstance(group, dict)]
    return kind == "mixed-precision" and bool(formats) and set(formats) == {_FORMAT}


def _pack(tensors: Tensors, name: str, spelling: Spelling) -> None:
    """Put the matrix of a layer in the place of its parts."""
    numbers = tensors.take(name + spelling.numbers, ("U8",), 2)
    scale = tensors.take(f"{name}.weight_scale", ("F8_E4M3", "U8"), 2)
    n_rows, columns = numbers.weight.shape[0], numbers.weight.shape[1] * 2
    demand(columns > 0 and columns % BLOCK == 0, numbers)
    demand(scale.weight.shape == (n_rows, columns // _GROUP), scale)
    ends = {".scale": spelling.matrix_scale, ".input_scale": spelling.input_scale}
    factors = {new: _factor(tensors, name + old, spelling) for new, old in ends.items()}

    def rows(start: int, stop: int) -> Any:
        import numpy as np

        count = stop - start
        pairs = bits_of(numbers)[start:stop].reshape(count, -1, 2, 4)
        blocks = np.empty((count, columns // BLOCK, BLOCK_BYTES), np.uint8)
        blocks[..., :4] = bits_of(scale)[start:stop].reshape(count, -1, 4) & 0x7F
        first, second = pairs[:, :, 0], pairs[:, :, 1]
        places = np.empty((*first.shape, 2), np.uint8)
        places[..., 0] = first & 15 | second << 4
        places[..., 1] = first >> 4 | second & 0xF0
        blocks[..., 4:] = places.reshape(count, -1, BLOCK_BYTES - 4)
        return blocks.reshape(count, -1)

    size = n_rows * columns // BLOCK * BLOCK_BYTES
    weight = Weight(f"{name}.weight", TYPE, (n_rows, columns), 0, size)
    tensors.put_tensor(
        PackedTensor(
            weight, memoryview(b""), numbers.path, rows, (numbers, scale), factors,
            _algorithm(tensors, name) == _WEIGHTS_ONLY,
        )
    )  # fmt: skip


def read_fp8_mix(tensors: Tensors) -> None:
    """FP8, with matrices of MXFP4 in DeepSeek V4 and MiMo V2."""
    is_mimo = tensors.settings.get("store_dtype") == "mxfp4"
    for end in (".scale", *([".weight_scale"] if is_mimo else [])):
        for name in tensors.ends(end):
            weight = tensors.left.get(f"{name}.weight")
            if weight is not None and weight.weight.type in _BITS:
                pack_mxfp4(tensors, f"{name}.weight", f"{name}.weight", name + end)
            elif weight is not None and weight.weight.type in FLOATS_8:
                scale_weight(tensors, f"{name}.weight", name + end, [128, 128], SCALES_8)
    read_fp8(tensors)


def pack_mxfp4(tensors: Tensors, name: str, numbers_name: str, scale_name: str) -> None:
    """Put a matrix in the place of its numbers and scales."""
    numbers = tensors.take(numbers_name, _BITS, 2)
    scale = tensors.take(scale_name, SCALES_8, 2)
    n_rows, columns = numbers.weight.shape[0], numbers.weight.shape[1] * 2
    demand(columns > 0 and columns % _MX_BLOCK == 0, numbers)
    demand(scale.weight.shape == (n_rows, columns // _MX_BLOCK), scale)

    def rows(start: int, stop: int) -> Any:
        import numpy as np

        pairs = bits_of(numbers)[start:stop].view(np.uint8).reshape(stop - start, -1, 16)
        scales = bits_of(scale)[start:stop].view(np.uint8)
        blocks = mxfp4_blocks(pairs, scales)
        return blocks.reshape(stop - start, -1)

    weight = Weight(name, "MXFP4", (n_rows, columns), 0, n_rows * columns // _MX_BLOCK * _MX_BYTES)
    parts = (numbers, scale)
    tensors.put_tensor(PackedTensor(weight, memoryview(b""), numbers.path, rows, parts, {}))


def _factor(tensors: Tensors, name: str, spelling: Spelling) -> float:
    """Return the scale of a whole tensor; 1 where there is none."""
    import numpy as np

    if name not in tensors.left:
        return 1.0
    stored = tensors.take(name)
    demand(stored.weight.n_elements == 1, stored)
    value = stored.floats().reshape(-1)
    with np.errstate(all="ignore"):
        return float((np.float32(1) / value if spelling.inverse else value)[0])


def _algorithm(tensors: Tensors, name: str) -> Any:
    """Return the algorithm of a layer: its own, that of a module around it, or the model's."""
    layers = tensors.settings.get("quantized_layers")
    module = re.sub(r"\.experts\.\d+\.", ".experts.", name)  # experts are one tensor of a GGUF
    while module and isinstance(layers, dict):
        settings = layers.get(module)
        if isinstance(settings, dict):
            return settings.get("quant_algo")
        module = module.rpartition(".")[0]
    return tensors.settings.get("quant_algo")
