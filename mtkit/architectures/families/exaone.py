"""EXAONE 4: norms behind attention and feed-forward part, layers of a window in the larger one.

Source: llama.cpp, conversion/exaone.py (``Exaone4Model``); transformers, models/exaone4.
"""

from __future__ import annotations

from mtkit.architectures.families.llama import LLAMA_3, VOCAB_SIZE
from mtkit.architectures.keys import DECODER, computed, u32
from mtkit.architectures.rope import llama_3_scaling
from mtkit.architectures.rows import EMBEDDINGS, FEED_FORWARD, OUTPUT, attention
from mtkit.architectures.table import Architecture, block, joined, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.dims import Dims

_PATTERN = "attention.sliding_window_pattern"
_KINDS = ("full_attention", "sliding_attention")


def _sliding(config: Config) -> list[bool] | None:
    if config.whole("sliding_window") is None:
        return None
    if config.get("layer_types") is not None:
        return [kind == _KINDS[1] for kind in config.kinds_of_layers()]
    period = config.get("sliding_window_pattern")
    layers = range(min(config.count("num_hidden_layers"), 1 << 16))
    if isinstance(period, str) and period:
        return [period[layer % len(period)] == "L" for layer in layers]
    period = config.whole("sliding_window_pattern")
    return [bool((layer + 1) % period) for layer in layers] if period else None


def defaults(config: Config) -> Mapping[str, Any]:
    """Return what transformers takes where a config.json does not say it."""
    window = {} if "sliding_window" in config.fields else {"sliding_window": 4096}
    return {
        **window,
        "sliding_window_pattern": 4,
        "max_position_embeddings": 2048,
        "num_key_value_heads": 32,
        "rms_norm_eps": 1e-5,
        "rope_theta": 10000.0,
    }


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    layers = range(dims.key("block_count"))
    kinds = [_KINDS[dims.at(layer).key(_PATTERN, 0) > 0] for layer in layers]
    sliding = "attention.sliding_window" in dims.keys
    period = next((n + 1 for n, kind in enumerate(kinds) if kind == _KINDS[0]), len(kinds))
    return {
        "hidden_act": "silu",
        "layer_types": kinds,
        **({"sliding_window_pattern": period} if sliding else {"sliding_window": None}),
        **llama_3_scaling(dims, tensor("rope_freqs.weight")),
    }


EXAONE_4 = Architecture(
    "exaone4",
    ("Exaone4ForCausalLM",),
    "exaone4",
    (
        *DECODER,
        VOCAB_SIZE,
        u32("attention.sliding_window", "sliding_window"),
        computed(_PATTERN, "bool[]", _sliding),
    ),
    joined(
        EMBEDDINGS,
        OUTPUT,
        block(
            "model.layers.{i}.",
            attention(),
            row("self_attn.q_norm", "attn_q_norm", "key", bias=False),
            row("self_attn.k_norm", "attn_k_norm", "key", bias=False),
            row("post_attention_layernorm", "post_attention_norm", "embd", bias=False),
            FEED_FORWARD,
            row("post_feedforward_layernorm", "post_ffw_norm", "embd", bias=False),
        ),
    ),
    defaults=defaults,
    generated=(LLAMA_3,),
    config=config,
)
