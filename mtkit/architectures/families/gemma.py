"""Gemma 1 to 3, text alone, and EmbeddingGemma without the dense layers behind its pooling.

The folder holds the weight of a norm as its distance from 1, the GGUF the weight itself, computed
in float32; a distance below 2^-16 loses bits by that, and does not come back exactly.
Source: llama.cpp, conversion/gemma.py (``GemmaModel``, ``Gemma2Model``, ``Gemma3Model``,
``EmbeddingGemma``), for the scale of attention src/models/gemma2.cpp, gemma3.cpp; transformers,
models/gemma to gemma3.
"""

from __future__ import annotations

from mtkit.architectures.changes import PLUS_ONE
from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    FEED_FORWARD,
    IN_LAYER,
    OUTPUT,
    POOLING,
    SLIDING_WINDOW,
    attention,
    config_fields,
    default_fields,
    only,
)
from mtkit.architectures.metadata import computed, f32
from mtkit.architectures.table import Architecture, block, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Writer

# Rotary positions of the first two are not in their GGUF: llama.cpp takes a base of 10000.
_KEYS = tuple(key for key in DECODER if not key.name.startswith("rope."))
_SOFTCAPS = (
    f32("attn_logit_softcapping", "attn_logit_softcapping"),
    f32("final_logit_softcapping", "final_logit_softcapping"),
)
_EMBEDDINGS = join_rows(
    row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
    row("model.norm", "output_norm", "embd", PLUS_ONE, bias=False),
)
_NORMS = join_rows(
    row("input_layernorm", "attn_norm", "embd", PLUS_ONE, bias=False),
    row("post_attention_layernorm", "post_attention_norm", "embd", PLUS_ONE, bias=False),
    row("pre_feedforward_layernorm", "ffn_norm", "embd", PLUS_ONE, bias=False),
    row("post_feedforward_layernorm", "post_ffw_norm", "embd", PLUS_ONE, bias=False),
)
_HEAD_NORMS = join_rows(
    row("self_attn.q_norm", "attn_q_norm", "key", PLUS_ONE, bias=False),
    row("self_attn.k_norm", "attn_k_norm", "key", PLUS_ONE, bias=False),
)


def _is_head(name: str, config: Config) -> bool:
    # It is the embedding once more, whatever config.json says.
    return name == "lm_head.weight"


def _softcap(config: Config) -> float | None:
    return config.number("final_logit_softcapping") or None


def _window(config: Config) -> int | None:
    # A pattern of 1 says that all layers see everything.
    return None if config.get("sliding_window_pattern") == 1 else config.count("sliding_window")


def _pattern(dims: Dims) -> int:
    return 6 if dims.key("attention.sliding_window", 0) else 1


def _config(layers_of_27b: int = 0, **more: Any) -> Writer:
    """Return the writer of config.json; the widest model scales attention by another width."""

    def scale(dims: Dims) -> int:
        is_27b = dims.key("block_count") == layers_of_27b and dims["head"]
        return dims["embd"] // dims["head"] if is_27b else dims["key"]

    return config_fields(
        hidden_activation="gelu_pytorch_tanh",
        query_pre_attn_scalar=scale,
        attention_bias=ATTENTION_BIAS,
        **more,
    )


GEMMA = Architecture(
    "gemma",
    ("GemmaForCausalLM",),
    "gemma",
    _KEYS,
    join_rows(
        _EMBEDDINGS,
        block(
            IN_LAYER,
            row("input_layernorm", "attn_norm", "embd", PLUS_ONE, bias=False),
            row("post_attention_layernorm", "ffn_norm", "embd", PLUS_ONE, bias=False),
            attention(),
            FEED_FORWARD,
        ),
    ),
    defaults=default_fields(8192, rms_norm_eps=1e-6, head_dim=256),
    skips=_is_head,
    config=config_fields(
        hidden_act="gelu_pytorch_tanh",
        hidden_activation="gelu_pytorch_tanh",
        rope_theta=10000.0,
        attention_bias=ATTENTION_BIAS,
    ),
)
GEMMA_2 = Architecture(
    "gemma2",
    ("Gemma2ForCausalLM",),
    "gemma2",
    (*_KEYS, *_SOFTCAPS, SLIDING_WINDOW),
    join_rows(_EMBEDDINGS, block(IN_LAYER, _NORMS, attention(), FEED_FORWARD)),
    defaults=default_fields(
        8192,
        rms_norm_eps=1e-6,
        head_dim=256,
        sliding_window=4096,
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
    ),
    skips=_is_head,
    config=_config(46),
)
GEMMA_3 = Architecture(
    "gemma3",
    ("Gemma3ForCausalLM", "Gemma3ForConditionalGeneration"),
    "gemma3_text",
    (
        *DECODER,
        computed("final_logit_softcapping", "f32", _softcap, "final_logit_softcapping"),
        computed("attention.sliding_window", "u32", _window, "sliding_window"),
    ),
    join_rows(_EMBEDDINGS, OUTPUT, block(IN_LAYER, _NORMS, _HEAD_NORMS, attention(), FEED_FORWARD)),
    checks=(only("attn_logit_softcapping"),),
    defaults=default_fields(
        131072,
        rms_norm_eps=1e-6,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=256,
        sliding_window=4096,
        rope_theta=1000000.0,
        rope_local_base_freq=10000.0,
    ),
    config=_config(62, sliding_window_pattern=_pattern),
)
EMBEDDING_GEMMA = Architecture(
    "gemma-embedding",
    ("Gemma3TextModel",),
    "gemma3_text",
    (*GEMMA_3.keys, SLIDING_WINDOW, POOLING),
    GEMMA_3.rows,
    checks=GEMMA_3.checks,
    defaults=GEMMA_3.defaults,
    config=_config(use_bidirectional_attention=True),
)
