"""Seed-OSS.

Source: llama.cpp, conversion/olmo.py (``SeedOssModel``); transformers, models/seed_oss.
"""

from __future__ import annotations

from mtkit.architectures.config import silent
from mtkit.architectures.keys import DECODER
from mtkit.architectures.rows import EMBEDDINGS, FEED_FORWARD, OUTPUT, attention
from mtkit.architectures.table import Architecture, block, joined, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.dims import Dims


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    return {
        "hidden_act": "silu",
        "attention_bias": dims.has("blk.0.attn_q.bias"),
        "attention_out_bias": dims.has("blk.0.attn_output.bias"),
        "mlp_bias": dims.has("blk.0.ffn_up.bias"),
    }


SEED_OSS = Architecture(
    "seed_oss",
    ("SeedOssForCausalLM",),
    "seed_oss",
    DECODER,
    joined(
        EMBEDDINGS,
        OUTPUT,
        block(
            "model.layers.{i}.",
            row("input_layernorm", "attn_norm", "embd", bias=False),
            attention(),
            row("post_attention_layernorm", "post_attention_norm", "embd", bias=False),
            FEED_FORWARD,
        ),
    ),
    defaults=silent(524288, num_key_value_heads=8, head_dim=128),
    config=config,
)
