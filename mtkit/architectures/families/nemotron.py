"""Nemotron: Minitron, Nemotron 4. Norms are held as their distance from 1.

Source: llama.cpp, conversion/nemotron.py (``NemotronModel``); transformers, models/nemotron.
"""

from __future__ import annotations

from mtkit.architectures.changes import PLUS_ONE
from mtkit.architectures.keys import DECODER, KeyRow, computed, f32, u32, without
from mtkit.architectures.rows import OUTPUT, UP_AND_DOWN, attention
from mtkit.architectures.table import Architecture, block, joined, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.dims import Dims
    from mtkit.architectures.table import Rows


def _norm(folder: str, gguf: str) -> Rows:
    return joined(
        row(folder, gguf, "embd", PLUS_ONE, bias=False),
        plain(f"{folder}.bias", f"{gguf}.bias", "embd"),
    )


def _factor(config: Config) -> float | None:
    return config.number("factor") or config.rope().number("factor")


def _rotary(config: Config) -> int:
    part = config.rope().number("partial_rotary_factor")
    if part is None or not 0 <= part <= 1:
        raise config.wrong(f"is {part}, not from 0 to 1", "partial_rotary_factor")
    return int(part * config.count("hidden_size")) // config.count("num_attention_heads")


def defaults(config: Config) -> Mapping[str, Any]:
    """Return what transformers takes where a config.json does not say it."""
    heads = config.count("num_attention_heads")
    part = config.rope().get("partial_rotary_factor")
    return {
        "max_position_embeddings": 4096,
        "num_key_value_heads": heads,
        "head_dim": config.count("hidden_size") // heads,
        "norm_eps": 1e-5,
        "rope_theta": 10000.0,
        "partial_rotary_factor": 0.5 if part is None else part,
    }


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    return {
        "hidden_act": "relu2",
        "attention_bias": dims.has("blk.0.attn_q.bias"),
        "mlp_bias": dims.has("blk.0.ffn_up.bias"),
        "partial_rotary_factor": dims["rope"] * dims["head"] / max(dims["embd"], 1),
    }


_OWN = ("attention.layer_norm_epsilon", "rope.scaling.type", "rope.scaling.factor")
NEMOTRON = Architecture(
    "nemotron",
    ("NemotronForCausalLM",),
    "nemotron",
    (
        *without(DECODER, "attention.layer_norm_rms_epsilon", *_OWN),
        KeyRow("attention.layer_norm_rms_epsilon", "f32", lambda config: config.number("norm_eps")),
        f32(
            "attention.layer_norm_epsilon",
            "norm_eps",
            "layer_norm_eps",
            "layer_norm_epsilon",
            "norm_epsilon",
        ),
        u32("vocab_size", "vocab_size"),
        computed("rope.dimension_count", "u32", _rotary),
        computed(
            "rope.scaling.type",
            "string",
            lambda config: "none" if _factor(config) is None else "linear",
        ),
        computed(
            "rope.scaling.factor",
            "f32",
            _factor,
            lambda value: {"rope_scaling": {"rope_type": "linear", "factor": value}},
        ),
    ),
    joined(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        _norm("model.norm", "output_norm"),
        OUTPUT,
        block(
            "model.layers.{i}.",
            _norm("input_layernorm", "attn_norm"),
            attention(),
            _norm("post_attention_layernorm", "ffn_norm"),
            UP_AND_DOWN,
        ),
    ),
    defaults=defaults,
    config=config,
)
