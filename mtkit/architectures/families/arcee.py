"""Arcee (AFM): Llama with squared ReLU in place of the gate.

Source: llama.cpp, conversion/llama.py (``ArceeModel``); transformers, models/arcee.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import NORMS, POOLING, UP_AND_DOWN, decoder, default_fields
from mtkit.architectures.families import llama
from mtkit.architectures.metadata import head_dim
from mtkit.architectures.table import Architecture

ARCEE = Architecture(
    "arcee",
    ("ArceeForCausalLM",),
    "arcee",
    (*llama.KEYS, POOLING),
    decoder(NORMS, llama.ATTENTION, UP_AND_DOWN),
    defaults=default_fields(4096, rms_norm_eps=1e-5, head_dim=head_dim),
    generated=(llama.LLAMA_3,),
    config=lambda dims, tensor: {**llama.config(dims, tensor), "hidden_act": "relu2"},
)
