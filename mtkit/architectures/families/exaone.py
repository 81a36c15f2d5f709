"""EXAONE 3, and EXAONE 4: norms behind attention and feed-forward part, layers of a window.

Source: llama.cpp, conversion/exaone.py (``ExaoneModel``, ``Exaone4Model``); transformers,
models/exaone4; configuration_exaone.py beside the models of EXAONE 3.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    FEED_FORWARD,
    HEAD_NORMS,
    OUTPUT,
    SLIDING_WINDOW,
    VOCAB_SIZE,
    attention,
    decoder,
    default_fields,
    layer_types,
    only,
)
from mtkit.architectures.families.llama import LLAMA_3
from mtkit.architectures.metadata import computed, rotary_dim, with_fields
from mtkit.architectures.rope import llama_3_scaling
from mtkit.architectures.table import Architecture, block, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

PATTERN = "attention.sliding_window_pattern"


def _sliding(config: Config) -> list[bool] | None:
    period = config.get("sliding_window_pattern")
    if isinstance(period, str) and period:
        row = layer_types(lambda layer: period[layer % len(period)] == "L")
    else:
        number = config.whole("sliding_window_pattern") or 1
        row = layer_types(lambda layer: bool((layer + 1) % number))
    pattern: list[bool] | None = row.value(config)
    return pattern if config.whole("sliding_window") is not None else None


def defaults(config: Config) -> Mapping[str, Any]:
    """Return transformers' defaults."""
    # One that is null says that there is no window.
    window = {} if "sliding_window" in config.fields else {"sliding_window": 4096}
    fields = {"sliding_window_pattern": 4, "rms_norm_eps": 1e-5, "num_key_value_heads": 32}
    return default_fields(2048, **fields, **window)(config)


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    slides = [bool(slide) for slide in dims.keys.get(PATTERN) or ()]
    period = slides.index(False) + 1 if False in slides else None
    whole = ["full_attention"] * (0 if slides else dims.key("block_count"))
    return {
        "hidden_act": "silu",
        "sliding_window_pattern": period,
        **({"layer_types": whole, "sliding_window": None} if whole else {}),
        **llama_3_scaling(dims, tensor("rope_freqs.weight")),
    }


_LAYER_3 = "transformer.h.{i}."
EXAONE_3 = Architecture(
    "exaone",
    ("ExaoneForCausalLM",),
    "exaone",
    (
        *with_fields(DECODER, block_count="num_layers"),
        computed("rope.dimension_count", "u32", rotary_dim(1.0)),
    ),
    join_rows(
        row("transformer.wte", "token_embd", "vocab embd", bias=False),
        row("transformer.ln_f", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            _LAYER_3,
            row("ln_1", "attn_norm", "embd", bias=False),
            row("ln_2", "ffn_norm", "embd", bias=False),
            row("attn.attention.q_proj", "attn_q", "q embd", bias=False),
            row("attn.attention.k_proj", "attn_k", "k embd", bias=False),
            row("attn.attention.v_proj", "attn_v", "v embd", bias=False),
            row("attn.attention.out_proj", "attn_output", "embd out", bias=False),
            row("mlp.c_fc_0", "ffn_gate", "ff embd", bias=False),
            row("mlp.c_fc_1", "ffn_up", "ff embd", bias=False),
            row("mlp.c_proj", "ffn_down", "embd ff", bias=False),
        ),
    ),
    checks=(only("activation_function", "silu"),),
    defaults=default_fields(2048, layer_norm_epsilon=1e-5, activation_function="silu"),
    prefix="",
    generated=(LLAMA_3,),
    config=lambda dims, tensor: {
        "activation_function": "silu",
        **llama_3_scaling(dims, tensor("rope_freqs.weight")),
    },
)
EXAONE_4 = Architecture(
    "exaone4",
    ("Exaone4ForCausalLM",),
    "exaone4",
    (
        *DECODER,
        VOCAB_SIZE,
        SLIDING_WINDOW,
        computed(PATTERN, "bool[]", _sliding, back=layer_types(bool).back),
    ),
    decoder(
        attention(),
        HEAD_NORMS,
        row("post_attention_layernorm", "post_attention_norm", "embd", bias=False),
        FEED_FORWARD,
        row("post_feedforward_layernorm", "post_ffw_norm", "embd", bias=False),
    ),
    defaults=defaults,
    generated=(LLAMA_3,),
    config=config,
)
