"""The metadata of a model's GGUF: what it is called, what it is, and its tokenizer."""

from __future__ import annotations

import os

from mtkit.architectures.keys import keys_of
from mtkit.gguf.writer import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config
    from mtkit.gguf.writer import NewTensor

QUANTIZATION_VERSION = 2
"""Source: ggml.h (``GGML_QNT_VERSION``)."""
_TYPES = {"STRING": "string", "UINT32": "u32", "INT32": "i32", "FLOAT32": "f32", "BOOL": "bool"}


def about(
    folder: str, tensors: Iterable[NewTensor], name: str | None, *, is_adapter: bool = False
) -> list[Key]:
    """Return who made a model and what it is called: of its card, its folder and its size.

    Args:
        folder: Of the model; a README.md there is its card.
        tensors: Of the GGUF.
        name: What it is called; None: as the card or the folder says.
        is_adapter: It is an adapter of tensors of these shapes, whose size is that of none.
    """
    from pathlib import Path

    import gguf

    total, shared, expert, experts = _parameters(tensors)
    path = Path(os.path.abspath(folder))
    signed = -total if is_adapter else total  # as the names of the card are read by gguf
    found = gguf.Metadata.load(model_path=path, model_name=name, total_params=signed)
    found.name = found.name or path.name
    if not is_adapter:
        found.size_label = found.size_label or gguf.size_label(total, shared, expert, experts)
    writer = gguf.GGUFWriter(None, "")
    writer.add_type(gguf.GGUFType.MODEL)
    found.set_gguf_meta_model(writer)
    return [
        Key(name, _type(value), value.value)
        for name, value in writer.kv_data[0].items()
        if name != "general.architecture"
    ]


def _type(value: Any) -> str:
    if value.type.name != "ARRAY":
        return _TYPES[value.type.name]
    return "string[]"


def _parameters(tensors: Iterable[NewTensor]) -> tuple[int, int, int, int]:
    """Return numbers of parameters: all, those of every token, those of one expert; experts."""
    from math import prod

    total = shared = expert = 0
    counts = []
    for tensor in tensors:
        size = prod(tensor.shape)
        total += size
        if "_exps." in tensor.name and len(tensor.shape) >= 2:
            counts.append(tensor.shape[-1])
            expert += size // max(counts[-1], 1)
        else:
            shared += size
    return total, shared, expert, sum(counts) // len(counts) if counts else 0


def of_model(architecture: Architecture, config: Config, file_type: int) -> list[Key]:
    """Return what the model is.

    Raises:
        FormatError: A field of the config is missing or not what it should be.
        UnsupportedError: It asks for what llama.cpp does not have in this architecture.
    """
    for check in architecture.checks:
        check(config)
    return [
        *keys_of(architecture.name, architecture.keys, config),
        Key("general.file_type", "u32", file_type),
        Key("general.quantization_version", "u32", QUANTIZATION_VERSION),
    ]
