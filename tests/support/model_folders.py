"""Small HuggingFace model folders with random weights, of any architecture of the table."""

from __future__ import annotations

import json
import shutil
from hashlib import sha256
from typing import TYPE_CHECKING, Any

import numpy as np
from support import FIXTURES

import mtkit
from mtkit.architectures import architecture_of_class, describe_config
from mtkit.architectures.metadata import keys_of
from mtkit.architectures.table import ANY_EXPERT
from mtkit.architectures.tensor_match import every_match
from mtkit.checkpoints.folder_files import INDEX, MODEL_CONFIG, WEIGHTS
from mtkit.checkpoints.safetensors import NewWeight, file_chunks
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.values import encode_values

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    Shapes = dict[str, tuple[int, ...]]
    """Name of a tensor -> its shape, slowest axis first; in the order of the files."""

SIZES: dict[str, Any] = {
    "hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 2, "num_attention_heads": 4,
    "num_key_value_heads": 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-5,
    "rope_theta": 10000.0, "torch_dtype": "bfloat16",
}  # fmt: skip
"""Fields of config.json that most classes of transformers ask for."""
EXPERTS = {"num_local_experts": 2, "num_experts": 2, "num_experts_per_tok": 1}
"""Those of mixtures of experts as well."""
_MPT = {"d_model": 64, "n_layers": 2, "n_heads": 4, "max_seq_len": 128}
OWN: dict[str, dict[str, Any]] = {
    "MPTForCausalLM": _MPT,
    "MptForCausalLM": _MPT,
    "DeepseekV2ForCausalLM": {
        "moe_intermediate_size": 32, "q_lora_rank": 24, "kv_lora_rank": 16,
        "qk_rope_head_dim": 8, "qk_nope_head_dim": 16, "v_head_dim": 16,
    },
}  # fmt: skip
"""Class -> fields by other names, without which it would be as large as published."""
TABLES = ("tid2eid",)
"""Ends of names of tensors of whole numbers."""
TYPES = {one.name: one for one in TENSOR_TYPES.values()}


def tensors_of(config: Mapping[str, Any], wanted: Sequence[str] = ("lm_head.weight",)) -> Shapes:
    """Return the tensors of a model, without the optional ones but for those that are wanted."""
    architecture, known = describe_config(config, MODEL_CONFIG)
    keys = keys_of(architecture.name, architecture.keys, known)
    metadata = {key.name: key.value for key in keys}
    dims = architecture.sizes(metadata, known.count("vocab_size"))
    numbers = {
        one.folder.replace("{i}", str(layer)): dims.shape(one.axes)
        for one in architecture.layer_numbers
        for layer in range(dims.key("block_count"))
    }
    return numbers | {
        name: shape
        for match in every_match(architecture, dims)
        if not match.row.optional or any(part in match.folder[0] for part in wanted)
        for name, shape in zip(match.folder, match.folder_shapes, strict=True)
    }


def values(name: str, shape: Sequence[int]) -> Any:
    """Return float32 values that depend on name and shape alone; those of norms lie around 1."""
    seed = int.from_bytes(sha256(f"{name}{shape}".encode()).digest()[:8], "little")
    found = np.random.default_rng(seed).normal(size=shape) / np.sqrt(max(shape[-1:] or [1]))
    return (found + (len(shape) == 1 and "norm" in name)).astype(np.float32)


def write_weights(path: Path, shapes: Mapping[str, Sequence[int]], kind: str = "BF16") -> None:
    """Write a safetensors file."""

    def weight(name: str, shape: Sequence[int]) -> NewWeight:
        is_table = name.endswith(TABLES)
        numbers = np.arange(np.prod(shape)) % 2
        data = encode_values(values(name, shape), TYPES[kind]).tobytes()
        data = numbers.astype("<i8").tobytes() if is_table else data
        own = "I64" if is_table else kind
        return NewWeight(name, own, tuple(shape), len(data), lambda: iter((data,)))

    path.write_bytes(b"".join(file_chunks([weight(name, shape) for name, shape in shapes.items()])))


def write_folder(
    path: Path,
    architecture: str = "LlamaForCausalLM",
    *,
    config: Mapping[str, Any] | None = None,
    change: Callable[[Shapes], object] = lambda _: None,
    optional: Sequence[str] = ("lm_head.weight",),
    kind: str = "BF16",
    files: int = 1,
    tokenizer: str = "spm-bpe",
) -> Path:
    """Write a model folder as it is published.

    Args:
        path: The folder, which is made.
        architecture: Class of transformers, one of the table.
        config: Fields of config.json that are others than ``SIZES`` has.
        change: Is given the tensors to change them.
        optional: Parts of the names of tensors that a model can lack and this one has.
        kind: Type of the weights: F32, F16 or BF16.
        files: Number of files of weights; several have an index.
        tokenizer: Folder of ``tests/fixtures``; empty: there is none.

    Returns:
        The folder.
    """
    path.mkdir(parents=True, exist_ok=True)
    vocab = 128
    if tokenizer:
        vocab = mtkit.load(FIXTURES / tokenizer).vocab_size
        for name in ("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.txt"):
            if (FIXTURES / tokenizer / name).exists():
                shutil.copyfile(FIXTURES / tokenizer / name, path / name)
    rows = architecture_of_class(architecture).rows
    experts = EXPERTS if any(ANY_EXPERT in name for row in rows for name in row.folder) else {}
    sizes = {"vocab_size": vocab, **SIZES, **experts, **OWN.get(architecture, {})}
    fields = {"architectures": [architecture], **sizes, **(config or {})}
    (path / MODEL_CONFIG).write_text(json.dumps(fields, indent=2))
    shapes = tensors_of(fields, optional)
    change(shapes)
    if files == 1:
        write_weights(path / WEIGHTS, shapes, kind)
        return path
    weight_map = {}
    for number in range(files):
        name = f"model-{number + 1:05d}-of-{files:05d}.safetensors"
        part = dict(list(shapes.items())[number::files])
        write_weights(path / name, part, kind)
        weight_map.update(dict.fromkeys(part, name))
    total = sum(int(np.prod(shape)) for shape in shapes.values()) * TYPES[kind].block_bytes
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    (path / INDEX).write_text(json.dumps(index, indent=2))
    return path
