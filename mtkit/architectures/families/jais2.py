"""Jais 2.

Source: llama.cpp, conversion/jais.py (``Jais2Model``); transformers, models/jais2.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    NORMS,
    UP_AND_DOWN,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.metadata import computed, head_dim
from mtkit.architectures.table import Architecture

JAIS_2 = Architecture(
    "jais2",
    ("Jais2ForCausalLM",),
    "jais2",
    (*DECODER, computed("rope.dimension_count", "u32", head_dim)),
    decoder(NORMS, attention(), UP_AND_DOWN),
    defaults=default_fields(8192, layer_norm_eps=1e-5, head_dim=head_dim),
    config=config_fields(hidden_act="relu2", attention_bias=True, mlp_bias=True),
)
