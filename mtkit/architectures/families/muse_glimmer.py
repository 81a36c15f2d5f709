"""The text part of Muse Glimmer: queries and keys of one length, which the metadata do not have.

Source: llama.cpp, conversion/muse_glimmer.py (``MuseGlimmerModel``); transformers,
models/muse_glimmer.
"""

from __future__ import annotations

from mtkit.architectures.changes import PLUS_ONE, Permuted
from mtkit.architectures.decoder_rows import (
    DECODER,
    EMBEDDINGS,
    FEED_FORWARD,
    IN_LAYER,
    OUTPUT,
    SLIDING_WINDOW,
    attention,
    default_fields,
    layer_types,
)
from mtkit.architectures.metadata import f32
from mtkit.architectures.table import Architecture, block, join_rows, row
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Rows

    Shape = tuple[int, ...]


class _WithNorms(Permuted):
    """The projection of queries, with norms of a head of queries and of keys made of a number."""

    computes = True
    moves_rows = False

    def __init__(self, scale: float) -> None:
        super().__init__("head")
        self._scale = scale

    def sources(self, shapes: Sequence[Shape], count: int, dims: Dims) -> list[Shape]:
        """Return the shape of the projection."""
        return super().sources(shapes[:1], 1, dims)

    def forward(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Add the norms."""
        import numpy as np

        norms = (np.full(shapes[1], self._scale, np.float32), np.ones(shapes[2], np.float32))
        return [*super().forward(arrays, shapes, dims), *norms]

    def back(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Leave the norms out."""
        return super().back(arrays[:1], shapes, dims)


def _rows(scale: float) -> Rows:
    projections = attention(q=Permuted("head"), k=Permuted("head_kv"))
    queries = "attn_q.weight", "attn_q_norm.weight", "attn_k_norm.weight"
    return join_rows(
        EMBEDDINGS[:2],
        OUTPUT,
        block(
            IN_LAYER,
            row("input_layernorm", "attn_norm", "embd", PLUS_ONE, bias=False),
            row("post_attention_layernorm", "post_attention_norm", "embd", PLUS_ONE, bias=False),
            row("pre_feedforward_layernorm", "ffn_norm", "embd", PLUS_ONE, bias=False),
            row("post_feedforward_layernorm", "post_ffw_norm", "embd", PLUS_ONE, bias=False),
            (
                replace(
                    projections[0],
                    gguf=queries,
                    axes=("q embd", "key", "key"),
                    change=_WithNorms(scale),
                ),
            ),
            projections[1:],
            row("self_attn.gate_proj", "attn_gate", "out embd", bias=False),
            FEED_FORWARD,
        ),
    )


def _scaled_rows(config: Config) -> Rows:
    return _rows(config.number("qk_scale_factor") or 1.0)


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    norm = tensor("blk.0.attn_q_norm.weight")
    return {"hidden_act": "silu", "qk_scale_factor": 1.0 if norm is None else float(norm[0])}


MUSE_GLIMMER = Architecture(
    "muse-glimmer",
    ("MuseGlimmerForConditionalGeneration",),
    "muse_glimmer_text",
    (
        *DECODER,
        f32("final_logit_softcapping", "final_logit_softcapping"),
        f32("logit_scale", "output_multiplier"),
        SLIDING_WINDOW,
        layer_types(lambda _: False),
    ),
    _rows(1.0),
    defaults=default_fields(131072, rms_norm_eps=1e-5),
    rows_of=_scaled_rows,
    config=_config,
)
