"""GLM-4 of April 2025 (GLM-4-0414, GLM-Z1): norms on both sides of attention and feed-forward part.

Source: llama.cpp, conversion/glm.py (``Glm4Model``); transformers, models/glm4.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    END_OF_TURN,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
    rotary_part,
)
from mtkit.architectures.metadata import computed, head_dim, without_keys
from mtkit.architectures.table import Architecture, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config

_KEYS = without_keys(DECODER, "rope.dimension_sections")
"""Sections are of models that see; the positions of a text are the same in all of them."""


def rotary(config: Config) -> int:
    """Return the number of a head's elements that are rotated."""
    share = config.rope().number("partial_rotary_factor")
    if share is None or not 0 <= share <= 1:
        raise config.wrong(f"is {share}, not in the range 0 to 1", "partial_rotary_factor")
    return int(head_dim(config) * share)


GLM_4 = Architecture(
    "glm4",
    ("Glm4ForCausalLM",),
    "glm4",
    (*_KEYS, END_OF_TURN, computed("rope.dimension_count", "u32", rotary)),
    decoder(
        NORMS,
        row("post_self_attn_layernorm", "post_attention_norm", "embd", bias=False),
        row("post_mlp_layernorm", "post_ffw_norm", "embd", bias=False),
        attention()[:-1],  # no bias of the output
        row("mlp.gate_up_proj", "ffn_up", "ff*2 embd", bias=False),
        row("mlp.down_proj", "ffn_down", "embd ff", bias=False),
    ),
    defaults=default_fields(
        131072,
        num_key_value_heads=2,
        head_dim=128,
        partial_rotary_factor=0.5,
        rms_norm_eps=1.5625e-7,
    ),
    config=config_fields(
        hidden_act="silu", attention_bias=ATTENTION_BIAS, partial_rotary_factor=rotary_part
    ),
)
