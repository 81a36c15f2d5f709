"""ruGPT-3 XL: a GPT-2 with query, key and value apart.

Source: llama.cpp, conversion/gpt2.py (``RuGPT3XLModel``).
"""

from __future__ import annotations

from mtkit.architectures.changes import Joined
from mtkit.architectures.decoder_rows import DECODER, OUTPUT
from mtkit.architectures.metadata import without_keys
from mtkit.architectures.table import Architecture, block, join_rows, plain, row

_PARTS = ("q_proj", "k_proj", "v_proj")
RUGPT_3_XL = Architecture(
    "gpt2",
    ("RuGPT3XLForCausalLM",),
    "rugpt3xl",
    without_keys(DECODER, "attention.head_count_kv"),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        row("model.embed_positions", "position_embd", "ctx embd", bias=False),
        row("model.norm", "output_norm", "embd"),
        OUTPUT,
        block(
            "model.layers.{i}.",
            row("input_layernorm", "attn_norm", "embd"),
            *(
                plain(
                    " ".join(f"self_attn.{part}.{end}" for part in _PARTS),
                    f"attn_qkv.{end}",
                    axes,
                    Joined(),
                )
                for end, axes in (("weight", "qkv embd"), ("bias", "qkv"))
            ),
            row("self_attn.o_proj", "attn_output", "embd embd"),
            row("post_attention_layernorm", "ffn_norm", "embd"),
            row("mlp.up_proj", "ffn_up", "ff embd"),
            row("mlp.down_proj", "ffn_down", "embd ff"),
        ),
    ),
    defaults=lambda _: {"layer_norm_eps": 1e-5},
    config=lambda dims, tensor: {"hidden_act": "gelu", "num_key_value_heads": dims["head"]},
)
