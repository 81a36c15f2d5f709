"""Jamba: layers of Mamba with norms, of attention without positions; experts in some of them.

Source: llama.cpp, conversion/jamba.py; transformers, models/jamba.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_COUNT,
    IN_LAYER,
    OUTPUT,
    attention,
    default_fields,
    experts,
)
from mtkit.architectures.families import mamba
from mtkit.architectures.metadata import computed, f32, pick_keys, u32
from mtkit.architectures.state_space import (
    heads_where,
    is_attention,
    is_recurrent,
    layer_list,
    periodic,
)
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims


def _rank(config: Config) -> int:
    rank = config.get("mamba_dt_rank")
    return (
        -(config.count("hidden_size") // -16) if rank == "auto" else config.count("mamba_dt_rank")
    )


def _has_router(dims: Dims) -> bool:
    folder = f"model.layers.{dims.layer}.feed_forward.router.weight"
    return dims.has(folder, f"blk.{dims.layer}.ffn_gate_inp.weight")


def _period(kind: str, layers: Sequence[bool]) -> dict[str, int]:
    """Return the fields of the layers that are one of a period."""
    places = [layer for layer, is_one in enumerate(layers) if is_one] or [len(layers)]
    period = places[1] - places[0] if places[1:] else len(layers)
    return {f"{kind}_layer_offset": places[0], f"{kind}_layer_period": period}


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    layers = range(dims.key("block_count"))
    return {
        "hidden_act": "silu",
        "mamba_expand": dims["inner"] // max(dims["embd"], 1),
        **_period("attn", layer_list(dims)),
        **_period("expert", [_has_router(dims.at(layer).among(dims.shapes)) for layer in layers]),
    }


JAMBA = Architecture(
    "jamba",
    ("JambaForCausalLM",),
    "jamba",
    (
        *pick_keys(
            DECODER,
            "block_count", "context_length", "embedding_length", "feed_forward_length",
            "attention.head_count", "expert_used_count",
        ),
        EXPERT_COUNT,
        heads_where(lambda config: periodic(config, "attn_layer_period", "attn_layer_offset")),
        u32("ssm.conv_kernel", "mamba_d_conv"),
        computed(
            "ssm.inner_size",
            "u32",
            lambda config: config.count("mamba_expand") * config.count("hidden_size"),
        ),
        u32("ssm.state_size", "mamba_d_state"),
        computed("ssm.time_step_rank", "u32", _rank, "mamba_dt_rank"),
        f32("attention.layer_norm_rms_epsilon", "rms_norm_eps", "layer_norm_epsilon"),
    ),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        row("model.final_layernorm", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            IN_LAYER,
            row("input_layernorm", "attn_norm", "embd", bias=False),
            row("pre_ff_layernorm", "ffn_norm", "embd", bias=False),
            in_layers(is_attention, attention()),
            in_layers(
                is_recurrent,
                mamba.mixer("mamba."),
                row("mamba.dt_layernorm", "ssm_dt_norm", "rank", bias=False),
                row("mamba.b_layernorm", "ssm_b_norm", "state", bias=False),
                row("mamba.c_layernorm", "ssm_c_norm", "state", bias=False),
            ),
            in_layers(
                _has_router,
                row("feed_forward.router", "ffn_gate_inp", "expert embd", bias=False),
                experts("feed_forward.experts.{e}"),
            ),
            in_layers(
                lambda dims: not _has_router(dims),
                row("feed_forward.gate_proj", "ffn_gate", "ff embd", bias=False),
                row("feed_forward.up_proj", "ffn_up", "ff embd", bias=False),
                row("feed_forward.down_proj", "ffn_down", "embd ff", bias=False),
            ),
        ),
    ),
    defaults=default_fields(
        262144, rms_norm_eps=1e-6, num_experts=16, num_experts_per_tok=2, attn_layer_period=8,
        attn_layer_offset=4, mamba_d_conv=4, mamba_d_state=16, mamba_expand=2, mamba_dt_rank="auto",
    ),
    dims=mamba.DIMS,
    config=_config,
)  # fmt: skip
