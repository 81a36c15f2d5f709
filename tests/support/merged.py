"""Weights with a LoRA adapter added to them, computed as PEFT defines it."""

from __future__ import annotations

import shutil
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from mtkit.checkpoints import adapter_folder, folder_files, model_folder
from mtkit.checkpoints.safetensors import NewWeight, file_chunks
from mtkit.llm.forward import Decoder, Weights

if TYPE_CHECKING:
    from pathlib import Path


def delta(adapter: Path, name: str) -> Any:
    """Return what an adapter adds to a weight: float32; None where it is not in it."""
    found = adapter_folder.read(str(adapter), is_merged=True)
    pair = found.pairs.get(name)
    if pair is None:
        return None
    a, b = pair.a.floats(), pair.b.floats()
    scale = found.config["lora_alpha"] / (
        len(a) ** 0.5 if found.config.get("use_rslora") else len(a)
    )
    added = np.float32(scale) * (b @ a)
    return added.T if found.config.get("fan_in_fan_out") else added


class Merged(Weights):
    """Weights with adapters, each times a scale of its own."""

    def __init__(self, base: Path, adapters: list[tuple[Path, float]]) -> None:
        super().__init__(model_folder.read(str(base)).tensors)
        self._adapters = adapters

    def block(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Any:
        rows = super().block(name, shape, start, stop)
        for path, scale in self._adapters:
            added = delta(path, name)
            if added is not None:
                rows = rows + np.float32(scale) * added[start:stop]
        return rows


def logits(base: Path, adapters: list[tuple[Path, float]], ids: list[int]) -> Any:
    """Return the logits of a model with adapters behind the last id."""
    decoder = Decoder(model_folder.read(str(base)))
    decoder.weights = Merged(base, adapters)
    return decoder.last_logits([ids])[0]


def merge(target: Path, base: Path, adapter: Path) -> Path:
    """Write a model folder of F32 whose weights have the adapter in them."""
    read = model_folder.read(str(base))
    weights = []
    for name, one in read.tensors.items():
        array, added = one.floats(), delta(adapter, name)
        data = (array if added is None else array + added).astype("<f4").tobytes()
        pieces = partial(iter, (data,))
        weights.append(NewWeight(name, "F32", one.weight.shape, len(data), pieces))
    ignored = shutil.ignore_patterns("*.safetensors*", "*.gguf")
    shutil.copytree(base, target, ignore=ignored)
    (target / folder_files.WEIGHTS).write_bytes(b"".join(file_chunks(weights)))
    return target
