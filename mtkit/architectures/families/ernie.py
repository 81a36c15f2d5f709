"""ERNIE 4.5 and its mixtures of experts.

Source: llama.cpp, conversion/ernie.py (``Ernie4_5Model``, ``Ernie4_5MoeModel``),
src/models/ernie4-5-moe.cpp; transformers, models/ernie4_5, models/ernie4_5_moe.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
    experts,
    is_sparse,
    shared_expert,
)
from mtkit.architectures.metadata import computed, u32, with_keys
from mtkit.architectures.table import Architecture, in_layers, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

ERNIE_4_5 = Architecture(
    "ernie4_5",
    ("Ernie4_5ForCausalLM", "Ernie4_5_ForCausalLM"),
    "ernie4_5",
    DECODER,
    decoder(NORMS, attention(), FEED_FORWARD),
    defaults=default_fields(
        131072, head_dim=128, num_key_value_heads=2, rms_norm_eps=1e-5, rope_theta=500000.0
    ),
    config=config_fields(hidden_act="silu", use_bias=ATTENTION_BIAS),
)


def _shared_width(config: Config) -> int | None:
    # As the converter has it; matrices of another width do not fit.
    if not config.whole("moe_num_shared_experts"):
        return None
    return config.count("intermediate_size") // config.count("num_key_value_heads")


def _has_experts(dims: Dims) -> bool:
    step = dims.key("interleave_moe_layer_step", 1)
    is_step = step > 0 and (dims.layer + 1) % step == 0
    return is_step and is_sparse(dims)


ERNIE_4_5_MOE = Architecture(
    "ernie4_5-moe",
    ("Ernie4_5_MoeForCausalLM",),
    "ernie4_5_moe",
    (
        *with_keys(
            DECODER,
            u32("expert_count", "moe_num_experts"),
            u32("expert_used_count", "moe_k"),
        ),
        u32("interleave_moe_layer_step", "moe_layer_interval"),
        u32("leading_dense_block_count", "moe_layer_start_index"),
        EXPERT_FEED_FORWARD,
        u32("expert_shared_count", "moe_num_shared_experts"),
        computed("expert_shared_feed_forward_length", "u32", _shared_width),
    ),
    decoder(
        NORMS,
        attention(),
        in_layers(lambda dims: not _has_experts(dims), FEED_FORWARD),
        in_layers(
            _has_experts,
            row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
            plain("mlp.moe_statics.e_score_correction_bias", "exp_probs_b.bias", "1 expert"),
            experts("mlp.experts.{e}"),
        ),
        in_layers(
            lambda dims: _has_experts(dims) and dims.key("expert_shared_count", 0) > 0,
            shared_expert("mlp.shared_experts", bias=None),
        ),
    ),
    defaults=default_fields(
        131072,
        num_key_value_heads=4,
        rms_norm_eps=1e-5,
        rope_theta=500000.0,
        moe_num_experts=64,
        moe_k=6,
        moe_intermediate_size=1536,
        moe_num_shared_experts=2,
        moe_layer_start_index=1,
        moe_layer_interval=1,
    ),
    # Layers that predict further tokens.
    skips=lambda name, config: name.startswith("model.mtp_"),
    config=config_fields(hidden_act="silu", use_bias=ATTENTION_BIAS, moe_layer_end_index=-1),
)
