"""Phi 1.5 and 2.

Source: llama.cpp, conversion/phi.py (``Phi2Model``); transformers, models/phi.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    IN_LAYER,
    OUTPUT,
    config_fields,
    default_fields,
    only,
    rotary_part,
)
from mtkit.architectures.metadata import computed, pick_keys, rotary_dim, u32
from mtkit.architectures.table import Architecture, block, join_rows, row

CONTEXT = u32(
    "context_length", "n_positions", "max_position_embeddings", written="max_position_embeddings"
)
ROTARY = rotary_dim(1.0, of_all_heads=True)
PHI_2 = Architecture(
    "phi2",
    ("PhiForCausalLM",),
    "phi",
    (
        *pick_keys(DECODER, "block_count", "embedding_length", "attention.head_count"),
        *pick_keys(DECODER, "attention.layer_norm_epsilon"),
        CONTEXT,
        computed(
            "feed_forward_length",
            "u32",
            lambda config: 4 * config.count("hidden_size"),
            "intermediate_size",
        ),
        computed(
            "attention.head_count_kv",
            "u32",
            lambda config: config.count("num_attention_heads"),
            "num_key_value_heads",
        ),
        computed("rope.dimension_count", "u32", ROTARY),
    ),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        row("model.final_layernorm", "output_norm", "embd"),
        OUTPUT,
        block(
            IN_LAYER,
            row("input_layernorm", "attn_norm", "embd"),
            row("self_attn.q_proj", "attn_q", "q embd"),
            row("self_attn.k_proj", "attn_k", "k embd"),
            row("self_attn.v_proj", "attn_v", "v embd"),
            row("self_attn.dense", "attn_output", "embd out"),
            row("mlp.fc1", "ffn_up", "ff embd"),
            row("mlp.fc2", "ffn_down", "embd ff"),
        ),
    ),
    checks=(only("qk_layernorm", False),),
    defaults=default_fields(2048, partial_rotary_factor=0.5, layer_norm_eps=1e-5),
    config=config_fields(
        hidden_act="gelu_new",
        rope_theta=10000.0,
        partial_rotary_factor=rotary_part,
        qk_layernorm=False,
    ),
)
