"""Ling (Bailing MoE) 1 and 2, and Sarvam's mixture of experts.

Source: llama.cpp, conversion/bailingmoe.py; configuration_bailing_moe*.py beside the models.
"""

from __future__ import annotations

from mtkit.architectures.changes import Computed, SplitHeads
from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    IN_LAYER,
    NORMS,
    OUTPUT,
    VOCAB_SIZE,
    config_fields,
    default_fields,
    experts,
    is_dense,
    is_sparse,
    only,
    shared_expert,
)
from mtkit.architectures.expert_rows import ROUTING_KEYS, shared_width
from mtkit.architectures.metadata import always, computed, head_dim, u32, with_keys
from mtkit.architectures.next_tokens import (
    NEXT_DIMS,
    NEXT_ROWS,
    hidden_layers,
    is_next,
    next_keys,
)
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config
    from mtkit.architectures.table import Rows

_SHARED = u32("expert_shared_count", "num_shared_experts")


def _rows(*layer: Rows) -> Rows:
    return join_rows(
        row("model.word_embeddings", "token_embd", "vocab embd", bias=False),
        row("model.norm", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            IN_LAYER,
            NORMS,
            row("attention.dense", "attn_output", "embd out", bias=False),
            in_layers(
                is_sparse,
                row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
                experts("mlp.experts.{e}"),
            ),
            in_layers(
                lambda dims: is_sparse(dims) and dims.key("expert_shared_count", 0) > 0,
                shared_expert("mlp.shared_experts"),
            ),
            *layer,
        ),
    )


BAILING = Architecture(
    "bailingmoe",
    ("BailingMoeForCausalLM",),
    "bailing_moe",
    (
        *with_keys(DECODER, *ROUTING_KEYS, _SHARED, always("expert_weights_scale", "f32", 1.0)),
        VOCAB_SIZE,
        computed("rope.dimension_count", "u32", head_dim),
    ),
    _rows(
        plain(
            "attention.query_key_value.weight",
            "attn_q.weight attn_k.weight attn_v.weight",
            "q embd, k embd, v embd",
            SplitHeads(),
        ),
    ),
    checks=(only("norm_head", False), only("first_k_dense_replace", 0)),
    defaults=default_fields(16384, rms_norm_eps=1e-6, first_k_dense_replace=0),
    dims={"ff_shexp": shared_width},
    config=config_fields(hidden_act="silu", use_bias=False, use_qkv_bias=False),
)


def _shared_width(config: Config) -> int:
    width = config.whole("moe_shared_expert_intermediate_size")
    if width is not None:
        return width
    return config.count("moe_intermediate_size") * (config.whole("num_shared_experts") or 0)


def _rotary(config: Config) -> int:
    part = config.rope().number("partial_rotary_factor")
    return int(head_dim(config) * (0.5 if part is None else part))


BAILING_2 = Architecture(
    "bailingmoe2",
    ("BailingMoeV2ForCausalLM",),
    "bailing_moe_v2",
    (
        *with_keys(DECODER, *ROUTING_KEYS, _SHARED, EXPERT_FEED_FORWARD, *next_keys()),
        VOCAB_SIZE,
        computed(
            "expert_shared_feed_forward_length",
            "u32",
            _shared_width,
            "moe_shared_expert_intermediate_size",
        ),
        computed("rope.dimension_count", "u32", _rotary),
    ),
    _rows(
        in_layers(is_dense, FEED_FORWARD),
        row("attention.query_key_value", "attn_qkv", "qkv embd"),
        row("attention.query_layernorm", "attn_q_norm", "key", bias=False),
        row("attention.key_layernorm", "attn_k_norm", "key", bias=False),
        in_layers(is_sparse, plain("mlp.gate.expert_bias", "exp_probs_b.bias", "expert")),
        tuple(r for r in NEXT_ROWS if "shared_head.norm" not in r.folder[0]),
        in_layers(is_next, row("final_layernorm", "layer_output_norm", "embd", bias=False)),
    ),
    defaults=default_fields(
        32768, rms_norm_eps=1e-6, first_k_dense_replace=0, norm_topk_prob=True,
        routed_scaling_factor=1.0,
    ),
    dims=NEXT_DIMS,
    config=lambda dims, tensor: {
        "hidden_act": "silu",
        "use_qkv_bias": dims.has("blk.0.attn_qkv.bias"),
        "use_qk_norm": True,
        "partial_rotary_factor": dims["rope"] / max(dims["key"], 1),
        **hidden_layers(dims),
    },
)  # fmt: skip
_CENTERED = Computed(lambda array: array - array.mean(dtype="f4"), lambda array: array, slack=1)
"""Choosing experts, only differences count; the mean is lost."""


SARVAM_MOE = replace(
    BAILING_2,
    classes=("SarvamMoEForCausalLM", "modeling_sarvam_moe.SarvamMoEForCausalLM"),
    model_type="sarvam_moe",
    keys=with_keys(BAILING_2.keys, computed("rope.dimension_count", "u32", head_dim)),
    rows=tuple(
        replace(r, change=_CENTERED) if r.gguf == ("blk.{i}.exp_probs_b.bias",) else r
        for r in BAILING_2.rows
    ),
)
