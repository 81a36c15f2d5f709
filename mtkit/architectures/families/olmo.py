"""OLMo 1 to 3, and the mixture of experts OLMoE.

Source: llama.cpp, conversion/olmo.py (``OlmoModel``, ``Olmo2Model``, ``OlmoeModel``); transformers,
models/olmo to olmo3, models/olmoe.
"""

from __future__ import annotations

from mtkit.architectures.changes import Permuted
from mtkit.architectures.common_keys import EXPERT_COUNT, SLIDING_WINDOW, layer_types, only
from mtkit.architectures.config import silent
from mtkit.architectures.families.qwen2 import EXPERTS
from mtkit.architectures.keys import DECODER, always, f32, replaced, without
from mtkit.architectures.rows import (
    EMBEDDINGS,
    FEED_FORWARD,
    NORMS,
    OUTPUT,
    WIDE_NORMS,
    attention,
)
from mtkit.architectures.table import Architecture, block, joined, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.dims import Dims

LAYER = "model.layers.{i}."


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        "hidden_act": "silu",
        "attention_bias": dims.has("blk.0.attn_q.bias"),
    }


OLMO = Architecture(
    "olmo",
    ("OlmoForCausalLM", "OLMoForCausalLM"),
    "olmo",
    (
        *without(DECODER, "attention.layer_norm_rms_epsilon"),
        always("attention.layer_norm_epsilon", "f32", 1e-5),
        f32("attention.clamp_kqv", "clip_qkv"),
    ),
    joined(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        OUTPUT,
        block(
            LAYER,
            attention(q=Permuted("head"), k=Permuted("head_kv")),
            FEED_FORWARD,
        ),
    ),
    defaults=silent(2048),
    config=_config,
)
_ROWS = joined(
    EMBEDDINGS,
    OUTPUT,
    block(
        LAYER,
        row("post_attention_layernorm", "post_attention_norm", "embd"),
        row("post_feedforward_layernorm", "post_ffw_norm", "embd"),
        WIDE_NORMS,
        attention(),
        FEED_FORWARD,
    ),
)
OLMO_3 = Architecture(
    "olmo2",
    ("Olmo3ForCausalLM",),
    "olmo3",
    (*DECODER, SLIDING_WINDOW, layer_types(lambda layer: layer % 4 != 3)),
    _ROWS,
    defaults=silent(2048, rms_norm_eps=1e-5, sliding_window=4096),
    told=lambda dims: dims.keys.get("attention.sliding_window") is not None,
    config=_config,
)
OLMO_2 = Architecture(
    "olmo2",
    ("Olmo2ForCausalLM",),
    "olmo2",
    DECODER,
    _ROWS,
    defaults=silent(2048, rms_norm_eps=1e-5),
    config=_config,
)
OLMOE = Architecture(
    "olmoe",
    ("OlmoeForCausalLM",),
    "olmoe",
    replaced(DECODER, EXPERT_COUNT, always("attention.layer_norm_rms_epsilon", "f32", 1e-5)),
    joined(EMBEDDINGS, OUTPUT, block(LAYER, NORMS, WIDE_NORMS, attention(), EXPERTS)),
    checks=(only("clip_qkv"),),
    defaults=silent(4096, num_experts=64, num_experts_per_tok=8),
    config=lambda dims, tensor: {
        **_config(dims, tensor),
        "rms_norm_eps": 1e-5,
        "norm_topk_prob": False,
    },
)
