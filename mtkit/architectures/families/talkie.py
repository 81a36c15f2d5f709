"""Talkie: a gain for each head of queries, each half of a layer, and the logits.

llama.cpp turns rotary pairs the other way, so the second half of each head changes its sign.
Source: llama.cpp, conversion/talkie.py (``TalkieModel``).
"""

from __future__ import annotations

from mtkit.architectures.changes import Change, Reshaped
from mtkit.architectures.decoder_rows import DECODER, default_fields
from mtkit.architectures.metadata import always, with_keys
from mtkit.architectures.table import Architecture, LayerNumber, block, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shapes
    from mtkit.architectures.metadata import Dims


class _Turned(Change):
    """Rows of heads, of which the second half changes its sign."""

    computes = True
    keeps_order = False

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Change the signs."""
        (array,) = arrays
        heads = array.reshape(-1, dims["key"], array.shape[-1]).copy()
        heads[:, dims["key"] // 2 :] *= -1
        return [heads.reshape(array.shape)]

    back = forward


_EPSILON = 2.0**-23
"""That of float32, which torch takes where none is given."""
TALKIE = Architecture(
    "talkie",
    ("TalkieForCausalLM",),
    "talkie",
    with_keys(DECODER, always("attention.layer_norm_rms_epsilon", "f32", _EPSILON)),
    join_rows(
        row("model.embed", "token_embd", "vocab embd", bias=False),
        plain("lm_head", "output.weight", "vocab embd"),
        block(
            "model.blocks.{i}.",
            row("attn.attn_query", "attn_q", "q embd", _Turned(), bias=False),
            row("attn.attn_key", "attn_k", "k embd", _Turned(), bias=False),
            row("attn.attn_value", "attn_v", "v embd", bias=False),
            row("attn.attn_resid", "attn_output", "embd out", bias=False),
            plain("attn.head_gain.head_g", "attn_q_norm.weight", "head 1", Reshaped("head")),
            plain("attn_gain.a_g", "attn_output.scale", "1"),
            row("mlp.mlp_gate", "ffn_gate", "ff embd", bias=False),
            row("mlp.mlp_linear", "ffn_up", "ff embd", bias=False),
            row("mlp.mlp_resid", "ffn_down", "embd ff", bias=False),
            plain("mlp_gain.a_g", "ffn_down.scale", "1"),
            plain("embed_skip.a_g", "layer_output_scale.weight", "1"),
        ),
    ),
    layer_numbers=(LayerNumber("talkie.logit_scale", "lm_head_gain.w_g", "1"),),
    defaults=default_fields(2048, num_key_value_heads=None),
)
