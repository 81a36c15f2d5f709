"""Llama 4, text alone: experts in every layer or in every other one.

Source: llama.cpp, conversion/llama.py (``Llama4Model``); transformers, models/llama4.
"""

from __future__ import annotations

from mtkit.architectures.changes import Split, Transposed
from mtkit.architectures.decoder_rows import (
    NORMS,
    VOCAB_SIZE,
    attention,
    decoder,
    default_fields,
    only,
    shared_expert,
)
from mtkit.architectures.families.llama import KEYS, LLAMA_3
from mtkit.architectures.metadata import computed, u32, with_keys
from mtkit.architectures.rope import llama_3_scaling
from mtkit.architectures.table import Architecture, in_layers, plain, row
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_STEP = "interleave_moe_layer_step"


def _window(config: Config) -> int | None:
    """Return 0 where no layer sees a part of the text alone; else llama.cpp knows it."""
    kinds = config.get("layer_types")
    is_full = isinstance(kinds, list) and all(kind == "full_attention" for kind in kinds)
    return 0 if is_full else None


def _check_positions(config: Config) -> None:
    """Refuse layers without positions other than every fourth, which llama.cpp knows."""
    layers = config.get("no_rope_layers")
    if layers and (
        not isinstance(layers, list)
        or any(bool(uses) != bool((number + 1) % 4) for number, uses in enumerate(layers))
    ):
        what = "is not every fourth layer, as llama.cpp runs the model"
        raise UnsupportedError(what, source=config.source, field="no_rope_layers")


def _has_experts(dims: Dims) -> bool:
    return (dims.layer + 1) % max(dims.key(_STEP), 1) == 0


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    layers = range(dims.key("block_count"))
    is_full = "attention.sliding_window" in dims.keys
    return {
        "hidden_act": "silu",
        "attention_chunk_size": 8192,
        "attn_temperature_tuning": True,
        "attn_scale": 0.1,
        "floor_scale": 8192,
        "moe_layers": [layer for layer in layers if _has_experts(dims.at(layer))],
        "attention_bias": dims.has("blk.0.attn_q.bias"),
        **({"layer_types": ["full_attention" for _ in layers]} if is_full else {}),
        **llama_3_scaling(dims, tensor("rope_freqs.weight")),
    }


LLAMA_4 = Architecture(
    "llama4",
    ("Llama4ForCausalLM", "Llama4ForConditionalGeneration"),
    "llama4_text",
    with_keys(
        KEYS,
        VOCAB_SIZE,
        u32("feed_forward_length", "intermediate_size_mlp"),
        u32("expert_feed_forward_length", "intermediate_size"),
        u32(_STEP, _STEP),
        computed("attention.sliding_window", "u32", _window),
    ),
    decoder(
        NORMS,
        attention(),
        in_layers(
            lambda dims: not _has_experts(dims),
            row("feed_forward.gate_proj", "ffn_gate", "ff embd", bias=False),
            row("feed_forward.up_proj", "ffn_up", "ff embd", bias=False),
            row("feed_forward.down_proj", "ffn_down", "embd ff", bias=False),
        ),
        in_layers(
            _has_experts,
            row("feed_forward.router", "ffn_gate_inp", "expert embd", bias=False),
            plain(
                "feed_forward.experts.gate_up_proj",
                "ffn_gate_exps.weight ffn_up_exps.weight",
                "expert ff_exp embd, expert ff_exp embd",
                Split(-2, transposed=True),
            ),
            plain(
                "feed_forward.experts.down_proj",
                "ffn_down_exps.weight",
                "expert embd ff_exp",
                Transposed(),
            ),
            shared_expert("feed_forward.shared_expert"),
        ),
    ),
    checks=(_check_positions, only("no_rope_layer_interval", 4)),
    defaults=default_fields(
        131072,
        rms_norm_eps=1e-5,
        head_dim=128,
        num_key_value_heads=8,
        rope_theta=500000.0,
        intermediate_size_mlp=16384,
        num_local_experts=16,
        num_experts_per_tok=1,
        interleave_moe_layer_step=1,
    ),
    dims={"ff_shexp": lambda dims: dims["ff_exp"]},
    generated=(LLAMA_3,),
    config=_config,
)
