"""NVFP4: numbers of 4 bits, a scale for each 16 of them, and one for the matrix.

llama.cpp has the same type, so a matrix keeps its bits; the scale of the matrix, and the one of
what it is multiplied with, are tensors of their own in a GGUF. A block has 64 numbers: four scales,
whose sign is dropped, then for each scale its 16 numbers, the first eight in the low halves.

Source: llama.cpp, conversion/base.py (``_nvfp4_pack``, ``_tag_prec_a4``).
"""

from __future__ import annotations

import re

from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import PackedTensor
from mtkit.checkpoints.quantized import bits_of, demand, read_compressed, read_modelopt
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
