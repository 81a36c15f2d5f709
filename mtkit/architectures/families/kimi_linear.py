"""Kimi Linear: linear attention of Kimi (KDA) in most layers, compressed keys (MLA) in the others.

Source: llama.cpp, conversion/kimi_linear.py (``KimiLinearModel``), src/models/kimi-linear.cpp;
modeling_kimi.py beside the published model.
"""

from __future__ import annotations

from mtkit.architectures.changes import DECAY, Reshaped
from mtkit.architectures.decoder_rows import (
    EXPERT_FEED_FORWARD,
    FEED_FORWARD,
    NORMS,
    decoder,
    default_fields,
    experts,
    is_dense,
    is_sparse,
    only,
    shared_expert,
)
from mtkit.architectures.families.deepseek import DIMS, KEYS, LATENT
from mtkit.architectures.metadata import computed, f32, u32, with_keys, without_keys
from mtkit.architectures.table import Architecture, in_layers, join_rows, plain, row, tied_head

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow
    from mtkit.architectures.table import Rows

_TABLE = "linear_attn_config"
_HEADS_KV = "attention.head_count_kv"


def _heads_kv(config: Config) -> list[int]:
    """Return a number of heads of keys for each layer, 0 where attention is linear."""
    full = config.table(_TABLE).get("full_attn_layers")
    if not isinstance(full, list):
        raise config.wrong("does not list full_attn_layers", _TABLE)
    layers = min(config.count("num_hidden_layers"), 1 << 16)
    return [int(layer + 1 in full) for layer in range(layers)]


def _layers(value: Any) -> dict[str, Any]:
    layers = list(enumerate(value, 1))
    full = [number for number, heads in layers if heads]
    return {_TABLE: {"full_attn_layers": full, "kda_layers": [n for n, h in layers if not h]}}


def is_linear(dims: Dims) -> bool:
    """Tell whether the attention of a layer is linear."""
    return dims.key(_HEADS_KV, 1) == 0


def is_full(dims: Dims) -> bool:
    """Tell whether the attention of a layer sees all tokens."""
    return not is_linear(dims)


def linear_row(name: str, field: str) -> KeyRow:
    """Return the row of a number among the fields of linear attention."""

    def value(config: Config) -> int | None:
        return config.table(_TABLE).whole(field)

    return computed(name, "u32", value, lambda number: {_TABLE: {field: number}})


def linear_number(name: str, field: str) -> KeyRow:
    """Return the row of a number with a fraction among those fields."""

    def value(config: Config) -> float | None:
        return config.table(_TABLE).number(field)

    return computed(name, "f32", value, lambda number: {_TABLE: {field: number}})


LINEAR_KEYS = (
    computed(_HEADS_KV, "u32", _heads_kv, _layers),
    linear_row("ssm.conv_kernel", "short_conv_kernel_size"),
    linear_row("kda.head_dim", "head_dim"),
)
LINEAR_DIMS: Mapping[str, Callable[[Dims], int]] = {
    "kda": lambda dims: dims.key("kda.head_dim"),
    "kda_all": lambda dims: dims["head"] * dims["kda"],
    "kernel": lambda dims: dims.key("ssm.conv_kernel"),
}


def _part(letter: str) -> Rows:
    return join_rows(
        row(f"self_attn.{letter}_proj", f"attn_{letter}", "kda_all embd", bias=False),
        plain(
            f"self_attn.{letter}_conv1d.weight", f"ssm_conv1d_{letter}.weight",
            "1 kda_all 1 kernel", Reshaped("kda_all 1 kernel"),
        ),
    )  # fmt: skip


PARTS = join_rows(*map(_part, "qkv"))
"""Queries, keys and values, with their convolutions."""


def linear(decay: Rows, gate: Rows) -> Rows:
    """Return the rows of linear attention."""
    return join_rows(
        PARTS,
        decay,
        plain("self_attn.dt_bias", "ssm_dt.bias", "kda_all"),
        row("self_attn.f_a_proj", "ssm_f_a", "kda embd", bias=False),
        row("self_attn.f_b_proj", "ssm_f_b", "kda_all kda", bias=False),
        row("self_attn.b_proj", "ssm_beta", "head embd", bias=False),
        gate,
        row("self_attn.o_norm", "ssm_norm", "kda", bias=False),
        row("self_attn.o_proj", "attn_output", "embd kda_all", bias=False),
    )


GATE = join_rows(
    row("self_attn.g_a_proj", "ssm_g_a", "kda embd", bias=False),
    row("self_attn.g_b_proj", "ssm_g_b", "kda_all kda", bias=False),
)
SPARSE = join_rows(
    row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd", bias=False),
    plain("block_sparse_moe.gate.e_score_correction_bias", "exp_probs_b.bias", "expert"),
    experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2")),
    shared_expert("block_sparse_moe.shared_experts"),
)


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    return {
        "hidden_act": "silu",
        "num_key_value_heads": dims["head"],
        "qk_nope_head_dim": dims["nope"],
        "q_lora_rank": dims.keys.get("attention.q_lora_rank"),
        "moe_router_activation_func": "sigmoid",
        "moe_layer_freq": 1,
        _TABLE: {"num_heads": dims["head"]},
    }


_DECAY = plain("self_attn.A_log", "ssm_a", "1 1 head 1", DECAY)
KIMI_LINEAR = Architecture(
    "kimi-linear",
    ("KimiLinearForCausalLM", "KimiLinearModel"),
    "kimi_linear",
    with_keys(
        without_keys(KEYS, "expert_weights_norm"),
        *LINEAR_KEYS,
        EXPERT_FEED_FORWARD,
        u32("expert_count", "num_local_experts", "num_experts", "n_routed_experts",
            written="num_experts"),
        u32("expert_used_count", "num_experts_per_tok", "num_experts_per_token",
            written="num_experts_per_token"),
        u32("attention.value_length", "head_dim"),
        u32("expert_shared_count", "num_shared_experts"),
        f32("expert_weights_scale", "routed_scaling_factor"),
    ),
    decoder(
        NORMS,
        in_layers(is_linear, linear(_DECAY, GATE)),
        in_layers(is_full, LATENT),
        in_layers(is_dense, FEED_FORWARD),
        in_layers(is_sparse, SPARSE),
    ),
    checks=(only("moe_layer_freq", 1),),
    defaults=default_fields(
        0, rms_norm_eps=1e-5, max_position_embeddings=None, rope_theta=None
    ),
    dims={**DIMS, **LINEAR_DIMS},
    skips=tied_head,
    config=config,
)  # fmt: skip
