"""EuroBERT and Jina Embeddings v5 (nano): a Llama that sees all of a text.

Source: llama.cpp, conversion/bert.py (``EuroBertModel``); transformers, models/eurobert.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    EMBEDDINGS,
    FEED_FORWARD,
    IN_LAYER,
    NORMS,
    POOLING,
    attention,
    config_fields,
    default_fields,
)
from mtkit.architectures.metadata import always, with_keys
from mtkit.architectures.table import Architecture, block, join_rows

EUROBERT = Architecture(
    "eurobert",
    ("EuroBertModel", "JinaEmbeddingsV5Model"),
    "eurobert",
    with_keys(
        DECODER,
        always("attention.causal", "bool", value=False),
        always("rope.scaling.type", "string", "none"),
        POOLING,
    ),
    join_rows(EMBEDDINGS, block(IN_LAYER, NORMS, attention(), FEED_FORWARD)),
    defaults=default_fields(8192, rms_norm_eps=1e-5),
    config=config_fields(hidden_act="silu"),
)
