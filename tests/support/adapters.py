"""Small LoRA adapters as PEFT saves them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from model_folders import write_weights

from mtkit.checkpoints import model_folder

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

CONFIG = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": 4, "lora_alpha": 8, "bias": "none"}
LAYERS = ("q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj")


def linear_layers(base: Path, wanted: Sequence[str] = LAYERS) -> dict[str, tuple[int, int]]:
    """Return name of a linear layer of a model folder -> its shape, of those that are wanted."""
    found = {}
    for name, stored in model_folder.read(str(base)).tensors.items():
        layer = name.removesuffix(".weight")
        if layer.rpartition(".")[2] in wanted and layer != name:
            rows, columns = stored.weight.shape
            found[layer] = rows, columns
    return found


def write_adapter(
    path: Path,
    base: Path | None,
    layers: Mapping[str, tuple[int, int]],
    *,
    rank: int = 4,
    config: Mapping[str, Any] | None = None,
    kind: str = "F32",
) -> Path:
    """Write an adapter.

    Args:
        path: The folder, which is made.
        base: Of its base model, which it names.
        layers: Name of a linear layer -> its shape.
        rank: Of each.
        config: Fields of adapter_config.json that are others than ``CONFIG`` has.
        kind: Type of the weights: F32, F16 or BF16.

    Returns:
        The folder.
    """
    path.mkdir(parents=True)
    named = {"base_model_name_or_path": str(base)} if base else {}
    (path / "adapter_config.json").write_text(
        json.dumps({**CONFIG, **named, "r": rank, **(config or {})})
    )
    shapes: dict[str, Sequence[int]] = {}
    for name, (rows, columns) in layers.items():
        shapes[f"base_model.model.{name}.lora_A.weight"] = rank, columns
        shapes[f"base_model.model.{name}.lora_B.weight"] = rows, rank
    write_weights(path / "adapter_model.safetensors", shapes, kind)
    return path
