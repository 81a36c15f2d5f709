"""StarCoder2.

Source: llama.cpp, conversion/starcoder.py (``StarCoder2Model``); transformers, models/starcoder2.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.metadata import f32, with_keys
from mtkit.architectures.table import Architecture, row

STARCODER_2 = Architecture(
    "starcoder2",
    ("Starcoder2ForCausalLM",),
    "starcoder2",
    with_keys(DECODER, f32("attention.layer_norm_epsilon", "norm_epsilon")),
    decoder(
        NORMS,
        attention(),
        row("mlp.c_fc", "ffn_up", "ff embd"),
        row("mlp.c_proj", "ffn_down", "embd ff"),
    ),
    defaults=default_fields(4096, num_key_value_heads=2, norm_epsilon=1e-5),
    config=config_fields(hidden_act="gelu_pytorch_tanh", use_bias=ATTENTION_BIAS),
)
