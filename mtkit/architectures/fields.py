"""Fields of config.json, family by family: what one may lack, what one made from a GGUF gets."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.dims import Dims
    from mtkit.architectures.table import Writer


def silent(context: int, **fields: Any) -> Callable[[Config], Mapping[str, Any]]:
    """Return what transformers takes where a config.json is silent, as most decoders have it.

    Args:
        context: The most positions.
        fields: What else, and what is not as usual; a function is given the config.
    """
    usual = {
        "max_position_embeddings": context,
        "num_key_value_heads": lambda config: config.get("num_attention_heads"),
        "rope_theta": 10000.0,
    }
    return lambda config: _called({**usual, **fields}, config)


def written(**fields: Any) -> Writer:
    """Return what writes fields of config.json; a function among the values is given the sizes."""
    return lambda dims, tensor: _called(fields, dims)


def _called(fields: Mapping[str, Any], given: object) -> dict[str, Any]:
    return {name: one(given) if callable(one) else one for name, one in fields.items()}


def has(name: str) -> Callable[[Dims], bool]:
    """Return what tells whether a tensor is there."""
    return lambda dims: dims.has(name)


ATTENTION_BIAS = has("blk.0.attn_q.bias")
FEED_FORWARD_BIAS = has("blk.0.ffn_up.bias")


def rotary_part(dims: Dims) -> float:
    """Return how much of a head is rotated."""
    return dims["rope"] / max(dims["key"], 1)
