"""ERNIE 4.5.

Source: llama.cpp, conversion/ernie.py (``Ernie4_5Model``); transformers, models/ernie4_5.
"""

from __future__ import annotations

from mtkit.architectures.config import silent
from mtkit.architectures.keys import DECODER
from mtkit.architectures.rows import EMBEDDINGS, FEED_FORWARD, NORMS, OUTPUT, attention
from mtkit.architectures.table import Architecture, block, joined

ERNIE_4_5 = Architecture(
    "ernie4_5",
    ("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"),
    "ernie4_5",
    DECODER,
    joined(EMBEDDINGS, OUTPUT, block("model.layers.{i}.", NORMS, attention(), FEED_FORWARD)),
    defaults=silent(
        131072, head_dim=128, num_key_value_heads=2, rms_norm_eps=1e-5, rope_theta=500000.0
    ),
    config=lambda dims, tensor: {
        "hidden_act": "silu",
        "use_bias": tensor("blk.0.attn_q.bias") is not None,
    },
)
