"""Mixtures of experts as DeepSeek V3 has them: layers without come first, some experts are shared.

A bias helps to choose the experts, whose weights are scaled.
Source: llama.cpp, conversion/dots1.py, conversion/glm.py (``Glm4MoeModel``).
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    experts,
    is_dense,
    is_sparse,
    shared_expert,
)
from mtkit.architectures.metadata import f32, flag, u32
from mtkit.architectures.table import in_layers, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.metadata import Dims

ROUTING_KEYS = (
    EXPERT_FEED_FORWARD,
    u32("leading_dense_block_count", "first_k_dense_replace"),
    u32("expert_shared_count", "n_shared_experts"),
    f32("expert_weights_scale", "routed_scaling_factor"),
    flag("expert_weights_norm", "norm_topk_prob"),
)
ROUTED = join_rows(
    in_layers(is_dense, FEED_FORWARD),
    in_layers(
        is_sparse,
        row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
        plain("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", "expert"),
        experts("mlp.experts.{e}"),
    ),
    in_layers(
        lambda dims: is_sparse(dims) and dims.key("expert_shared_count", 0) > 0,
        shared_expert("mlp.shared_experts"),
    ),
)


def shared_width(dims: Dims) -> int:
    """Return the width of all shared experts together."""
    return dims["ff_exp"] * dims.key("expert_shared_count")
