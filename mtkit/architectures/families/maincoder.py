"""Maincoder.

Source: llama.cpp, conversion/maincoder.py (``MaincoderModel``); configuration_maincoder.py beside
the published model.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    FEED_FORWARD,
    HEAD_NORMS,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.metadata import u32
from mtkit.architectures.table import Architecture

MAINCODER = Architecture(
    "maincoder",
    ("MaincoderForCausalLM",),
    "maincoder",
    (*DECODER, u32("rope.dimension_count", "head_dim")),
    decoder(NORMS, attention(), HEAD_NORMS, FEED_FORWARD),
    defaults=default_fields(2048, rms_norm_eps=1e-5),
    config=config_fields(hidden_act="silu"),
)
