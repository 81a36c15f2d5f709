"""The text part of CogVLM.

As llama.cpp's converter has it: the experts for pictures stay out, as those of the vision part.
Source: llama.cpp, conversion/cogvlm.py (``CogVLMModel``).
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import NORMS, decoder
from mtkit.architectures.families.llama import DEFAULTS, LLAMA
from mtkit.architectures.table import row
from mtkit.base.record import replace

COGVLM = replace(
    LLAMA,
    name="cogvlm",
    classes=("CogVLMForCausalLM",),
    model_type="cogvlm",
    rows=decoder(
        NORMS,
        row("self_attn.language_expert_query_key_value", "attn_qkv", "qkv embd", bias=False),
        row("self_attn.language_expert_dense", "attn_output", "embd out", bias=False),
        row("mlp.language_mlp.gate_proj", "ffn_gate", "ff embd", bias=False),
        row("mlp.language_mlp.up_proj", "ffn_up", "ff embd", bias=False),
        row("mlp.language_mlp.down_proj", "ffn_down", "embd ff", bias=False),
    ),
    defaults=DEFAULTS,
    generated=(),
    config=lambda dims, tensor: {"hidden_act": "silu"},
)
