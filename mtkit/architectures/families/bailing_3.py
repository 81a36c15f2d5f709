"""Ling 3 (Bailing MoE 3): linear attention (KDA) in most layers, compressed keys in the others.

Source: llama.cpp, conversion/bailingmoe3.py (``BailingMoeV3Model``), src/models/bailingmoe3.cpp.
"""

from __future__ import annotations

from mtkit.architectures.changes import Computed
from mtkit.architectures.decoder_rows import (
    FEED_FORWARD,
    IN_LAYER,
    NORMS,
    OUTPUT,
    default_fields,
    experts,
    is_dense,
    is_sparse,
    shared_expert,
)
from mtkit.architectures.families.deepseek import DIMS, KEYS, LATENT
from mtkit.architectures.families.kimi_linear import LINEAR_DIMS, PARTS, is_full, is_linear
from mtkit.architectures.metadata import KeyRow, computed, f32, flag, u32, with_keys, without_keys
from mtkit.architectures.next_tokens import NEXT_ROWS, hidden_layers, is_next
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row
from mtkit.base.escape import shown
from mtkit.base.record import replace
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_NEXT = "num_nextn_predict_layers"
_PERIOD = "layer_group_size"
_REQUIRED: Mapping[str, object] = {
    "no_kda_lora": True,
    "kda_safe_gate": True,
    "gated_attention_proj_granularity_type": "head_wise",
}


def _check(config: Config) -> None:
    for field, value in _REQUIRED.items():
        if config.get(field) != value:
            what = f"is {shown(repr(config.get(field))[:40])}; llama.cpp runs {value!r} alone"
            raise UnsupportedError(what, source=config.source, field=field)


def _next(config: Config) -> int | None:
    return config.whole(_NEXT) or None


def _layers(config: Config) -> int:
    return min(config.count("num_hidden_layers") + (_next(config) or 0), 1 << 16)


def _heads_kv(config: Config) -> list[int]:
    period, hidden = config.count(_PERIOD), config.count("num_hidden_layers")
    last = hidden // period * period
    return [int(layer >= last or (layer + 1) % period == 0) for layer in range(_layers(config))]


def _limits(name: str, field: str) -> KeyRow:
    def value(config: Config) -> list[float] | None:
        limits = config.get(field)
        if limits is None:
            return None
        if not isinstance(limits, list) or not all(type(n or 0) in (int, float) for n in limits):
            raise config.wrong("is not a list of numbers", field)
        layers = _layers(config)
        return [float(limit or 0) for limit in [*limits, *[0] * layers][:layers]]

    return computed(name, "f32[]", value, lambda limits: {field: list(limits)})


def _exponential(array: Any) -> Any:
    import numpy as np

    return np.exp(array.astype(np.float64)).astype(np.float32)


def _logarithm(array: Any) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return np.log(array.astype(np.float64)).astype(np.float32)


_LINEAR = in_layers(
    is_linear,
    PARTS,
    plain("self_attn.A_log", "ssm_a", "head 1", Computed(_exponential, _logarithm, 1, "head")),
    plain("self_attn.dt_bias", "ssm_dt.bias", "kda_all"),
    row("self_attn.f_proj", "ssm_f_a", "kda_all embd", bias=False),
    row("self_attn.b_proj", "ssm_beta", "head embd", bias=False),
    row("self_attn.g_proj", "ssm_g_a", "kda_all embd", bias=False),
    row("self_attn.o_norm", "ssm_norm", "kda", bias=False),
    row("self_attn.o_proj", "attn_output", "embd kda_all", bias=False),
)
_FULL = in_layers(
    is_full,
    tuple(
        replace(part, folder=("self_attn.dense.weight",))
        if part.folder == ("self_attn.o_proj.weight",)
        else part
        for part in LATENT
        if not part.optional
    ),
    row("self_attn.g_proj", "attn_gate", "head embd", bias=False),
)
_ATTENTION = tuple(
    replace(part, folder=tuple(name.replace("self_attn.", "attention.") for name in part.folder))
    for part in join_rows(_LINEAR, _FULL)
)


def _sections(config: Config) -> list[int]:
    sections = config.get(_SECTIONS)
    if not isinstance(sections, list) or not all(type(n) is int and n >= 0 for n in sections):
        raise config.wrong("is not a list of whole numbers", _SECTIONS)
    return [*sections[:3], 0]


_SECTIONS = "mrope_section"


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    heads = dims.keys["attention.head_count_kv"]
    fields = {
        "hidden_act": "silu",
        "num_key_value_heads": dims["head"],
        "qk_nope_head_dim": dims["nope"],
        _PERIOD: list(heads).index(1) + 1 if 1 in heads else len(heads) + 1,
        "use_bias": False,
        "use_qkv_bias": False,
        **_REQUIRED,
        **hidden_layers(dims),
    }
    return {"q_lora_rank": None, **fields} if "attention.q_lora_rank" not in dims.keys else fields


BAILING_3 = Architecture(
    "bailingmoe3",
    ("BailingMoeV3ForCausalLM",),
    "bailing_moe_v3",
    with_keys(
        without_keys(KEYS, "rope.scaling.yarn_log_multiplier"),
        computed("block_count", "u32", _layers, "num_hidden_layers"),
        computed("nextn_predict_layers", "u32", _next, _NEXT),
        computed("attention.head_count_kv", "u32", _heads_kv, lambda _: {}),
        u32("attention.value_length", "head_dim"),
        u32("expert_count", "num_local_experts", "num_experts", written="num_experts"),
        u32("ssm.conv_kernel", "short_conv_kernel_size"),
        u32("kda.head_dim", "head_dim"),
        flag("kda.safe_gate", "kda_safe_gate"),
        f32("kda.gate_lower_bound", "kda_lower_bound"),
        u32("expert_shared_feed_forward_length", "moe_shared_expert_intermediate_size"),
        u32("expert_shared_count", "num_shared_experts"),
        flag("expert_weights_norm", "norm_topk_prob"),
        _limits("swiglu_clamp_exp", "expert_swiglu_limit_list"),
        _limits("swiglu_clamp_shexp", "share_expert_swiglu_limit_list"),
    ),
    join_rows(
        row("model.word_embeddings", "token_embd", "vocab embd", bias=False),
        row("model.norm", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            IN_LAYER,
            NORMS,
            _ATTENTION,
            in_layers(is_dense, FEED_FORWARD),
            in_layers(
                is_sparse,
                row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
                plain("mlp.gate.expert_bias", "exp_probs_b.bias", "expert"),
                experts("mlp.experts.{e}"),
                shared_expert("mlp.shared_experts"),
            ),
            tuple(part for part in NEXT_ROWS if "shared_head.norm" not in part.folder[0]),
            in_layers(is_next, row("final_layernorm", "layer_output_norm", "embd", bias=False)),
        ),
    ),
    checks=(_check,),
    defaults=default_fields(131072, rms_norm_eps=1e-6, num_shared_experts=1),
    dims={
        **{name: size for name, size in DIMS.items() if name != "ff_shexp"},
        **LINEAR_DIMS,
    },
    config=_config,
)
BAILING_3_VL = replace(
    BAILING_3,
    classes=("BailingMoeV3VLForConditionalGeneration",),
    model_type="bailing_moe_v3_vl",
    keys=with_keys(
        BAILING_3.keys,
        computed(
            "rope.dimension_sections",
            "i32[]",
            _sections,
            lambda sections: {_SECTIONS: list(sections)[:3]},
        ),
    ),
    skips=lambda name, config: name.startswith("linear_proj."),
    fits=lambda dims: "rope.dimension_sections" in dims.keys,
)
