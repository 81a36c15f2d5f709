"""MiniCPM 1 to 4, and MiniCPM 3, whose keys and values are compressed; PLM has the same attention.

Source: llama.cpp, conversion/minicpm.py, conversion/plm.py.
"""

from __future__ import annotations

from math import sqrt

from mtkit.architectures.decoder_rows import (
    DECODER,
    FEED_FORWARD,
    NORMS,
    UP_AND_DOWN,
    VOCAB_SIZE,
    decoder,
    default_fields,
)
from mtkit.architectures.families.llama import ATTENTION
from mtkit.architectures.metadata import computed, f32, pick_keys, u32
from mtkit.architectures.rope import LONG_ROPE, long_rope_scaling
from mtkit.architectures.table import Architecture, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims


def _ratio(over: str, under: str, power: float = 1.0) -> Callable[[Config], float]:
    def value(config: Config) -> float:
        number = config.number(over)
        divisor = float(config.count(under)) ** power
        return float((1.0 if number is None else number) / divisor)

    return value


def _fields(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    depth = float(dims.keys["residual_scale"]) * sqrt(dims.key("block_count"))
    return {
        "hidden_act": "silu",
        "scale_depth": round(depth, 6),
        "dim_model_base": round(dims["embd"] / float(dims.keys["logit_scale"])),
        **long_rope_scaling(tensor),
    }


MINICPM = Architecture(
    "minicpm",
    ("MiniCPMForCausalLM",),
    "minicpm",
    (
        *DECODER,
        f32("embedding_scale", "scale_emb"),
        computed("residual_scale", "f32", _ratio("scale_depth", "num_hidden_layers", 0.5)),
        computed("logit_scale", "f32", _ratio("hidden_size", "dim_model_base")),
    ),
    decoder(NORMS, ATTENTION, FEED_FORWARD),
    defaults=default_fields(2048, rms_norm_eps=1e-6, scale_emb=1, scale_depth=1, dim_model_base=1),
    generated=LONG_ROPE,
    config=_fields,
)


def _key_length(config: Config) -> int:
    return config.count("qk_nope_head_dim") + config.count("qk_rope_head_dim")


_LATENT_KEYS = (
    VOCAB_SIZE,
    u32("attention.kv_lora_rank", "kv_lora_rank"),
    computed("attention.key_length", "u32", _key_length),
    u32("rope.dimension_count", "qk_rope_head_dim"),
)
_LATENT = join_rows(
    row("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", "kv_rank+rope embd", bias=False),
    row("self_attn.kv_a_layernorm", "attn_kv_a_norm", "kv_rank", bias=False),
    row("self_attn.kv_b_proj", "attn_kv_b", "nope+values kv_rank", bias=False),
    row("self_attn.o_proj", "attn_output", "embd out", bias=False),
)
_DIMS: Mapping[str, Callable[[Dims], int]] = {
    "q_rank": lambda dims: dims.key("attention.q_lora_rank"),
    "kv_rank": lambda dims: dims.key("attention.kv_lora_rank"),
    "kv_rank+rope": lambda dims: dims["kv_rank"] + dims["rope"],
    "nope+values": lambda dims: dims["head"] * (dims["key"] - dims["rope"] + dims["value"]),
}


def _latent_fields(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        "hidden_act": "silu",
        "qk_nope_head_dim": dims["key"] - dims["rope"],
        "v_head_dim": dims["value"],
        **long_rope_scaling(tensor),
    }


MINICPM_3 = Architecture(
    "minicpm3",
    ("MiniCPM3ForCausalLM",),
    "minicpm3",
    (
        *pick_keys(
            DECODER,
            "context_length", "embedding_length", "block_count", "feed_forward_length",
            "attention.head_count", "attention.head_count_kv", "attention.layer_norm_rms_epsilon",
        ),
        u32("attention.q_lora_rank", "q_lora_rank"),
        *_LATENT_KEYS,
    ),
    decoder(
        NORMS,
        row("self_attn.q_a_proj", "attn_q_a", "q_rank embd", bias=False),
        row("self_attn.q_a_layernorm", "attn_q_a_norm", "q_rank", bias=False),
        row("self_attn.q_b_proj", "attn_q_b", "q q_rank", bias=False),
        _LATENT,
        FEED_FORWARD,
    ),
    defaults=default_fields(32768, rms_norm_eps=1e-5),
    generated=LONG_ROPE,
    dims=_DIMS,
    config=_latent_fields,
)  # fmt: skip
PLM = Architecture(
    "plm",
    ("PLMForCausalLM",),
    "plm",
    (*DECODER, *_LATENT_KEYS, u32("attention.value_length", "v_head_dim")),
    decoder(
        NORMS,
        row("self_attn.q_proj", "attn_q", "q embd", bias=False),
        _LATENT,
        UP_AND_DOWN,
        head=(),
    ),
    defaults=default_fields(4096, rms_norm_eps=1e-6),
    dims=_DIMS,
    config=lambda dims, tensor: {**_latent_fields(dims, tensor), "hidden_act": "relu2"},
)
