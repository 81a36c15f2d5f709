"""Qwen3 and its mixtures of experts.

Source: llama.cpp, conversion/qwen.py (``Qwen3Model``, ``Qwen3MoeModel``); transformers,
models/qwen3, models/qwen3_moe.
"""

from __future__ import annotations

from mtkit.architectures.common_keys import POOLING
from mtkit.architectures.config import silent
from mtkit.architectures.families.qwen2 import ALL_SPARSE, EXPERTS, LAYER, MOE_KEYS
from mtkit.architectures.keys import DECODER
from mtkit.architectures.rows import (
    EMBEDDINGS,
    FEED_FORWARD,
    HEAD_NORMS,
    NORMS,
    OUTPUT,
    attention,
)
from mtkit.architectures.table import Architecture, block, joined

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.dims import Dims


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        "hidden_act": "silu",
        "attention_bias": dims.has("blk.0.attn_q.bias"),
    }


QWEN3 = Architecture(
    "qwen3",
    ("Qwen3ForCausalLM", "Qwen3Model"),
    "qwen3",
    (*DECODER, POOLING),
    joined(EMBEDDINGS, OUTPUT, block(LAYER, NORMS, attention(), HEAD_NORMS, FEED_FORWARD)),
    defaults=silent(32768, head_dim=128),
    config=_config,
)
QWEN3_MOE = Architecture(
    "qwen3moe",
    ("Qwen3MoeForCausalLM",),
    "qwen3_moe",
    MOE_KEYS,
    joined(EMBEDDINGS, OUTPUT, block(LAYER, NORMS, attention(), HEAD_NORMS, EXPERTS)),
    checks=ALL_SPARSE,
    defaults=silent(
        32768,
        num_experts=128,
        num_experts_per_tok=8,
        moe_intermediate_size=768,
        num_key_value_heads=4,
    ),
    # llama.cpp scales the weights of the experts that it uses to a sum of 1.
    config=lambda dims, tensor: {**_config(dims, tensor), "norm_topk_prob": True},
)
