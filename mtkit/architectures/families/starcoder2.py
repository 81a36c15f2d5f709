"""StarCoder2.

Source: llama.cpp, conversion/starcoder.py (``StarCoder2Model``); transformers, models/starcoder2.
"""

from __future__ import annotations

from mtkit.architectures.config import silent
from mtkit.architectures.keys import DECODER, f32, replaced
from mtkit.architectures.rows import EMBEDDINGS, NORMS, OUTPUT, attention
from mtkit.architectures.table import Architecture, block, joined, row

STARCODER_2 = Architecture(
    "starcoder2",
    ("Starcoder2ForCausalLM",),
    "starcoder2",
    replaced(
        DECODER,
        f32(
            "attention.layer_norm_epsilon",
            "norm_epsilon",
        ),
    ),
    joined(
        EMBEDDINGS,
        OUTPUT,
        block(
            "model.layers.{i}.",
            NORMS,
            attention(),
            row("mlp.c_fc", "ffn_up", "ff embd"),
            row("mlp.c_proj", "ffn_down", "embd ff"),
        ),
    ),
    defaults=silent(4096, num_key_value_heads=2, rms_norm_eps=None, norm_epsilon=1e-5),
    config=lambda dims, tensor: {
        "hidden_act": "gelu_pytorch_tanh",
        "use_bias": dims.has("blk.0.attn_q.bias"),
    },
)
