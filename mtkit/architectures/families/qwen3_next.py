"""Qwen3-Next and Qwen 3.5, text alone: linear attention in most layers, a gate on the others.

Source: llama.cpp, conversion/qwen.py (``Qwen3NextModel``, ``Qwen3_5TextModel``,
``Qwen3_5MoeTextModel``, ``_QwenMtpMixin``); transformers, models/qwen3_next, models/qwen3_5,
models/qwen3_5_moe.
"""

from __future__ import annotations

from mtkit.architectures.changes import DECAY, PLUS_ONE, Reshaped, Split
from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_COUNT,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    OUTPUT,
    default_fields,
    experts,
    rotary_part,
)
from mtkit.architectures.families.glm4 import rotary
from mtkit.architectures.families.qwen2 import ALL_SPARSE, SHARED_EXPERT
from mtkit.architectures.linear_attention import (
    LINEAR_DIMS,
    LINEAR_KEYS,
    GroupedQkvz,
    InTurns,
    is_full,
    is_linear,
    layer_kinds,
    linear_fields,
)
from mtkit.architectures.metadata import computed, u32, with_keys
from mtkit.architectures.next_tokens import (
    NEXT_DIMS,
    hidden_layers,
    is_first_next,
    is_next,
    next_keys,
)
from mtkit.architectures.table import (
    Architecture,
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
    from mtkit.architectures.table import Rows

_KEYS = with_keys(
    (*DECODER, *LINEAR_KEYS),
    *next_keys("mtp_num_hidden_layers"),
    computed("rope.dimension_count", "u32", rotary),
)
_SECTIONS = next(row for row in DECODER if row.name == "rope.dimension_sections")


def _sections(config: Config) -> list[int]:
    # Those of the published models, where config.json has none.
    sections: list[int] | None = _SECTIONS.value(config)
    return sections or [11, 11, 10, 0]


_OWN_SECTIONS = replace(_SECTIONS, value=_sections)
_MOE_KEYS = (
    EXPERT_COUNT,
    EXPERT_FEED_FORWARD,
    u32("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
)
_NORMS = join_rows(
    row("input_layernorm", "attn_norm", "embd", PLUS_ONE, bias=False),
    row("post_attention_layernorm", "post_attention_norm", "embd", PLUS_ONE, bias=False),
)
_ATTENTION = join_rows(
    row("self_attn.q_proj", "attn_q", "2q embd"),
    row("self_attn.k_proj", "attn_k", "k embd"),
    row("self_attn.v_proj", "attn_v", "v embd"),
    row("self_attn.o_proj", "attn_output", "embd out", bias=False),
    row("self_attn.q_norm", "attn_q_norm", "key", PLUS_ONE, bias=False),
    row("self_attn.k_norm", "attn_k_norm", "key", PLUS_ONE, bias=False),
)
_LINEAR = join_rows(
    plain("linear_attn.in_proj_qkvz.weight", "attn_qkv.weight attn_gate.weight",
          "linear_qkv embd, linear_inner embd", GroupedQkvz()),
    plain("linear_attn.in_proj_ba.weight", "ssm_ba.weight", "linear_2heads embd"),
    plain("linear_attn.conv1d.weight", "ssm_conv1d.weight", "linear_qkv linear_kernel",
          Reshaped("linear_qkv 1 linear_kernel")),
    plain("linear_attn.A_log", "ssm_a", "linear_heads", DECAY),
    plain("linear_attn.dt_bias", "ssm_dt.bias", "linear_heads"),
    plain("linear_attn.norm.weight", "ssm_norm.weight", "linear_value"),
    plain("linear_attn.out_proj.weight", "ssm_out.weight", "embd linear_inner"),
)  # fmt: skip
_IN_TURNS = join_rows(
    plain("linear_attn.in_proj_qkv.weight", "attn_qkv.weight", "linear_qkv embd",
          InTurns("linear_value", "linear_keys")),
    plain("linear_attn.in_proj_z.weight", "attn_gate.weight", "linear_inner embd",
          InTurns("linear_value")),
    plain("linear_attn.in_proj_b.weight", "ssm_beta.weight", "linear_heads embd", InTurns("1")),
    plain("linear_attn.in_proj_a.weight", "ssm_alpha.weight", "linear_heads embd", InTurns("1")),
    plain("linear_attn.conv1d.weight", "ssm_conv1d.weight", "linear_qkv linear_kernel",
          InTurns("linear_value", "linear_keys", folder="linear_qkv 1 linear_kernel")),
    plain("linear_attn.A_log", "ssm_a", "linear_heads", InTurns("1", values=DECAY)),
    plain("linear_attn.dt_bias", "ssm_dt.bias", "linear_heads", InTurns("1")),
    plain("linear_attn.norm.weight", "ssm_norm.weight", "linear_value"),
    plain("linear_attn.out_proj.weight", "ssm_out.weight", "embd linear_inner",
          InTurns("linear_value", axis=1)),
)  # fmt: skip


def _experts(layer: str) -> Rows:
    """Return the rows of experts, each by itself or all in one tensor as transformers has them."""

    def are_together(dims: Dims) -> bool:
        return dims.has(f"{layer.replace('{i}', str(dims.layer))}mlp.experts.gate_up_proj")

    return join_rows(
        row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
        in_layers(
            are_together,
            plain(
                "mlp.experts.gate_up_proj",
                "ffn_gate_exps.weight ffn_up_exps.weight",
                "expert ff_exp embd, expert ff_exp embd",
                Split(-2),
            ),
            plain("mlp.experts.down_proj", "ffn_down_exps.weight", "expert embd ff_exp"),
        ),
        in_layers(lambda dims: not are_together(dims), experts("mlp.experts.{e}")),
        SHARED_EXPERT,
    )


def _rows(linear: Rows, feed_forward: Callable[[str], Rows]) -> Rows:
    model, further = "model.layers.{i}.", "mtp.layers.{n}."
    return join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        row("model.norm", "output_norm", "embd", PLUS_ONE, bias=False),
        OUTPUT,
        in_layers(
            lambda dims: not is_next(dims),
            block(model, _NORMS, in_layers(is_linear, linear), in_layers(is_full, _ATTENTION)),
        ),
        in_layers(lambda dims: not is_next(dims), block(model, feed_forward(model))),
        in_layers(is_next, block(further, _NORMS, _ATTENTION, feed_forward(further))),
        in_layers(
            is_first_next,
            block(
                "mtp.",
                row("fc", "nextn.eh_proj", "embd 2embd", bias=False),
                row("pre_fc_norm_embedding", "nextn.enorm", "embd", PLUS_ONE, bias=False),
                row("pre_fc_norm_hidden", "nextn.hnorm", "embd", PLUS_ONE, bias=False),
                row("norm", "nextn.shared_head_norm", "embd", PLUS_ONE, bias=False),
            ),
        ),
    )


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        "hidden_act": "silu",
        "attention_bias": dims.has("blk.3.attn_q.bias"),
        "partial_rotary_factor": rotary_part(dims),
        **linear_fields(dims),
        **hidden_layers(dims),
    }


