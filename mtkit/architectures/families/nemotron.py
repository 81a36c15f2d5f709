"""Nemotron: Minitron, Nemotron 4. Norms are held as their distance from 1.

Source: llama.cpp, conversion/nemotron.py (``NemotronModel``); transformers, models/nemotron.
"""

from __future__ import annotations

from mtkit.architectures.changes import PLUS_ONE
from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    FEED_FORWARD_BIAS,
    IN_LAYER,
    OUTPUT,
    UP_AND_DOWN,
    VOCAB_SIZE,
    attention,
    config_fields,
    default_fields,
)
from mtkit.architectures.metadata import computed, f32, rotary_dim, without_keys
from mtkit.architectures.table import Architecture, block, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.table import Rows


def _norm(folder: str, gguf: str) -> Rows:
    return join_rows(
        row(folder, gguf, "embd", PLUS_ONE, bias=False),
        plain(f"{folder}.bias", f"{gguf}.bias", "embd"),
    )


def _factor(config: Config) -> float | None:
    return config.number("factor") or config.rope().number("factor")


def _head_dim(config: Config) -> int:
    return config.count("hidden_size") // config.count("num_attention_heads")


def _part(config: Config) -> Any:
    part = config.rope().get("partial_rotary_factor")
    return 0.5 if part is None else part


_OWN = ("attention.layer_norm_epsilon", "rope.scaling.type", "rope.scaling.factor")
NEMOTRON = Architecture(
    "nemotron",
    ("NemotronForCausalLM",),
    "nemotron",
    (
        *without_keys(DECODER, "attention.layer_norm_rms_epsilon", *_OWN),
        computed(
            "attention.layer_norm_rms_epsilon", "f32", lambda config: config.number("norm_eps")
        ),
        f32(
            "attention.layer_norm_epsilon",
            "norm_eps",
            "layer_norm_eps",
            "layer_norm_epsilon",
            "norm_epsilon",
        ),
        VOCAB_SIZE,
        computed("rope.dimension_count", "u32", rotary_dim(0.5, of_all_heads=True)),
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
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        _norm("model.norm", "output_norm"),
        OUTPUT,
        block(
            IN_LAYER,
            _norm("input_layernorm", "attn_norm"),
            attention(),
            _norm("post_attention_layernorm", "ffn_norm"),
            UP_AND_DOWN,
        ),
    ),
    defaults=default_fields(4096, head_dim=_head_dim, norm_eps=1e-5, partial_rotary_factor=_part),
    config=config_fields(
        hidden_act="relu2",
        attention_bias=ATTENTION_BIAS,
        mlp_bias=FEED_FORWARD_BIAS,
        partial_rotary_factor=lambda dims: dims["rope"] * dims["head"] / max(dims["embd"], 1),
    ),
)
