"""InternLM 2 and 2.5: a Llama whose queries, keys and values are one matrix, group by group.

Source: llama.cpp, conversion/internlm.py (``InternLM2Model``); the models' own configuration.
"""

from __future__ import annotations

from mtkit.architectures.changes import GroupedQkv, Permuted, Split
from mtkit.architectures.decoder_rows import DECODER, IN_LAYER, config_fields, default_fields, only
from mtkit.architectures.families.lfm2 import DENSE
from mtkit.architectures.table import Architecture, block, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.metadata import Dims

_ROWS, _Q, _K = Split(-2), Permuted("head"), Permuted("head_kv")


class _Wqkv(GroupedQkv):
    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        return super().sources(_ROWS.sources(shapes, count, dims), count, dims)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        q, k, v = _ROWS.forward(super().forward(arrays, shapes, dims), shapes, dims)
        return [*_Q.forward([q], shapes, dims), *_K.forward([k], shapes, dims), v]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        parts = [*_Q.back(arrays[:1], shapes, dims), *_K.back(arrays[1:2], shapes, dims), arrays[2]]
        return super().back(_ROWS.back(parts, shapes, dims), shapes, dims)


_QKV = row("attention.wqkv", "attn_q attn_k attn_v", "q embd, k embd, v embd", _Wqkv(), bias=False)
INTERNLM_2 = Architecture(
    "internlm2",
    ("InternLM2ForCausalLM",),
    "internlm2",
    DECODER,
    join_rows(
        row("model.tok_embeddings", "token_embd", "vocab embd", bias=False),
        row("model.norm", "output_norm", "embd", bias=False),
        row("output", "output", "vocab embd", bias=False),
        block(
            IN_LAYER,
            row("attention_norm", "attn_norm", "embd", bias=False),
            _QKV,
            row("attention.wo", "attn_output", "embd out", bias=False),
            row("ffn_norm", "ffn_norm", "embd", bias=False),
            DENSE,
        ),
    ),
    checks=(only("bias", False),),
    defaults=default_fields(2048, rms_norm_eps=1e-6),
    config=config_fields(hidden_act="silu", bias=False),
)
