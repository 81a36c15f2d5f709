"""MPT. llama.cpp's converter does not write the type of the file.

Source: llama.cpp, conversion/mpt.py (``MPTModel``); transformers, models/mpt.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import OUTPUT, config_fields
from mtkit.architectures.metadata import always, computed, u32
from mtkit.architectures.table import Architecture, block, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.config import Config


def _alibi(config: Config) -> float | None:
    attention = config.table("attn_config").with_defaults({"alibi": True, "alibi_bias_max": 8})
    return attention.number("alibi_bias_max") if attention.flag("alibi") else 0.0


def _of_alibi(value: float) -> dict[str, Any]:
    most = {"alibi_bias_max": int(value) if value % 1 == 0 else value} if value else {}
    return {"attn_config": {"alibi": bool(value), **most}, "learned_pos_emb": True}


MPT = Architecture(
    "mpt",
    ("MPTForCausalLM", "MptForCausalLM"),
    "mpt",
    (
        u32("block_count", "n_layers"),
        u32("context_length", "max_seq_len"),
        u32("embedding_length", "d_model"),
        computed("feed_forward_length", "u32", lambda config: 4 * config.count("d_model")),
        u32("attention.head_count", "n_heads"),
        computed(
            "attention.head_count_kv",
            "u32",
            lambda config: config.table("attn_config").whole("kv_n_heads") or None,
            lambda value: {"attn_config": {"kv_n_heads": value}},
        ),
        always("attention.layer_norm_epsilon", "f32", 1e-5),
        computed(
            "attention.clamp_kqv",
            "f32",
            lambda config: config.table("attn_config").number("clip_qkv"),
            lambda value: {"attn_config": {"clip_qkv": value}},
        ),
        computed("attention.max_alibi_bias", "f32", _alibi, _of_alibi),
    ),
    join_rows(
        row("transformer.wte", "token_embd", "vocab embd", bias=False),
        row("transformer.wpe", "position_embd", "ctx embd", bias=False, optional=True),
        row("transformer.norm_f", "output_norm", "embd"),
        OUTPUT,
        block(
            "transformer.blocks.{i}.",
            row("norm_1", "attn_norm", "embd"),
            row("attn.Wqkv", "attn_qkv", "qkv embd"),
            row("attn.q_ln", "attn_q_norm", "q", optional=True),
            row("attn.k_ln", "attn_k_norm", "k", optional=True),
            row("attn.out_proj", "attn_output", "embd embd"),
            row("norm_2", "ffn_norm", "embd"),
            row("ffn.up_proj", "ffn_up", "ff embd"),
            row("ffn.down_proj", "ffn_down", "embd ff"),
        ),
    ),
    prefix="transformer.",
    defaults=lambda config: {
        "max_seq_len": 2048,
        "d_model": 2048,
        "n_heads": 16,
        "n_layers": 24,
    },
    config=config_fields(
        attn_config=lambda dims: {"qk_ln": dims.has("blk.0.attn_q_norm.weight")},
        no_bias=lambda dims: not dims.has("output_norm.bias"),
        expansion_ratio=lambda dims: dims["ff"] // max(dims["embd"], 1),
        norm_type="low_precision_layernorm",
    ),
)
