"""DeepSeek V2 and V3 and what is built like them, whose keys and values are compressed (MLA).

Kimi K2, the text part of Kimi K2.5 and Kimi-VL, GLM-4.7-Flash; Youtu, which has no experts.

llama.cpp runs them with one head of keys that all queries share, so the matrix that widens keys and
values is two in the GGUF.
Source: llama.cpp, conversion/deepseek.py (``DeepseekV2Model``), conversion/glm.py
(``Glm4MoeLiteModel``); transformers, models/deepseek_v2,
models/deepseek_v3.
"""

from __future__ import annotations

from mtkit.architectures.changes import Widening
from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    IN_LAYER,
    NORMS,
    VOCAB_SIZE,
    decoder,
    default_fields,
    experts,
    is_dense,
    is_sparse,
    only,
    shared_expert,
)
from mtkit.architectures.expert_rows import shared_width
from mtkit.architectures.families.glm4_moe import GLM_TOKENS
from mtkit.architectures.metadata import always, computed, f32, u32, with_keys
from mtkit.architectures.next_tokens import NEXT_DIMS, NEXT_ROWS, has_next, hidden_layers, next_keys
from mtkit.architectures.table import (
    Architecture,
    beyond_layers,
    block,
    in_layers,
    join_rows,
    plain,
    row,
    tied_head,
)
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims


def _sum(*fields: str) -> Callable[[Config], int]:
    # One of the widths may be 0.
    return lambda config: sum(
        0 if config.whole(field) == 0 else config.count(field) for field in fields
    )


def _mscale(config: Config) -> float | None:
    scale = config.rope().number("mscale_all_dim")
    return None if scale is None else 0.1 * scale


def _mscale_fields(value: float) -> dict[str, Any]:
    scale = round(10 * value, 6)
    return {"rope_scaling": {"mscale": scale, "mscale_all_dim": scale}}


KEYS = (
    *with_keys(
        DECODER,
        always("attention.head_count_kv", "u32", 1),
        computed("attention.key_length", "u32", _sum("kv_lora_rank", "qk_rope_head_dim")),
        computed("attention.value_length", "u32", lambda config: config.count("kv_lora_rank")),
        u32("expert_count", "n_routed_experts", "num_local_experts", "num_experts"),
        EXPERT_FEED_FORWARD,
    ),
    u32("leading_dense_block_count", "first_k_dense_replace"),
    VOCAB_SIZE,
    u32("attention.q_lora_rank", "q_lora_rank"),
    u32("attention.kv_lora_rank", "kv_lora_rank"),
    computed("attention.key_length_mla", "u32", _sum("qk_nope_head_dim", "qk_rope_head_dim")),
    u32("attention.value_length_mla", "v_head_dim"),
    computed(
        "expert_shared_count",
        "u32",
        lambda config: config.whole("n_shared_experts") or 0,
        "n_shared_experts",
    ),
    f32("expert_weights_scale", "routed_scaling_factor"),
    computed(
        "expert_weights_norm",
        "bool",
        lambda config: config.flag("norm_topk_prob") or None,
        "norm_topk_prob",
    ),
    u32("rope.dimension_count", "qk_rope_head_dim"),
    computed("rope.scaling.yarn_log_multiplier", "f32", _mscale, _mscale_fields),
)
DIMS: Mapping[str, Callable[[Dims], int]] = {
    "q_rank": lambda dims: dims.key("attention.q_lora_rank"),
    "kv_rank": lambda dims: dims.key("attention.kv_lora_rank"),
    "q_mla": lambda dims: dims["head"] * dims.key("attention.key_length_mla"),
    "nope": lambda dims: dims.key("attention.key_length_mla") - dims["rope"],
    "value_mla": lambda dims: dims.key("attention.value_length_mla"),
    "out_mla": lambda dims: dims["head"] * dims["value_mla"],
    "ff_shexp": shared_width,
    **NEXT_DIMS,
}


def _compresses_queries(dims: Dims) -> bool:
    return dims.key("attention.q_lora_rank", 0) > 0


def _shares(dims: Dims) -> bool:
    return is_sparse(dims) and dims.key("expert_shared_count") > 0


