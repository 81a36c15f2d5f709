"""Ministral 3, whose attention is scaled for long texts, and the text part of Mistral Small 3.

Source: llama.cpp, conversion/mistral3.py (``Ministral3Model``); transformers, models/ministral3.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import default_fields, rope_row
from mtkit.architectures.families.llama import KEYS, LLAMA
from mtkit.architectures.table import Architecture

_ROPE = {
    "rope_type": "yarn", "rope_theta": 1000000.0, "factor": 16.0, "beta_fast": 32.0,
    "beta_slow": 1.0, "original_max_position_embeddings": 16384, "mscale_all_dim": 1.0,
    "llama_4_scaling_beta": 0.1,
}  # fmt: skip

_KEYS = (
    *KEYS,
    rope_row("rope.scaling.yarn_log_multiplier", "mscale_all_dim"),
    rope_row("attention.temperature_scale", "llama_4_scaling_beta"),
)

MINISTRAL_3 = Architecture(
    "mistral3",
    ("Ministral3ForCausalLM",),
    "ministral3",
    _KEYS,
    LLAMA.rows,
    defaults=default_fields(
        262144, rms_norm_eps=1e-5, num_key_value_heads=8, head_dim=128, rope_parameters=_ROPE
    ),
    config=LLAMA.config,
)
MISTRAL_SMALL_3 = Architecture(
    "mistral3",
    ("Mistral3ForConditionalGeneration",),
    "mistral3",
    _KEYS,
    LLAMA.rows,
    defaults=default_fields(131072, rms_norm_eps=1e-5, num_key_value_heads=8, head_dim=128),
    config=LLAMA.config,
)
