"""North of Cohere (Cohere 2 MoE): Cohere 2 with experts.

Source: llama.cpp, conversion/command_r.py (``Cohere2MoeModel``); transformers, models/cohere2_moe.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    SLIDING_WINDOW,
    VOCAB_SIZE,
    attention,
    decoder,
    default_fields,
    layer_types,
    only,
)
from mtkit.architectures.expert_rows import ROUTED
from mtkit.architectures.metadata import always, computed, f32, head_dim, u32, with_keys
from mtkit.architectures.next_tokens import NEXT_DIMS, NEXT_ROWS, hidden_layers, next_keys
from mtkit.architectures.table import Architecture, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config


_DENSE = "prefix_dense_intermediate_size"


def _dense(config: Config) -> int:
    kinds = config.get("mlp_layer_types")
    if not isinstance(kinds, list):
        return config.whole("first_k_dense_replace") or 0
    return next((number for number, kind in enumerate(kinds) if kind != "dense"), len(kinds))


def _dense_width(config: Config) -> int | None:
    # Where it is null there is no dense layer, and the converter writes no width.
    is_null = _DENSE in config.fields and config.fields[_DENSE] is None
    return None if is_null else config.whole(_DENSE, "intermediate_size")


def _shared_width(config: Config) -> int | None:
    return (config.whole("num_shared_experts") or 0) * config.count("intermediate_size") or None


COHERE_2_MOE = Architecture(
    "cohere2moe",
    ("Cohere2MoeForCausalLM",),
    "cohere2_moe",
    (
        *with_keys(
            DECODER,
            *next_keys(),
            always("rope.scaling.type", "string", "none"),
            computed("feed_forward_length", "u32", _dense_width, _DENSE),
        ),
        f32("logit_scale", "logit_scale"),
        SLIDING_WINDOW,
        layer_types(lambda layer: bool((layer + 1) % 4)),
        VOCAB_SIZE,
        u32("expert_feed_forward_length", "intermediate_size"),
        computed("leading_dense_block_count", "u32", _dense, "first_k_dense_replace"),
        computed("expert_weights_norm", "bool", lambda config: config.flag("norm_topk_prob")
                 or False, "norm_topk_prob"),
        computed("expert_shared_count", "u32",
                 lambda config: config.whole("num_shared_experts") or None, "num_shared_experts"),
        computed("expert_shared_feed_forward_length", "u32", _shared_width),
        computed("rope.dimension_count", "u32", head_dim),
    ),
    decoder(
        row("input_layernorm", "attn_norm", "embd", bias=False),
        attention(),
        tuple(row for row in ROUTED if "exp_probs_b.bias" not in row.gguf),
        NEXT_ROWS,
    ),
    checks=(only("shared_expert_combination_strategy", "average"),),
    defaults=default_fields(8192, layer_norm_eps=1e-5, logit_scale=0.0625, sliding_window=4096),
    zeros=(".bias",),
    dims={**NEXT_DIMS, "ff_exp": lambda dims: dims.key("expert_feed_forward_length")},
    config=lambda dims, tensor: {
        "hidden_act": "silu",
        **({} if "feed_forward_length" in dims.keys else {_DENSE: None}),
        **hidden_layers(dims),
    },
)  # fmt: skip
