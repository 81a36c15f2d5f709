"""StableLM 3B (2023), StableLM 2.

The base of rotary positions, which the converter does not write, is there where it is not 10000.

Source: llama.cpp, conversion/stablelm.py (``StableLMModel``); transformers, models/stablelm.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    FEED_FORWARD,
    attention,
    config_fields,
    decoder,
    has,
    rotary_part,
)
from mtkit.architectures.metadata import (
    computed,
    f32,
    flag,
    rope_base_unless,
    rotary_dim,
    without_keys,
)
from mtkit.architectures.table import Architecture, in_layers, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.architectures.config import Config

PARALLEL = "use_parallel_residual"


def defaults(config: Config) -> Mapping[str, Any]:
    """Return transformers' defaults."""
    known = config.get("model_type") == "stablelm"
    return {
        "max_position_embeddings": 4096,
        "num_key_value_heads": 32 if known else config.get("num_attention_heads"),
        "rope_theta": 10000.0,
        PARALLEL: not known,
        "layer_norm_eps": config.get("norm_eps") or 1e-5,
    }


STABLELM = Architecture(
    "stablelm",
    ("StableLmForCausalLM", "StableLMEpochForCausalLM"),
    "stablelm",
    (
        *without_keys(DECODER, "rope.freq_base", "attention.layer_norm_rms_epsilon"),
        f32("attention.layer_norm_epsilon", "layer_norm_eps"),
        rope_base_unless(10000.0),
        computed("rope.dimension_count", "u32", rotary_dim(0.25)),
        flag(PARALLEL, PARALLEL),
    ),
    decoder(
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
        in_layers(
            lambda dims: not dims.key(PARALLEL, 0),
            row("post_attention_layernorm", "ffn_norm", "embd"),
        ),
        FEED_FORWARD,
    ),
    defaults=defaults,
    config=config_fields(
        hidden_act="silu",
        partial_rotary_factor=rotary_part,
        use_qkv_bias=ATTENTION_BIAS,
        qk_layernorm=has("blk.0.attn_q_norm.weight"),
    ),
)
