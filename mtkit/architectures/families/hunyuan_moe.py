"""Hunyuan's mixtures of experts (Hunyuan-A13B, Hy3), and the text part of HunyuanOCR.

Source: llama.cpp, conversion/hunyuan.py; transformers, models/hunyuan_v1_moe, models/hunyuan_vl.
"""

from __future__ import annotations

from mtkit.architectures.config import Config
from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    EXPERT_COUNT,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    HEAD_NORMS,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
    experts,
    shared_expert,
)
from mtkit.architectures.families.hunyuan import HUNYUAN
from mtkit.architectures.metadata import (
    always,
    computed,
    f32,
    u32,
    with_keys,
    without_keys,
)
from mtkit.architectures.next_tokens import NEXT_DIMS, NEXT_ROWS, hidden_layers, next_keys
from mtkit.architectures.table import Architecture, in_layers, join_rows, plain, row, tied_head
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.architectures.metadata import Dims

_SIGMOID = 2


def _first(field: str) -> Callable[[Config], int | None]:
    """Return a number that stands once, or equal for every layer."""

    def value(config: Config) -> int | None:
        values = config.get(field)
        if not isinstance(values, list):
            return config.whole(field)
        if not values or any(value != values[0] for value in values):
            raise config.wrong("differs from layer to layer", field)
        return Config({field: values[0]}, config.source).whole(field)

    return value


_HEAD_NORMS = join_rows(
    row("self_attn.query_layernorm", "attn_q_norm", "key", bias=False),
    row("self_attn.key_layernorm", "attn_k_norm", "key", bias=False),
)
_SHARED = tuple(
    replace(r, folder=tuple(name.replace("mlp.", "mlp.shared_mlp.") for name in r.folder))
    for r in shared_expert("mlp")
)
HUNYUAN_MOE = Architecture(
    "hunyuan-moe",
    ("HunYuanMoEV1ForCausalLM",),
    "hunyuan_v1_moe",
    (
        *with_keys(
            HUNYUAN.keys,
            EXPERT_COUNT,
            computed("expert_used_count", "u32", _first("moe_topk"), "moe_topk"),
        ),
        computed("expert_feed_forward_length", "u32", _first("moe_intermediate_size"),
                 "moe_intermediate_size"),
        computed("expert_shared_count", "u32", _first("num_shared_expert"), "num_shared_expert"),
        u32("expert_shared_feed_forward_length", "intermediate_size"),
    ),
    decoder(
        NORMS,
        attention(),
        _HEAD_NORMS,
        row("mlp.gate.wg", "ffn_gate_inp", "expert embd", bias=False),
        experts("mlp.experts.{e}"),
        _SHARED,
    ),
    defaults=default_fields(2048, rms_norm_eps=1e-5),
    skips=tied_head,
    config=config_fields(hidden_act="silu", attention_bias=ATTENTION_BIAS),
)  # fmt: skip


def _width(config: Config) -> int:
    shared = config.whole("num_shared_experts")
    return config.count("moe_intermediate_size") * (1 if shared is None else shared)


def _has_experts(dims: Dims) -> bool:
    names = (
        f"model.layers.{dims.layer}.mlp.router.gate.weight",
        f"blk.{dims.layer}.ffn_gate_inp.weight",
    )
    return dims.has(*names) if dims.shapes else dims.layer > 0


HY_3 = Architecture(
    "hy_v3",
    ("HYV3ForCausalLM",),
    "hy_v3",
    (
        *with_keys(
            DECODER, *next_keys(), EXPERT_COUNT, always("expert_gating_func", "u32", _SIGMOID)
        ),
        EXPERT_FEED_FORWARD,
        computed("expert_shared_feed_forward_length", "u32", _width),
        computed("expert_weights_norm", "bool", lambda c: c.flag("route_norm") is not False,
                 "route_norm"),
        f32("expert_weights_scale", "router_scaling_factor"),
    ),
    decoder(
        NORMS,
        attention(),
        HEAD_NORMS,
        in_layers(lambda dims: not _has_experts(dims), FEED_FORWARD),
        in_layers(
            _has_experts,
            row("mlp.router.gate", "ffn_gate_inp", "expert embd", bias=False),
            plain("mlp.expert_bias", "exp_probs_b", "expert"),
            experts("mlp.experts.{e}"),
            _SHARED,
        ),
        tuple(
            replace(r, folder=tuple(name.replace("shared_head.norm", "final_layernorm")
                                    for name in r.folder))
            for r in NEXT_ROWS
        ),
    ),
    defaults=default_fields(131072, rms_norm_eps=1e-5, head_dim=128, router_scaling_factor=1.0),
    dims=NEXT_DIMS,
    config=lambda dims, tensor: {"hidden_act": "silu", **hidden_layers(dims)},
)  # fmt: skip


def _sections(config: Config) -> list[int] | None:
    rope = config.rope()
    sections = rope.get("xdrope_section", "mrope_section")
    if sections is None:
        return None
    if not isinstance(sections, list) or not all(type(n) is int and n >= 0 for n in sections):
        raise rope.wrong("is not a list of whole numbers", "xdrope_section", "mrope_section")
    return [*sections]


def _if_xd(value: Callable[[Config], object]) -> Callable[[Config], object]:
    return lambda config: value(config) if _sections(config) else None


HUNYUAN_VL = replace(
    HUNYUAN,
    name="hunyuan_vl",
    classes=("HunYuanVLForConditionalGeneration",),
    model_type="hunyuan_vl",
    keys=with_keys(
        without_keys(DECODER, "expert_count"),
        computed("rope.scaling.alpha", "f32", _if_xd(lambda c: c.rope().number("alpha")),
                 lambda value: {"rope_scaling": {"alpha": value}}),
        computed("rope.scaling.type", "string", _if_xd(lambda _: "none"),
                 lambda _: {"rope_scaling": {"type": "xdrope"}}),
        computed("rope.scaling.factor", "f32", _if_xd(lambda c: c.rope().number("factor") or 1.0),
                 lambda value: {"rope_scaling": {"factor": value}}),
        computed("rope.scaling.original_context_length", "u32",
                 _if_xd(lambda c: c.count("max_position_embeddings"))),
        computed("rope.dimension_sections", "i32[]", _sections,
                 lambda value: {"rope_scaling": {"xdrope_section": list(value)}}),
    ),
)  # fmt: skip
