"""Falcon 7B, 40B, 180B, Falcon 2.

The converter takes 2048 for the context, four times the width for the feed-forward part, and 10000
for the base of rotary positions; here config.json has the say. A model of one head of key and
value has one whatever ``num_kv_heads`` says, as transformers reads it.

Source: llama.cpp, conversion/falcon.py (``FalconModel``); transformers, models/falcon.
"""

from __future__ import annotations

from mtkit.architectures.changes import GroupedQkv
from mtkit.architectures.decoder_rows import DECODER, OUTPUT, only
from mtkit.architectures.metadata import (
    always,
    computed,
    rope_base_unless,
    with_fields,
    without_keys,
)
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims


def _heads_kv(config: Config) -> int:
    if config.flag("new_decoder_architecture"):
        return config.count("num_kv_heads", "n_head_kv", "num_attention_heads", "n_head")
    if config.flag("multi_query") is False:
        return config.count("num_attention_heads", "n_head")
    return config.whole("n_head_kv") or 1


def _two_norms(dims: Dims) -> bool:
    return dims.has("transformer.h.0.ln_mlp.weight", "blk.0.attn_norm_2.weight")


def defaults(config: Config) -> Mapping[str, Any]:
    """Return transformers' defaults."""
    return {
        "max_position_embeddings": 2048,
        "layer_norm_epsilon": 1e-5,
        "rope_theta": 10000.0,
        "ffn_hidden_size": 4 * config.count("hidden_size"),
    }


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    two, groups = _two_norms(dims), dims["head_kv"]
    new = two or 1 < groups < dims["head"]
    return {
        "activation": "gelu",
        "alibi": False,
        "bias": False,
        "parallel_attn": True,
        "new_decoder_architecture": new,
        "multi_query": new or groups == 1,
        **({"num_ln_in_parallel_attn": 1 + two} if new else {}),
    }


FALCON = Architecture(
    "falcon",
    ("FalconForCausalLM", "RWForCausalLM"),
    "falcon",
    (
        *with_fields(
            without_keys(DECODER, "feed_forward_length", "rope.freq_base"),
            attention__layer_norm_epsilon="layer_norm_epsilon",
        ),
        always("tensor_data_layout", "string", "jploski"),
        computed(
            "feed_forward_length",
            "u32",
            lambda config: config.count("ffn_hidden_size"),
            "ffn_hidden_size",
        ),
        computed("attention.head_count_kv", "u32", _heads_kv, "num_kv_heads"),
        rope_base_unless(10000.0),
    ),
    join_rows(
        row("transformer.word_embeddings", "token_embd", "vocab embd", bias=False),
        row("transformer.ln_f", "output_norm", "embd"),
        OUTPUT,
        block(
            "transformer.h.{i}.",
            in_layers(
                _two_norms,
                row("ln_mlp", "attn_norm", "embd"),
                row("ln_attn", "attn_norm_2", "embd"),
            ),
            in_layers(
                lambda dims: not _two_norms(dims), row("input_layernorm", "attn_norm", "embd")
            ),
            row("self_attention.query_key_value", "attn_qkv", "qkv embd", GroupedQkv(), bias=False),
            row("self_attention.dense", "attn_output", "embd embd", bias=False),
            row("mlp.dense_h_to_4h", "ffn_up", "ff embd", bias=False),
            row("mlp.dense_4h_to_h", "ffn_down", "embd ff", bias=False),
        ),
    ),
    checks=(only("alibi", False), only("parallel_attn", True)),
    prefix="transformer.",
    defaults=defaults,
    config=config,
)
