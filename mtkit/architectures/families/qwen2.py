"""Qwen2, Qwen2.5 and their mixtures of experts.

Source: llama.cpp, conversion/qwen.py (``Qwen2Model``, ``Qwen2MoeModel``); transformers,
models/qwen2, models/qwen2_moe.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    EXPERT_COUNT,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    NORMS,
    POOLING,
    attention,
    config_fields,
    decoder,
    default_fields,
    experts,
    only,
    shared_expert,
)
from mtkit.architectures.metadata import u32, with_keys
from mtkit.architectures.table import Architecture, join_rows, row

SHARED_EXPERT = join_rows(
    shared_expert("mlp.shared_expert"),
    row("mlp.shared_expert_gate", "ffn_gate_inp_shexp", "1 embd", bias=False),
)
EXPERTS = join_rows(
    row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False), experts("mlp.experts.{e}")
)
ALL_SPARSE = (only("mlp_only_layers", []), only("decoder_sparse_step", 1))
"""Every layer has experts."""
MOE_KEYS = (*with_keys(DECODER, EXPERT_COUNT), EXPERT_FEED_FORWARD)

QWEN2 = Architecture(
    "qwen2",
    ("Qwen2ForCausalLM", "Qwen2Model", "KORMoForCausalLM"),
    "qwen2",
    (*DECODER, POOLING),
    decoder(NORMS, attention(), FEED_FORWARD),
    defaults=default_fields(32768, rms_norm_eps=1e-6),
    config=config_fields(hidden_act="silu"),
)
QWEN2_MOE = Architecture(
    "qwen2moe",
    ("Qwen2MoeForCausalLM",),
    "qwen2_moe",
    (
        *MOE_KEYS,
        u32("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
    ),
    decoder(NORMS, attention(), EXPERTS, SHARED_EXPERT),
    checks=ALL_SPARSE,
    defaults=default_fields(
        32768,
        rms_norm_eps=1e-6,
        num_experts=60,
        num_experts_per_tok=4,
        moe_intermediate_size=1408,
        shared_expert_intermediate_size=5632,
    ),
    config=config_fields(hidden_act="silu", norm_topk_prob=False, qkv_bias=ATTENTION_BIAS),
)
