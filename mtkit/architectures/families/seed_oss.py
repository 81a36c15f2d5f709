"""Seed-OSS.

Source: llama.cpp, conversion/olmo.py (``SeedOssModel``); transformers, models/seed_oss.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    FEED_FORWARD,
    FEED_FORWARD_BIAS,
    attention,
    config_fields,
    decoder,
    default_fields,
    has,
)
from mtkit.architectures.table import Architecture, row

SEED_OSS = Architecture(
    "seed_oss",
    ("SeedOssForCausalLM",),
    "seed_oss",
    DECODER,
    decoder(
        row("input_layernorm", "attn_norm", "embd", bias=False),
        attention(),
        row("post_attention_layernorm", "post_attention_norm", "embd", bias=False),
        FEED_FORWARD,
    ),
    defaults=default_fields(524288, rms_norm_eps=1e-6, num_key_value_heads=8, head_dim=128),
    config=config_fields(
        hidden_act="silu",
        attention_bias=ATTENTION_BIAS,
        attention_out_bias=has("blk.0.attn_output.bias"),
        mlp_bias=FEED_FORWARD_BIAS,
    ),
)
