"""MiniMax M2, M2.1 and M2.5.

Source: llama.cpp, conversion/minimax.py (``MiniMaxM2Model``); transformers, models/minimax_m2.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    NORMS,
    WIDE_NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
    experts,
)
from mtkit.architectures.metadata import u32
from mtkit.architectures.table import Architecture, plain, row

MINIMAX_M2 = Architecture(
    "minimax-m2",
    ("MiniMaxM2ForCausalLM",),
    "minimax_m2",
    (
        *DECODER,
        u32("expert_feed_forward_length", "intermediate_size"),
        u32("rope.dimension_count", "rotary_dim"),
    ),
    decoder(
        NORMS,
        attention(),
        WIDE_NORMS,
        row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd", bias=False),
        plain("block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", "expert"),
        experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2")),
    ),
    defaults=default_fields(196608, rms_norm_eps=1e-6, rotary_dim=64, scoring_func="sigmoid"),
    config=config_fields(hidden_act="silu", use_qk_norm=True, use_routing_bias=True),
)
