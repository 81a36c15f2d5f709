"""Snowflake Arctic: experts beside a dense part in every layer.

Source: llama.cpp, conversion/arctic.py (``ArcticModel``), src/models/arctic.cpp.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import decoder, default_fields, experts, only
from mtkit.architectures.families.llama import ATTENTION, KEYS
from mtkit.architectures.table import Architecture, row

ARCTIC = Architecture(
    "arctic",
    ("ArcticForCausalLM",),
    "arctic",
    KEYS,
    decoder(
        row("input_layernorm", "attn_norm", "embd", bias=False),
        row("residual_layernorm", "ffn_norm", "embd", bias=False),
        row("post_attention_layernorm", "ffn_norm_exps", "embd", bias=False),
        ATTENTION,
        row("residual_mlp.w1", "ffn_gate", "embd embd", bias=False),
        row("residual_mlp.w3", "ffn_up", "embd embd", bias=False),
        row("residual_mlp.w2", "ffn_down", "embd embd", bias=False),
        row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd", bias=False),
        experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2")),
    ),
    checks=(only("moe_layer_frequency", 1), only("parallel_attn_mlp_res", True)),
    defaults=default_fields(4096, rms_norm_eps=1e-5, num_local_experts=8, num_experts_per_tok=1),
    config=lambda dims, tensor: {
        "hidden_act": "silu",
        "parallel_attn_mlp_res": True,
        "moe_layer_frequency": 1,
        "use_residual": True,
    },
)
