"""Trinity of Arcee (AFMoE): a gate on attention, norms on both sides, layers of a window.

Source: llama.cpp, conversion/afmoe.py (``AfmoeModel``); transformers, models/afmoe.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    HEAD_NORMS,
    SLIDING_WINDOW,
    attention,
    config_fields,
    decoder,
    default_fields,
    experts,
    is_dense,
    is_sparse,
    shared_expert,
)
from mtkit.architectures.expert_rows import shared_width
from mtkit.architectures.families.llama import KEYS
from mtkit.architectures.metadata import f32, flag, u32
from mtkit.architectures.table import Architecture, in_layers, plain, row

AFMOE = Architecture(
    "afmoe",
    ("AfmoeForCausalLM",),
    "afmoe",
    (
        *KEYS,
        SLIDING_WINDOW,
        EXPERT_FEED_FORWARD,
        u32("leading_dense_block_count", "num_dense_layers"),
        u32("expert_shared_count", "num_shared_experts"),
        f32("expert_weights_scale", "route_scale"),
        flag("expert_weights_norm", "route_norm"),
    ),
    decoder(
        row("input_layernorm", "attn_norm", "embd", bias=False),
        row("post_attention_layernorm", "post_attention_norm", "embd", bias=False),
        row("pre_mlp_layernorm", "ffn_norm", "embd", bias=False),
        row("post_mlp_layernorm", "post_ffw_norm", "embd", bias=False),
        attention(),
        HEAD_NORMS,
        row("self_attn.gate_proj", "attn_gate", "out embd", bias=False),
        in_layers(is_dense, FEED_FORWARD),
        in_layers(
            is_sparse,
            row("mlp.router.gate", "ffn_gate_inp", "expert embd", bias=False),
            plain("mlp.expert_bias", "exp_probs_b.bias", "expert"),
            experts("mlp.experts.{e}"),
            shared_expert("mlp.shared_experts"),
        ),
    ),
    defaults=default_fields(
        16384,
        rms_norm_eps=1e-5,
        head_dim=128,
        num_dense_layers=1,
        num_shared_experts=0,
        route_scale=1.0,
        sliding_window=1024,
    ),
    dims={"ff_shexp": shared_width},
    config=config_fields(hidden_act="silu"),
)
