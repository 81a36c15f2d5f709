"""Laguna of Poolside and Spark X2.5: gated attention, windows, positions by kind of layer.

Source: llama.cpp, conversion/laguna.py, conversion/spark2_5.py; transformers, models/laguna.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_COUNT,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    HEAD_NORMS,
    NORMS,
    SLIDING_WINDOW,
    VOCAB_SIZE,
    attention,
    decoder,
    default_fields,
    experts,
    is_dense,
    is_sparse,
    layer_types,
    only,
    shared_expert,
)
from mtkit.architectures.metadata import KeyRow, always, computed, f32, head_dim, u32, with_keys
from mtkit.architectures.table import Architecture, in_layers, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_FULL, _SLIDING = "full_attention", "sliding_attention"
_PART = "partial_rotary_factor"


def _rotary(layers: str) -> Callable[[Config], int | None]:
    def value(config: Config) -> int | None:
        rope = config.table("rope_parameters")
        if layers == _SLIDING and rope.get(layers) is None:
            return None
        part = config.rope(layers).number(_PART)
        return int(head_dim(config) * (1.0 if part is None else part))

    return value


_ROTARY = (
    computed("rope.dimension_count", "u32", _rotary(_FULL)),
    computed("rope.dimension_count_swa", "u32", _rotary(_SLIDING)),
)


def _rope_fields(dims: Dims) -> dict[str, Any]:
    """Return the fields of positions, by kind of layer."""
    keys = dims.keys
    full = {
        "rope_type": "default",
        "rope_theta": keys.get("rope.freq_base"),
        _PART: dims["rope"] / max(dims["key"], 1),
    }
    if keys.get("rope.scaling.type") == "yarn":
        names = {
            "factor": "factor", "original_context_length": "original_max_position_embeddings",
            "yarn_attn_factor": "attention_factor", "yarn_beta_fast": "beta_fast",
            "yarn_beta_slow": "beta_slow", "yarn_ext_factor": "extrapolation_factor",
        }  # fmt: skip
        scaling = {field: keys.get(f"rope.scaling.{name}") for name, field in names.items()}
        full |= {"rope_type": "yarn", **{k: v for k, v in scaling.items() if v is not None}}
    sliding = {
        "rope_type": "default",
        "rope_theta": keys.get("rope.freq_base_swa"),
        _PART: dims.key("rope.dimension_count_swa", 0) / max(dims["key"], 1),
    }
    kinds = {_FULL: full} | ({_SLIDING: sliding} if "rope.freq_base_swa" in keys else {})
    return {"rope_parameters": kinds, "rope_scaling": None}


def _heads(config: Config) -> list[int]:
    layers, heads = config.count("num_hidden_layers"), config.get("num_attention_heads_per_layer")
    if not heads:
        return [config.count("num_attention_heads")] * min(layers, 1 << 16)
    if not isinstance(heads, list) or len(heads) != layers:
        raise config.wrong(f"is not a list of {layers}", "num_attention_heads_per_layer")
    return [int(count) for count in heads]


def _dense(config: Config) -> int:
    kinds = config.get("mlp_layer_types")
    if not isinstance(kinds, list):
        raise config.wrong("is not a list", "mlp_layer_types")
    return next((number for number, kind in enumerate(kinds) if kind != "dense"), len(kinds))


def _end_of_turn(config: Config) -> int | None:
    ends, begin = config.get("eos_token_id"), config.get("bos_token_id")
    more = [end for end in ends if end != begin] if isinstance(ends, list) else []
    return more[0] if more and type(more[0]) is int else None


def _per_element(dims: Dims) -> bool:
    names = (
        f"model.layers.{dims.layer}.self_attn.g_proj.weight",
        f"blk.{dims.layer}.attn_gate.weight",
    )
    shape = next((dims.shapes[name] for name in names if dims.has(name)), None)
    return bool(shape) and shape is not None and shape[0] != dims["head"]


def _laguna_config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    layers = range(dims.key("block_count"))
    heads = [dims.at(layer)["head"] for layer in layers]
    dense = dims.key("leading_dense_block_count")
    return {
        "hidden_act": "silu",
        "gating": "per-element" if _per_element(dims) else "per-head",
        "num_attention_heads": heads[0],
        "num_attention_heads_per_layer": heads,
        "mlp_layer_types": ["dense" if layer < dense else "sparse" for layer in layers],
        **_rope_fields(dims),
    }


LAGUNA = Architecture(
    "laguna",
    ("LagunaForCausalLM",),
    "laguna",
    (
        *with_keys(
            DECODER,
            EXPERT_COUNT,
            computed("attention.head_count", "i32[]", _heads),
            always("expert_gating_func", "u32", 2),
        ),
        VOCAB_SIZE,
        computed(
            "attention.sliding_window", "u32",
            lambda config: config.whole("sliding_window") or None, "sliding_window",
        ),
        EXPERT_FEED_FORWARD,
        u32("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
        always("expert_weights_norm", "bool", True),
        f32("expert_weights_scale", "moe_routed_scaling_factor"),
        computed("leading_dense_block_count", "u32", _dense),
        *_ROTARY,
        KeyRow("tokenizer.ggml.eot_token_id", "u32", _end_of_turn),
    ),
    decoder(
        NORMS,
        attention(),
        HEAD_NORMS,
        in_layers(_per_element, row("self_attn.g_proj", "attn_gate", "out embd", bias=False)),
        in_layers(
            lambda dims: not _per_element(dims),
            row("self_attn.g_proj", "attn_gate", "head embd", bias=False),
        ),
        in_layers(is_dense, FEED_FORWARD),
        in_layers(
            is_sparse,
            row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
            plain("mlp.experts.e_score_correction_bias", "exp_probs_b.bias", "expert"),
            experts("mlp.experts.{e}"),
            shared_expert("mlp.shared_expert"),
        ),
    ),
    defaults=default_fields(131072, rms_norm_eps=1e-6, moe_routed_scaling_factor=1.0),
    config=_laguna_config,
)  # fmt: skip
SPARK_2_5 = Architecture(
    "spark2_5",
    ("Spark2_5ForCausalLM",),
    "spark2_5",
    (*DECODER, VOCAB_SIZE, SLIDING_WINDOW, layer_types(lambda _: False), *_ROTARY),
    decoder(
        NORMS,
        row("self_attn.q_k_v_proj", "attn_qkv", "qkv embd", bias=False),
        row("self_attn.g_proj", "attn_gate", "head embd", bias=False),
        row("self_attn.o_proj", "attn_output", "embd out", bias=False),
        FEED_FORWARD,
    ),
    checks=(
        only("gate_attn_act_mode", "sigmoid"), only("headwise_attn_output_gate", True),
        only("hidden_act", "gelu"),
    ),
    defaults=default_fields(131072, rms_norm_eps=1e-6),
    config=lambda dims, tensor: {
        "hidden_act": "gelu",
        "gate_attn_act_mode": "sigmoid",
        "headwise_attn_output_gate": True,
        **_rope_fields(dims),
    },
)  # fmt: skip
