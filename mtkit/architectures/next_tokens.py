"""Layers behind the last that predict further tokens (MTP; llama.cpp's ``nextn``).

A layer of the model's own kind, with what joins a token's embedding to the state before it.
Source: llama.cpp, gguf-py/gguf/tensor_mapping.py (``NEXTN_…``), src/models/glm4-moe.cpp.
"""

from __future__ import annotations

from mtkit.architectures.metadata import computed
from mtkit.architectures.table import in_layers, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow

_KEY = "nextn_predict_layers"


def next_keys(field: str = "num_nextn_predict_layers") -> tuple[KeyRow, KeyRow]:
    """Return the rows of the two counts of layers, by the field that counts those behind the last.

    They stand in place of the usual ``block_count``; ``hidden_layers`` writes it back.
    """

    def count(config: Config) -> int | None:
        return config.whole(field)

    def layers(config: Config) -> int:
        return config.count("num_hidden_layers") + (count(config) or 0)

    return computed("block_count", "u32", layers), computed(_KEY, "u32", count, field)


def _hidden_layers(dims: Dims) -> int:
    return dims.key("block_count") - dims.key(_KEY, 0)


def is_first_next(dims: Dims) -> bool:
    """Tell whether a layer is the first that predicts a further token."""
    return dims.layer == _hidden_layers(dims)


def is_next(dims: Dims) -> bool:
    """Tell whether a layer predicts a further token."""
    return dims.layer >= _hidden_layers(dims)


def has_next(dims: Dims) -> bool:
    """Tell whether a model has layers that predict further tokens."""
    return dims.key(_KEY, 0) > 0


def hidden_layers(dims: Dims) -> dict[str, Any]:
    """Return the field of config.json that counts the other layers."""
    return {"num_hidden_layers": _hidden_layers(dims)}


NEXT_ROWS = in_layers(
    is_next,
    join_rows(
        row("eh_proj", "nextn.eh_proj", "embd 2embd", bias=False),
        row("enorm", "nextn.enorm", "embd", bias=False),
        row("hnorm", "nextn.hnorm", "embd", bias=False),
        row("embed_tokens", "nextn.embed_tokens", "vocab embd", bias=False, optional=True),
        row("shared_head.head", "nextn.shared_head_head", "vocab embd", bias=False, optional=True),
        row("shared_head.norm", "nextn.shared_head_norm", "embd", bias=False),
    ),
)
NEXT_DIMS = {"2embd": lambda dims: 2 * dims["embd"]}
