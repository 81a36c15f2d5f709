"""BLOOM.

Source: llama.cpp, conversion/bloom.py (``BloomModel``); transformers, models/bloom.
"""

from __future__ import annotations

from mtkit.architectures.changes import GroupedQkv
from mtkit.architectures.decoder_rows import DECODER, OUTPUT, only
from mtkit.architectures.metadata import computed, u32, with_fields, without_keys
from mtkit.architectures.table import Architecture, block, join_rows, row

KEYS = (
    *with_fields(
        without_keys(DECODER, "context_length", "feed_forward_length", "attention.head_count_kv"),
        block_count="n_layer",
        attention__head_count="n_head",
        attention__layer_norm_epsilon="layer_norm_epsilon",
    ),
    u32("embedding_length", "hidden_size", "n_embed"),
    u32("context_length", "seq_length", "hidden_size", "n_embed"),
    computed("feed_forward_length", "u32", lambda c: 4 * c.count("hidden_size", "n_embed")),
    computed("attention.head_count_kv", "u32", lambda c: c.count("n_head", "num_attention_heads")),
)


BLOOM = Architecture(
    "bloom",
    ("BloomForCausalLM", "BloomModel"),
    "bloom",
    KEYS,
    join_rows(
        row("transformer.word_embeddings", "token_embd", "vocab embd", bias=False),
        row("transformer.word_embeddings_layernorm", "token_embd_norm", "embd"),
        row("transformer.ln_f", "output_norm", "embd"),
        OUTPUT,
        block(
            "transformer.h.{i}.",
            row("input_layernorm", "attn_norm", "embd"),
            row("self_attention.query_key_value", "attn_qkv", "qkv embd", GroupedQkv()),
            row("self_attention.dense", "attn_output", "embd embd"),
            row("post_attention_layernorm", "ffn_norm", "embd"),
            row("mlp.dense_h_to_4h", "ffn_up", "ff embd"),
            row("mlp.dense_4h_to_h", "ffn_down", "embd ff"),
        ),
    ),
    checks=(only("apply_residual_connection_post_layernorm", False),),
    prefix="transformer.",
    defaults=lambda config: {"layer_norm_epsilon": 1e-5},
)
