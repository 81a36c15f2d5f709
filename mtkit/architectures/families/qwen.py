"""Qwen of 2023.

Source: llama.cpp, conversion/qwen.py (``QwenModel``), src/models/qwen.cpp; modeling_qwen.py beside
the published model.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import DECODER, OUTPUT, config_fields, default_fields
from mtkit.architectures.metadata import f32, with_keys
from mtkit.architectures.table import Architecture, block, join_rows, row

QWEN = Architecture(
    "qwen",
    ("QWenLMHeadModel",),
    "qwen",
    # Its norms are of the root mean square, and llama.cpp asks for this key.
    with_keys(DECODER, f32("attention.layer_norm_rms_epsilon", "layer_norm_epsilon")),
    join_rows(
        row("transformer.wte", "token_embd", "vocab embd", bias=False),
        row("transformer.ln_f", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            "transformer.h.{i}.",
            row("ln_1", "attn_norm", "embd", bias=False),
            row("ln_2", "ffn_norm", "embd", bias=False),
            row("attn.c_attn", "attn_qkv", "3embd embd", bias=True),
            row("attn.c_proj", "attn_output", "embd embd", bias=False),
            row("mlp.w2", "ffn_gate", "ff/2 embd", bias=False),
            row("mlp.w1", "ffn_up", "ff/2 embd", bias=False),
            row("mlp.c_proj", "ffn_down", "embd ff/2", bias=False),
        ),
    ),
    defaults=default_fields(8192, layer_norm_epsilon=1e-6, num_key_value_heads=None),
    prefix="transformer.",
    dims={"3embd": lambda dims: 3 * dims["embd"], "ff/2": lambda dims: dims["ff"] // 2},
    config=config_fields(no_bias=True, bf16=True),
)
