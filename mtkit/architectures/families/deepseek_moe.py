"""DeepSeek MoE, the first DeepSeek with experts.

Source: llama.cpp, conversion/deepseek.py (``DeepseekModel``); configuration_deepseek.py beside the
published model.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    NORMS,
    VOCAB_SIZE,
    config_fields,
    decoder,
    default_fields,
    experts,
    is_dense,
    is_sparse,
    only,
    shared_expert,
)
from mtkit.architectures.expert_rows import shared_width
from mtkit.architectures.families.llama import ATTENTION
from mtkit.architectures.metadata import always, computed, head_dim, u32, with_keys
from mtkit.architectures.table import Architecture, in_layers, row

DEEPSEEK_MOE = Architecture(
    "deepseek",
    ("DeepseekForCausalLM",),
    "deepseek",
    with_keys(
        DECODER,
        VOCAB_SIZE,
        EXPERT_FEED_FORWARD,
        computed("rope.dimension_count", "u32", head_dim),
        always("rope.scaling.type", "string", "none"),
        always("expert_weights_scale", "f32", 1.0),
        u32("leading_dense_block_count", "first_k_dense_replace"),
        u32("expert_shared_count", "n_shared_experts"),
    ),
    decoder(
        NORMS,
        ATTENTION,
        in_layers(is_dense, FEED_FORWARD),
        in_layers(
            is_sparse,
            row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
            experts("mlp.experts.{e}"),
            shared_expert("mlp.shared_experts"),
        ),
    ),
    checks=(only("moe_layer_freq", 1), only("norm_topk_prob", False)),
    defaults=default_fields(2048, rms_norm_eps=1e-6, first_k_dense_replace=0),
    dims={"ff_shexp": shared_width},
    config=config_fields(hidden_act="silu", norm_topk_prob=False, moe_layer_freq=1),
)