def _dense(layer: str) -> Rows:
    return FEED_FORWARD


_DIMS = {**LINEAR_DIMS, **NEXT_DIMS}
_LINEAR_SIZES = {
    "linear_conv_kernel_dim": 4, "linear_key_head_dim": 128, "linear_value_head_dim": 128,
    "linear_num_key_heads": 16, "linear_num_value_heads": 32, "full_attention_interval": 4,
}  # fmt: skip
_MOE_SIZES = {"num_experts_per_tok": 10, "num_experts": 512, "moe_intermediate_size": 512,
              "shared_expert_intermediate_size": 512}  # fmt: skip

QWEN3_NEXT = Architecture(
    "qwen3next",
    ("Qwen3NextForCausalLM",),
    "qwen3_next",
    with_keys(_KEYS, *_MOE_KEYS),
    _rows(_LINEAR, _experts),
    checks=ALL_SPARSE,
    # Its config.json does not count the layer that predicts a further token.
    defaults=default_fields(
        32768, rms_norm_eps=1e-6, head_dim=256, num_key_value_heads=2, partial_rotary_factor=0.25,
        mtp_num_hidden_layers=1, layer_types=layer_kinds, **_LINEAR_SIZES, **_MOE_SIZES,
    ),
    skips=tied_head,
    dims=_DIMS,
    config=_config,
)  # fmt: skip
QWEN3_5 = Architecture(
    "qwen35",
    ("Qwen3_5ForCausalLM", "Qwen3_5ForConditionalGeneration"),
    "qwen3_5_text",
    with_keys(_KEYS, _OWN_SECTIONS),
    _rows(_IN_TURNS, _dense),
    defaults=default_fields(
        32768, rms_norm_eps=1e-6, head_dim=256, num_key_value_heads=4, partial_rotary_factor=0.25,
        **_LINEAR_SIZES,
    ),
    skips=tied_head,
    dims=_DIMS,
    config=_config,
)  # fmt: skip
QWEN3_5_MOE = Architecture(
    "qwen35moe",
    ("Qwen3_5MoeForCausalLM", "Qwen3_5MoeForConditionalGeneration"),
    "qwen3_5_moe_text",
    with_keys(_KEYS, _OWN_SECTIONS, *_MOE_KEYS),
    _rows(_IN_TURNS, _experts),
    checks=ALL_SPARSE,
    defaults=default_fields(
        32768, rms_norm_eps=1e-6, head_dim=256, num_key_value_heads=2, partial_rotary_factor=0.25,
        **_LINEAR_SIZES, **{**_MOE_SIZES, "num_experts_per_tok": 8, "num_experts": 256},
    ),
    skips=tied_head,
    dims=_DIMS,
    config=_config,
)  # fmt: skip
