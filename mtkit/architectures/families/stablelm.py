"""StableLM: the 3B of old, StableLM 2.

The base of rotary positions, which the converter does not write, is there where it is not 10000.

Source: llama.cpp, conversion/stablelm.py (``StableLMModel``); transformers, models/stablelm.
"""

from __future__ import annotations

from mtkit.architectures.keys import (
    DECODER,
    computed,
    f32,
    flag,
    rope_base_unless,
    rotary_dim,
    without,
)
from mtkit.architectures.rows import EMBEDDINGS, FEED_FORWARD, OUTPUT, attention
from mtkit.architectures.table import Architecture, block, joined, row, where

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.dims import Dims

PARALLEL = "use_parallel_residual"


def defaults(config: Config) -> Mapping[str, Any]:
    """Return what transformers takes where a config.json does not say it."""
    known = config.get("model_type") == "stablelm"
    return {
        "max_position_embeddings": 4096,
        "num_key_value_heads": 32 if known else config.get("num_attention_heads"),
        "rope_theta": 10000.0,
        PARALLEL: not known,
        "layer_norm_eps": config.get("norm_eps") or 1e-5,
    }


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    return {
        "hidden_act": "silu",
        "partial_rotary_factor": dims["rope"] / max(dims["key"], 1),
        "use_qkv_bias": dims.has("blk.0.attn_q.bias"),
        "qk_layernorm": dims.has("blk.0.attn_q_norm.weight"),
    }


STABLELM = Architecture(
    "stablelm",
    ("StableLmForCausalLM", "StableLMEpochForCausalLM"),
    "stablelm",
    (
        *without(DECODER, "rope.freq_base", "attention.layer_norm_rms_epsilon"),
        f32("attention.layer_norm_epsilon", "layer_norm_eps"),
        rope_base_unless(10000.0),
        computed("rope.dimension_count", "u32", rotary_dim(0.25)),
        flag(PARALLEL, PARALLEL),
    ),
    joined(
        EMBEDDINGS,
        OUTPUT,
        block(
            "model.layers.{i}.",
            row("input_layernorm", "attn_norm", "embd"),
            attention(),
            row(
                "self_attn.q_layernorm.norms.{h}",
                "attn_q_norm",
                "head key",
                bias=False,
                optional=True,
            ),
            row(
                "self_attn.k_layernorm.norms.{k}",
                "attn_k_norm",
                "head_kv key",
                bias=False,
                optional=True,
            ),
            where(
                lambda dims: not dims.key(PARALLEL, 0),
                row("post_attention_layernorm", "ffn_norm", "embd"),
            ),
            FEED_FORWARD,
        ),
    ),
    defaults=defaults,
    config=config,
)
