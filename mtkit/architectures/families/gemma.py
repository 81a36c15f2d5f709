"""Gemma 1 to 3, text alone, and EmbeddingGemma without the dense layers behind its pooling.

The folder holds the weight of a norm as its distance from 1, the GGUF the weight itself, computed
in float32; a distance below 2^-16 loses bits by that, and does not come back exactly.
Source: llama.cpp, conversion/gemma.py (``GemmaModel``, ``Gemma2Model``, ``Gemma3Model``,
``EmbeddingGemma``), for the scale of attention src/models/gemma2.cpp, gemma3.cpp; transformers,
models/gemma to gemma3.
"""

from __future__ import annotations

from mtkit.architectures.changes import PLUS_ONE
from mtkit.architectures.common_keys import POOLING, SLIDING_WINDOW, only
from mtkit.architectures.config import silent
from mtkit.architectures.keys import DECODER, KeyRow, f32
from mtkit.architectures.rows import FEED_FORWARD, OUTPUT, attention
from mtkit.architectures.table import Architecture, block, joined, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.dims import Dims

LAYER = "model.layers.{i}."
# Rotary positions of the first two are not in their GGUF: llama.cpp takes a base of 10000.
_KEYS = tuple(one for one in DECODER if not one.name.startswith("rope."))
_SOFTCAPS = (
    f32("attn_logit_softcapping", "attn_logit_softcapping"),
    f32("final_logit_softcapping", "final_logit_softcapping"),
)
_EMBEDDINGS = joined(
    row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
    row("model.norm", "output_norm", "embd", PLUS_ONE, bias=False),
)
_NORMS = joined(
    row("input_layernorm", "attn_norm", "embd", PLUS_ONE, bias=False),
    row("post_attention_layernorm", "post_attention_norm", "embd", PLUS_ONE, bias=False),
    row("pre_feedforward_layernorm", "ffn_norm", "embd", PLUS_ONE, bias=False),
    row("post_feedforward_layernorm", "post_ffw_norm", "embd", PLUS_ONE, bias=False),
)
_HEAD_NORMS = joined(
    row("self_attn.q_norm", "attn_q_norm", "key", PLUS_ONE, bias=False),
    row("self_attn.k_norm", "attn_k_norm", "key", PLUS_ONE, bias=False),
)


def _softcap(config: Config) -> float | None:
    return config.number("final_logit_softcapping") or None


def _window(config: Config) -> int | None:
    # A pattern of 1 says that all layers see everything.
    return None if config.get("sliding_window_pattern") == 1 else config.count("sliding_window")


def _config(layers_of_27b: int) -> Callable[[Dims, Callable[[str], Any]], Mapping[str, Any]]:
    def found(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
        width = dims["key"]
        if dims.key("block_count") == layers_of_27b and dims["head"]:
            width = dims["embd"] // dims["head"]
        return {
            "hidden_activation": "gelu_pytorch_tanh",
            "query_pre_attn_scalar": width,
            "attention_bias": dims.has("blk.0.attn_q.bias"),
        }

    return found


GEMMA = Architecture(
    "gemma",
    ("GemmaForCausalLM",),
    "gemma",
    _KEYS,
    joined(
        _EMBEDDINGS,
        block(
            LAYER,
            row("input_layernorm", "attn_norm", "embd", PLUS_ONE, bias=False),
            row("post_attention_layernorm", "ffn_norm", "embd", PLUS_ONE, bias=False),
            attention(),
            FEED_FORWARD,
        ),
    ),
    defaults=silent(8192, head_dim=256),
    drops=("lm_head.weight",),
    config=lambda dims, tensor: {
        "hidden_act": "gelu_pytorch_tanh",
        "hidden_activation": "gelu_pytorch_tanh",
        "rope_theta": 10000.0,
        "attention_bias": dims.has("blk.0.attn_q.bias"),
    },
)
GEMMA_2 = Architecture(
    "gemma2",
    ("Gemma2ForCausalLM",),
    "gemma2",
    (*_KEYS, *_SOFTCAPS, SLIDING_WINDOW),
    joined(_EMBEDDINGS, block(LAYER, _NORMS, attention(), FEED_FORWARD)),
    defaults=silent(
        8192,
        head_dim=256,
        sliding_window=4096,
        attn_logit_softcapping=50.0,
        final_logit_softcapping=30.0,
    ),
    drops=("lm_head.weight",),
    config=_config(46),
)
GEMMA_3 = Architecture(
    "gemma3",
    ("Gemma3ForCausalLM",),
    "gemma3_text",
    (
        *DECODER,
        KeyRow("final_logit_softcapping", "f32", _softcap, "final_logit_softcapping"),
        KeyRow("attention.sliding_window", "u32", _window, "sliding_window"),
    ),
    joined(_EMBEDDINGS, OUTPUT, block(LAYER, _NORMS, _HEAD_NORMS, attention(), FEED_FORWARD)),
    checks=(only("attn_logit_softcapping"),),
    defaults=silent(
        131072,
        num_attention_heads=8,
        num_key_value_heads=4,
        head_dim=256,
        sliding_window=4096,
        rope_theta=1000000.0,
        rope_local_base_freq=10000.0,
    ),
    config=lambda dims, tensor: {
        **_config(62)(dims, tensor),
        "sliding_window_pattern": 6 if dims.key("attention.sliding_window", 0) else 1,
    },
)
EMBEDDING_GEMMA = Architecture(
    "gemma-embedding",
    ("Gemma3TextModel",),
    "gemma3_text",
    (*GEMMA_3.keys, SLIDING_WINDOW, POOLING),
    GEMMA_3.rows,
    checks=GEMMA_3.checks,
    defaults=GEMMA_3.defaults,
    config=lambda dims, tensor: {
        **_config(0)(dims, tensor),
        "use_bidirectional_attention": True,
    },
)
