"""GPT-NeoX: Pythia, Dolly.

The converter does not say the type of the file; the base of rotary positions it does not write
either, which models with another one than 10000 need.

Source: llama.cpp, conversion/gptneox.py (``GPTNeoXModel``); transformers, models/gpt_neox.
"""

from __future__ import annotations

from mtkit.architectures.changes import GroupedQkv
from mtkit.architectures.decoder_rows import DECODER, config_fields, has, rotary_part
from mtkit.architectures.metadata import computed, flag, rope_base_unless, rotary_dim, without_keys
from mtkit.architectures.table import Architecture, block, join_rows, row

GPT_NEOX = Architecture(
    "gptneox",
    ("GPTNeoXForCausalLM",),
    "gpt_neox",
    (
        *without_keys(DECODER, "attention.head_count_kv", "rope.freq_base"),
        rope_base_unless(10000.0),
        computed("rope.dimension_count", "u32", rotary_dim(0.25)),
        flag("use_parallel_residual", "use_parallel_residual"),
    ),
    join_rows(
        row("gpt_neox.embed_in", "token_embd", "vocab embd", bias=False),
        row("gpt_neox.final_layer_norm", "output_norm", "embd"),
        row("embed_out", "output", "vocab embd", bias=False, optional=True),
        block(
            "gpt_neox.layers.{i}.",
            row("input_layernorm", "attn_norm", "embd"),
            row("attention.query_key_value", "attn_qkv", "qkv embd", GroupedQkv()),
            row("attention.dense", "attn_output", "embd embd"),
            row("post_attention_layernorm", "ffn_norm", "embd"),
            row("mlp.dense_h_to_4h", "ffn_up", "ff embd"),
            row("mlp.dense_4h_to_h", "ffn_down", "embd ff"),
        ),
    ),
    prefix="gpt_neox.",
    defaults=lambda config: {
        "max_position_embeddings": 2048,
        "layer_norm_eps": 1e-5,
        "use_parallel_residual": True,
        "rope_theta": 10000.0,
    },
    config=config_fields(
        hidden_act="gelu",
        attention_bias=has("blk.0.attn_qkv.bias"),
        rotary_pct=rotary_part,
        partial_rotary_factor=rotary_part,
    ),
)
