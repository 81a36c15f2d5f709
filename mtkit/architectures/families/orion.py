"""Orion and XVERSE, which differ from Llama in norms and in the order of their rows.

Source: llama.cpp, conversion/orion.py (``OrionModel``), conversion/xverse.py (``XverseModel``);
configuration_orion.py and configuration_xverse.py beside the published models.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    FEED_FORWARD,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.families.llama import ATTENTION
from mtkit.architectures.metadata import always, computed, f32, head_dim, pick_keys
from mtkit.architectures.table import Architecture

_LAYOUT = always("tensor_data_layout", "string", "Meta AI original pth")

ORION = Architecture(
    "orion",
    ("OrionForCausalLM",),
    "orion",
    (
        *pick_keys(
            DECODER, "block_count", "context_length", "embedding_length", "feed_forward_length",
            "attention.head_count", "attention.head_count_kv",
        ),
        _LAYOUT,
        # The field is named for a norm that the model does not use.
        f32("attention.layer_norm_epsilon", "rms_norm_eps"),
    ),
    decoder(NORMS, attention(), FEED_FORWARD),
    defaults=default_fields(4096, rms_norm_eps=1e-5),
    config=config_fields(hidden_act="silu", tie_word_embeddings=False),
)  # fmt: skip
XVERSE = Architecture(
    "xverse",
    ("XverseForCausalLM",),
    "xverse",
    (*DECODER, _LAYOUT, computed("rope.dimension_count", "u32", head_dim)),
    decoder(NORMS, ATTENTION, FEED_FORWARD),
    defaults=default_fields(8192, rms_norm_eps=1e-6),
    config=config_fields(hidden_act="silu", tie_word_embeddings=False),
)