LATENT = join_rows(
    in_layers(
        _compresses_queries,
        row("self_attn.q_a_proj", "attn_q_a", "q_rank embd"),
        row("self_attn.q_a_layernorm", "attn_q_a_norm", "q_rank", bias=False),
        row("self_attn.q_b_proj", "attn_q_b", "q_mla q_rank", bias=False),
    ),
    in_layers(
        lambda dims: not _compresses_queries(dims),
        row("self_attn.q_proj", "attn_q", "q_mla embd", bias=False),
    ),
    row("self_attn.kv_a_proj_with_mqa", "attn_kv_a_mqa", "key embd"),
    row("self_attn.kv_a_layernorm", "attn_kv_a_norm", "kv_rank", bias=False),
    row(
        "self_attn.kv_b_proj",
        "attn_k_b attn_v_b",
        "head kv_rank nope, head value_mla kv_rank",
        Widening(),
        bias=False,
    ),
    row("self_attn.o_proj", "attn_output", "embd out_mla"),
)
"""Attention whose keys and values are compressed."""
FEED_FORWARDS = join_rows(
    in_layers(is_dense, FEED_FORWARD),
    in_layers(
        is_sparse,
        row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
        experts("mlp.experts.{e}"),
    ),
    in_layers(_shares, shared_expert("mlp.shared_experts")),
)
_ROWS = decoder(NORMS, LATENT, FEED_FORWARDS)
CORRECTION = block(
    IN_LAYER,
    in_layers(
        is_sparse,
        plain("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", "expert"),
    ),
)
ROWS = join_rows(_ROWS, CORRECTION, block(IN_LAYER, NEXT_ROWS))
"""Those of DeepSeek V3, with layers that predict further tokens."""
NEXT_KEYS = with_keys(KEYS, *next_keys())


def _skips(name: str, config: Config) -> bool:
    return tied_head(name, config) or beyond_layers(name, config)


_SCORING = {1: "softmax", 2: "sigmoid"}


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    fields = {
        "hidden_act": "silu",
        "attention_bias": dims.has("blk.0.attn_output.bias"),
        "num_key_value_heads": dims["head"],
        "qk_nope_head_dim": dims["nope"],
        "norm_topk_prob": bool(dims.keys.get("expert_weights_norm")),
        **hidden_layers(dims),
    }
    if not _compresses_queries(dims):
        fields["q_lora_rank"] = None
    gating = dims.key("expert_gating_func", 0)
    return {**fields, "scoring_func": _SCORING[gating]} if gating in _SCORING else fields


def _v2_config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    groups = dims.key("expert_group_count", 1) > 1
    return {
        **config(dims, tensor),
        "topk_method": "group_limited_greedy" if groups else "greedy",
    }


DEEPSEEK_2 = Architecture(
    "deepseek2",
    ("DeepseekV2ForCausalLM",),
    "deepseek_v2",
    KEYS,
    _ROWS,
    checks=(only("moe_layer_freq", 1),),
    defaults=default_fields(
        2048,
        rms_norm_eps=1e-6,
        first_k_dense_replace=0,
        kv_lora_rank=512,
        moe_intermediate_size=1407,
        n_routed_experts=64,
        n_shared_experts=2,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        routed_scaling_factor=1.0,
    ),
    skips=_skips,
    dims=DIMS,
    config=_v2_config,
)
DEEPSEEK_3 = Architecture(
    "deepseek2",
    ("DeepseekV3ForCausalLM", "KimiK25ForConditionalGeneration", "KimiVLForConditionalGeneration"),
    "deepseek_v3",
    KEYS,
    join_rows(_ROWS, CORRECTION),
    checks=(only("moe_layer_freq", 1),),
    defaults=default_fields(
        4096,
        rms_norm_eps=1e-6,
        first_k_dense_replace=3,
        kv_lora_rank=512,
        moe_intermediate_size=2048,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
        n_group=8,
        topk_group=4,
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        routed_scaling_factor=2.5,
        norm_topk_prob=True,
    ),
    skips=_skips,
    dims=DIMS,
    config=config,
)
GLM_4_MOE_LITE = replace(
    DEEPSEEK_3,
    classes=("Glm4MoeLiteForCausalLM",),
    model_type="glm4_moe_lite",
    keys=NEXT_KEYS,
    rows=ROWS,
    skips=tied_head,
    special_tokens=GLM_TOKENS,
    fits=has_next,
)
YOUTU = replace(
    DEEPSEEK_2,
    classes=("YoutuForCausalLM", "YoutuVLForConditionalGeneration"),
    model_type="youtu",
    defaults=default_fields(
        131072,
        rms_norm_eps=1e-6,
        first_k_dense_replace=lambda config: config.count("num_hidden_layers"),
        moe_intermediate_size=lambda config: config.count("intermediate_size"),
        qk_nope_head_dim=128,
        qk_rope_head_dim=64,
        v_head_dim=128,
        kv_lora_rank=512,
    ),
    config=config,
    fits=lambda dims: "expert_count" not in dims.keys,
)
