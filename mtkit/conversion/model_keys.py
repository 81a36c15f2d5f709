"""The metadata of a model's GGUF: what it is called, what it is, and its tokenizer."""

from __future__ import annotations

import os

from mtkit.architectures.keys import keys_of
from mtkit.checkpoints import model_card
from mtkit.checkpoints.folder_files import CONFIG, GENERATION, read_json
from mtkit.errors import MtkitError
from mtkit.gguf.writer import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config
    from mtkit.gguf.writer import NewTensor

QUANTIZATION_VERSION = 2
"""Source: ggml.h (``GGML_QNT_VERSION``)."""
_SAMPLING: Mapping[str, tuple[type, ...]] = {
    "sequence": (str,), "top_k": (int,), "top_p": (int, float), "min_p": (int, float),
    "xtc_probability": (int, float), "xtc_threshold": (int, float), "temperature": (int, float),
    "penalty_last_n": (int,), "penalty_repeat": (int, float), "mirostat": (int,),
    "mirostat_tau": (int, float), "mirostat_eta": (int, float),
}  # fmt: skip
"""Fields of generation_config.json that a GGUF has -> what they may be."""
_SPELLED = {"temperature": "temp"}
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
    signed = -total if is_adapter else total  # gguf takes a negative count for an adapter's
    card, hub_name = model_card.read(folder), _fields(folder, CONFIG).get("_name_or_path")
    known = {"_name_or_path": hub_name} if isinstance(hub_name, str) else {}
    found = gguf.Metadata.apply_metadata_heuristic(gguf.Metadata(), card, known, path, signed)
    for field, value in _fields(folder, GENERATION).items():
        if type(value) in _SAMPLING.get(field, ()):
            setattr(found, f"sampling_{_SPELLED.get(field, field)}", value)
    found.name = name or found.name or path.name
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


def _fields(folder: str, name: str) -> Mapping[str, Any]:
    """Return an object beside the weights; empty where it is missing or damaged."""
    try:
        return read_json(os.path.join(folder, name))
    except MtkitError:
        return {}


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
