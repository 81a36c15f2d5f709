"""Phi 3 and 4, and the mixture of experts Phi 3.5.

By how much LongRoPE sharpens attention is computed from the lengths of texts, as llama.cpp does it;
a ``short_mscale`` and ``long_mscale`` of Phi 3.5 MoE that say otherwise do not come back.
Source: llama.cpp, conversion/phi.py (``Phi3MiniModel``, ``PhiMoeModel``); transformers,
models/phi3, models/phimoe.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    NORMS,
    attention,
    decoder,
    default_fields,
    experts,
    rotary_part,
)
from mtkit.architectures.families.phi2 import CONTEXT, ROTARY
from mtkit.architectures.metadata import computed, with_keys, without_keys
from mtkit.architectures.rope import ATTENTION_FACTOR, LONG_ROPE, long_rope_scaling
from mtkit.architectures.table import Architecture, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.metadata import Dims

_DROPPED = (
    "rope.scaling.type",
    "rope.scaling.factor",
    "rope.scaling.yarn_ext_factor",
    "rope.scaling.yarn_attn_factor",
    "rope.scaling.yarn_beta_fast",
    "rope.scaling.yarn_beta_slow",
    "attention.key_length",
    "attention.value_length",
)
"""Keys that Phi 3 does not have: llama.cpp sees by the factors how positions are scaled."""


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        "hidden_act": "silu",
        "partial_rotary_factor": rotary_part(dims),
        # None stands in the metadata as 0.
        "sliding_window": dims.key("attention.sliding_window", 0) or None,
        **long_rope_scaling(tensor),
    }


def _moe_config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    fields = {
        "hidden_act": "silu",
        "attention_bias": dims.has("blk.0.attn_q.bias"),
        "lm_head_bias": dims.has("output.bias"),
        "sliding_window": dims.key("attention.sliding_window", 0) or None,
    }
    scaling = long_rope_scaling(tensor).get("rope_scaling")
    if scaling is None:
        return fields
    factor = dims.keys.get("rope.scaling.attn_factor", 1.0)
    first = dims.key("rope.scaling.original_context_length", 4096)
    more = {"original_max_position_embeddings": first, "short_mscale": factor}
    return {**fields, "rope_scaling": {**scaling, **more, "long_mscale": factor}}


_KEYS = with_keys(
    without_keys(DECODER, *_DROPPED),
    CONTEXT,
    computed(
        "rope.scaling.original_context_length",
        "u32",
        lambda config: config.rope().count("original_max_position_embeddings"),
        "original_max_position_embeddings",
    ),
    computed("rope.dimension_count", "u32", ROTARY),
    computed("attention.sliding_window", "u32", lambda config: config.whole("sliding_window") or 0),
    ATTENTION_FACTOR,
)
PHI_3 = Architecture(
    "phi3",
    ("Phi3ForCausalLM",),
    "phi3",
    _KEYS,
    decoder(
        NORMS,
        row("self_attn.qkv_proj", "attn_qkv", "qkv embd"),
        row("self_attn.o_proj", "attn_output", "embd out"),
        row("mlp.gate_up_proj", "ffn_up", "ff*2 embd"),
        row("mlp.down_proj", "ffn_down", "embd ff"),
    ),
    defaults=default_fields(4096, original_max_position_embeddings=4096, rms_norm_eps=1e-5),
    generated=LONG_ROPE,
    config=_config,
)
PHI_MOE = Architecture(
    "phimoe",
    ("PhiMoEForCausalLM",),
    "phimoe",
    _KEYS,
    decoder(
        NORMS,
        attention(),
        row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd", bias=False),
        experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2")),
    ),
    defaults=default_fields(
        131072,
        num_key_value_heads=8,
        original_max_position_embeddings=4096,
        rope_theta=1000000.0,
        rms_norm_eps=1e-5,
        num_local_experts=16,
        num_experts_per_tok=2,
    ),
    generated=LONG_ROPE,
    config=_moe_config,
)
