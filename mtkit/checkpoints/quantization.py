"""By what method the weights of a folder are quantized, and what reads each.

The settings are ``quantization_config`` of config.json, of MLX ``quantization``.
"""

from __future__ import annotations

from mtkit.architectures.config import MLX, MXFP4, quantization
from mtkit.checkpoints import float4, quantized, quantized_blocks
from mtkit.checkpoints.quantized import Tensors
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.checkpoints.folder_files import StoredTensor

METHODS: dict[str, Callable[[Tensors], None]] = {
    "fp8": float4.read_fp8_mix,
    "fbgemm_fp8": quantized.read_fp8,
    "modelopt": float4.read_modelopt_mix,
    "compressed-tensors": float4.read_compressed_mix,
    "gptq": quantized.read_gptq,
    "awq": quantized.read_awq,
    "bitnet": quantized.read_bitnet,
    "bitsandbytes": quantized_blocks.read_bitsandbytes,
    MLX: quantized_blocks.read_mlx,
}
"""``quant_method`` → what puts plain tensors in the place of packed ones."""


MODELOPT_CONFIG = "hf_quant_config.json"
"""Where ModelOpt says what it did; newer ones say it in config.json as well."""


def with_settings(config: Mapping[str, Any], beside: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return config.json with the settings of its text part and of ModelOpt's own file."""
    part = config.get("text_config")
    inner = part.get("quantization_config") if isinstance(part, dict) else None
    if isinstance(inner, dict) and config.get("quantization_config") is None:  # Kimi K2.5
        config = {**config, "quantization_config": inner}
    settings, producer = beside.get("quantization"), beside.get("producer")
    own = config.get("quantization_config") or {}
    if not isinstance(settings, dict) or not isinstance(own, dict):
        return config
    name = producer.get("name") if isinstance(producer, dict) else ""
    method = {"quant_method": str(name).lower()} if name else {}
    return {**config, "quantization_config": {**method, **settings, **own}}


def plain_tensors(
    config: Mapping[str, Any], tensors: Mapping[str, StoredTensor]
) -> dict[str, StoredTensor]:
    """Return the tensors of a folder as plain numbers; those of MXFP4 and NVFP4 keep their bits.

    Raises:
        FormatError: The tensors of a weight do not fit each other.
        UnsupportedError: The method, or a setting of it, is none that is read.
    """
    method = quantization(config)
    if not method and _is_mlx(tensors):
        method = MLX
    if method == MXFP4:
        return dict(tensors)
    settings = config.get("quantization_config") or config.get("quantization")
    work = Tensors(tensors, settings if isinstance(settings, dict) else {})
    if method:
        if method not in METHODS:
            raise UnsupportedError(method)
        METHODS[method](work)
        quantized.drop_unused(work)
    quantized.read_float8(work)
    if method and tensors and not work.count:
        raise UnsupportedError(
            "but no tensor is packed",
            hint="if the weights are plain, take these settings out of config.json",
        )
    return work.left


def _is_mlx(tensors: Mapping[str, StoredTensor]) -> bool:
    """Tell matrices that mlx-lm packed: 32 bits hold several numbers, scales lie beside them."""
    return any(
        stored.weight.type == "U32" and f"{name.removesuffix('weight')}scales" in tensors
        for name, stored in tensors.items()
    )
