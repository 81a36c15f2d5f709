"""LFM2 as an embedding model, seeing both sides or one.

Names in a GGUF: "lfm2".

Source: llama.cpp, conversion/lfm2.py (``LFM2ColBertModel``).
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import POOLING
from mtkit.architectures.families.lfm2 import LFM2
from mtkit.architectures.metadata import always, with_keys
from mtkit.base.record import replace

LFM2_MODEL = replace(
    LFM2, classes=("Lfm2Model",), keys=(*LFM2.keys, POOLING), fits=lambda dims: False
)
LFM2_BIDIRECTIONAL = replace(
    LFM2_MODEL,
    classes=("Lfm2BidirectionalModel",),
    keys=with_keys(LFM2_MODEL.keys, always("attention.causal", "bool", False)),
    fits=lambda dims: dims.keys.get("attention.causal") is False,
)
