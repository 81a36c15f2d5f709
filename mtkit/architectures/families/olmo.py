"""OLMo 1 to 3, and the mixture of experts OLMoE.

Source: llama.cpp, conversion/olmo.py (``OlmoModel``, ``Olmo2Model``, ``OlmoeModel``); transformers,
models/olmo to olmo3, models/olmoe.
"""

from __future__ import annotations

from mtkit.architectures.changes import Permuted
from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    EXPERT_COUNT,
    FEED_FORWARD,
    IN_LAYER,
    NORMS,
    OUTPUT,
    SLIDING_WINDOW,
    WIDE_NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
    layer_types,
    only,
)
from mtkit.architectures.families.qwen2 import EXPERTS
from mtkit.architectures.metadata import always, f32, with_keys, without_keys
from mtkit.architectures.table import Architecture, block, join_rows, row

OLMO = Architecture(
    "olmo",
    ("OlmoForCausalLM", "OLMoForCausalLM"),
    "olmo",
    (
        *without_keys(DECODER, "attention.layer_norm_rms_epsilon"),
        always("attention.layer_norm_epsilon", "f32", 1e-5),
        f32("attention.clamp_kqv", "clip_qkv"),
    ),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        OUTPUT,
        block(
            IN_LAYER,
            attention(q=Permuted("head"), k=Permuted("head_kv")),
            FEED_FORWARD,
        ),
    ),
    defaults=default_fields(2048),
    config=config_fields(hidden_act="silu", attention_bias=ATTENTION_BIAS),
)
_ROWS = decoder(
    row("post_attention_layernorm", "post_attention_norm", "embd"),
    row("post_feedforward_layernorm", "post_ffw_norm", "embd"),
    WIDE_NORMS,
    attention(),
    FEED_FORWARD,
)
OLMO_3 = Architecture(
    "olmo2",
    ("Olmo3ForCausalLM",),
    "olmo3",
    (*DECODER, SLIDING_WINDOW, layer_types(lambda layer: layer % 4 != 3)),
    _ROWS,
    defaults=default_fields(2048, rms_norm_eps=1e-5, sliding_window=4096),
    fits=lambda dims: dims.keys.get("attention.sliding_window") is not None,
    config=config_fields(hidden_act="silu", attention_bias=ATTENTION_BIAS),
)
OLMO_2 = Architecture(
    "olmo2",
    ("Olmo2ForCausalLM",),
    "olmo2",
    DECODER,
    _ROWS,
    defaults=default_fields(2048, rms_norm_eps=1e-5),
    config=config_fields(hidden_act="silu", attention_bias=ATTENTION_BIAS),
)
OLMOE = Architecture(
    "olmoe",
    ("OlmoeForCausalLM",),
    "olmoe",
    with_keys(DECODER, EXPERT_COUNT, always("attention.layer_norm_rms_epsilon", "f32", 1e-5)),
    decoder(NORMS, WIDE_NORMS, attention(), EXPERTS),
    checks=(only("clip_qkv"),),
    defaults=default_fields(4096, num_experts=64, num_experts_per_tok=8),
    config=config_fields(
        hidden_act="silu", attention_bias=ATTENTION_BIAS, rms_norm_eps=1e-5, norm_topk_prob=False
    ),
)
