"""Cohere: Command R, Aya 23 (Cohere), Command R7B, Command A (Cohere2).

Source: llama.cpp, conversion/command_r.py (``CommandR2Model``, ``Cohere2Model``); transformers,
models/cohere, models/cohere2.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    FEED_FORWARD,
    SLIDING_WINDOW,
    VOCAB_SIZE,
    attention,
    config_fields,
    decoder,
    default_fields,
    has,
    only,
    rotary_part,
)
from mtkit.architectures.metadata import always, computed, f32, rotary_dim, u32, with_keys
from mtkit.architectures.table import Architecture, in_layers, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.metadata import Dims

NORM = row("input_layernorm", "attn_norm", "embd")
KEYS = with_keys(
    DECODER,
    f32("logit_scale", "logit_scale"),
    always("rope.scaling.type", "string", "none"),
)
SILENT = {"logit_scale": 0.0625, "layer_norm_eps": 1e-5}
PERIOD = 4
"""The last of so many layers attends to everything, in every Cohere2 that llama.cpp runs."""
_NORMED = 64
"""So many layers or more, and heads have norms. Source: llama.cpp, models/command-r.cpp."""


def config_2(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields of Cohere2 that the metadata of a GGUF do not have."""
    kinds = ("full_attention", *["sliding_attention"] * (PERIOD - 1))
    layers = range(1, dims.key("block_count") + 1)
    return {
        "hidden_act": "silu",
        "attention_bias": False,
        "rotary_pct": rotary_part(dims),
        "_sliding_window_pattern": PERIOD,
        "layer_types": [kinds[min(layer % PERIOD, 1)] for layer in layers],
    }


COHERE = Architecture(
    "command-r",
    ("CohereForCausalLM",),
    "cohere",
    with_keys(
        KEYS,
        u32(
            "context_length",
            "model_max_length",
            "max_position_embeddings",
            written="max_position_embeddings",
        ),
    ),
    decoder(
        NORM,
        attention(),
        in_layers(
            lambda dims: dims.key("block_count") >= _NORMED,
            row("self_attn.q_norm", "attn_q_norm", "head key", bias=False),
            row("self_attn.k_norm", "attn_k_norm", "head_kv key", bias=False),
        ),
        FEED_FORWARD,
        head=(),
    ),
    defaults=default_fields(8192, **SILENT),
    config=config_fields(
        hidden_act="silu",
        attention_bias=ATTENTION_BIAS,
        use_qk_norm=has("blk.0.attn_q_norm.weight"),
    ),
)
COHERE_2 = Architecture(
    "cohere2",
    ("Cohere2ForCausalLM",),
    "cohere2",
    (
        *KEYS,
        SLIDING_WINDOW,
        VOCAB_SIZE,
        computed("rope.dimension_count", "u32", rotary_dim(1.0)),
    ),
    decoder(NORM, attention(), FEED_FORWARD, head=()),
    checks=(only("_sliding_window_pattern", PERIOD), only("sliding_window_pattern", PERIOD)),
    defaults=default_fields(8192, sliding_window=4096, **SILENT),
    zeros=(".bias",),
    config=config_2,
)
