"""Kimi K3, text alone: Kimi Linear with residuals across layers and experts of less width.

A norm and a projection of such a residual are used as their product alone, which is what the GGUF
has.
Source: llama.cpp, conversion/kimi_k3.py (``KimiK3Model``), src/models/kimi-k3.cpp.
"""

from __future__ import annotations

from mtkit.architectures.changes import DECAY, Change
from mtkit.architectures.decoder_rows import (
    EMBEDDINGS,
    FEED_FORWARD,
    IN_LAYER,
    NORMS,
    OUTPUT,
    experts,
    is_dense,
    is_sparse,
    only,
    shared_expert,
)
from mtkit.architectures.families.deepseek import LATENT
from mtkit.architectures.families.kimi_linear import (
    KIMI_LINEAR,
    is_full,
    is_linear,
    linear,
    linear_number,
)
from mtkit.architectures.metadata import always, computed, f32, flag, u32, with_keys
from mtkit.architectures.table import block, in_layers, join_rows, plain, row
from mtkit.base.record import replace
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Rows

    Shape = tuple[int, ...]


class Product(Change):
    """The product of two vectors, element by element."""

    computes = True
    keeps_order = False

    def sources(self, shapes: Sequence[Shape], count: int, dims: Dims) -> list[Shape]:
        """Return the shapes of a norm and of a projection to one number."""
        return [shapes[0], (1, *shapes[0])]

    def forward(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Multiply."""
        return [arrays[0].reshape(-1) * arrays[1].reshape(-1)]

    def back(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Refuse: a product does not say its factors."""
        raise UnsupportedError("holds products of tensors of the folder, which do not come back")


def _residual(folder: str, gguf: str) -> Rows:
    names = f"{folder}_norm.weight {folder}_proj.weight"
    return plain(names, f"{gguf}_res_score.weight", "embd", Product())


KIMI_K3 = replace(
    KIMI_LINEAR,
    name="kimi-k3",
    classes=("KimiK3ForConditionalGeneration",),
    model_type="kimi_k3",
    keys=(
        *with_keys(
            KIMI_LINEAR.keys,
            computed("attention.value_length", "u32", lambda config: config.count("kv_lora_rank")),
        ),
        linear_number("kda.gate_lower_bound", "gate_lower_bound"),
        flag("expert_weights_norm", "moe_renormalize"),
        always("expert_gating_func", "u32", 2),
        u32("expert_latent_length", "routed_expert_hidden_size"),
        f32("activation.situ_beta", "activation_situ_beta"),
        f32("activation.situ_linear_beta", "activation_situ_linear_beta"),
        u32("attn_res.block_size", "attn_res_block_size"),
    ),
    rows=join_rows(
        EMBEDDINGS,
        OUTPUT,
        _residual("model.output_attn_res", "output"),
        block(
            IN_LAYER,
            NORMS,
            _residual("self_attention_res", "attn"),
            _residual("mlp_res", "ffn"),
            in_layers(
                is_linear,
                linear(
                    plain("self_attn.A_log", "ssm_a", "head", DECAY),
                    row("self_attn.g_proj", "ssm_g", "kda_all embd", bias=False),
                ),
            ),
            in_layers(
                is_full, LATENT, row("self_attn.g_proj", "attn_gate", "out_mla embd", bias=False)
            ),
            in_layers(is_dense, FEED_FORWARD),
            in_layers(
                is_sparse,
                row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd", bias=False),
                plain(
                    "block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", "expert"
                ),
                row("block_sparse_moe.routed_expert_down_proj", "ffn_routed_down", "low embd",
                    bias=False),
                row("block_sparse_moe.routed_expert_up_proj", "ffn_routed_up", "embd low",
                    bias=False),
                row("block_sparse_moe.routed_expert_norm", "ffn_routed_norm", "low", bias=False),
                tuple(
                    replace(part, axes=tuple(axes.replace("embd", "low") for axes in part.axes))
                    for part in experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2"))
                ),
                shared_expert("block_sparse_moe.shared_experts"),
            ),
        ),
    ),
    checks=(only("moe_router_activation_func", "sigmoid"), only("hidden_act", "situ")),
    dims={**KIMI_LINEAR.dims, "low": lambda dims: dims.key("expert_latent_length")},
)  # fmt: skip
