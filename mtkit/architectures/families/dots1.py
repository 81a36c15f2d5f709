"""dots.llm1.

Source: llama.cpp, conversion/dots1.py (``Dots1Model``); transformers, models/dots1.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    HEAD_NORMS,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.expert_rows import ROUTED, ROUTING_KEYS, shared_width
from mtkit.architectures.table import Architecture

DOTS_1 = Architecture(
    "dots1",
    ("Dots1ForCausalLM",),
    "dots1",
    (*DECODER, *ROUTING_KEYS),
    decoder(NORMS, attention(), HEAD_NORMS, ROUTED),
    defaults=default_fields(
        2048,
        rms_norm_eps=1e-6,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=0,
        norm_topk_prob=False,
        routed_scaling_factor=1.0,
        scoring_func="sigmoid",
    ),
    dims={"ff_shexp": shared_width},
    config=config_fields(hidden_act="silu", attention_bias=ATTENTION_BIAS),
)
