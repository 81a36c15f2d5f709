"""DBRX.

Source: llama.cpp, conversion/dbrx.py (``DbrxModel``); transformers, models/dbrx.
"""

from __future__ import annotations

from mtkit.architectures.changes import Change
from mtkit.architectures.decoder_rows import OUTPUT
from mtkit.architectures.metadata import KeyRow, always, computed, u32
from mtkit.architectures.table import Architecture, block, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

    Shape = tuple[int, ...]


class _Stacked(Change):
    """The rows of all experts in one matrix; those of w2 are transposed."""

    keeps_order = False

    def __init__(self, *, transposed: bool = False) -> None:
        self._transposed = transposed

    def sources(self, shapes: Sequence[Shape], count: int, dims: Dims) -> list[Shape]:
        """Return the shape of the matrix."""
        experts, *shape = shapes[0]
        rows, columns = reversed(shape) if self._transposed else shape
        return [(experts * rows, columns)]

    def forward(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Part the experts."""
        experts, *shape = shapes[0]
        rows, columns = reversed(shape) if self._transposed else shape
        array = arrays[0].reshape(experts, rows, columns)
        return [array.swapaxes(1, 2) if self._transposed else array]

    def back(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Join the experts."""
        array = arrays[0].swapaxes(1, 2) if self._transposed else arrays[0]
        return [array.reshape(shapes[0])]


class _Narrowed(Change):
    """The converter quantizes the router of this model alone."""

    narrows = True


def _inner(table: str, name: str, kind: str, field: str) -> KeyRow:
    def value(config: Config) -> float | int | None:
        inner = config.table(table)
        return inner.whole(field) if kind == "u32" else inner.number(field)

    return computed(name, kind, value, lambda value: {table: {field: value}})


DBRX = Architecture(
    "dbrx",
    ("DbrxForCausalLM",),
    "dbrx",
    (
        u32("block_count", "n_layers"),
        u32("context_length", "max_seq_len"),
        u32("embedding_length", "d_model"),
        u32("attention.head_count", "n_heads"),
        always("attention.layer_norm_epsilon", "f32", 1e-5),
        _inner("ffn_config", "feed_forward_length", "u32", "ffn_hidden_size"),
        _inner("attn_config", "attention.head_count_kv", "u32", "kv_n_heads"),
        _inner("attn_config", "rope.freq_base", "f32", "rope_theta"),
        _inner("attn_config", "attention.clamp_kqv", "f32", "clip_qkv"),
        _inner("ffn_config", "expert_count", "u32", "moe_num_experts"),
        _inner("ffn_config", "expert_used_count", "u32", "moe_top_k"),
    ),
    join_rows(
        row("transformer.wte", "token_embd", "vocab embd", bias=False),
        row("transformer.norm_f", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            "transformer.blocks.{i}.",
            row("norm_attn_norm.norm_1", "attn_norm", "embd", bias=False),
            row("norm_attn_norm.attn.Wqkv", "attn_qkv", "qkv embd", bias=False),
            row("norm_attn_norm.attn.out_proj", "attn_output", "embd out", bias=False),
            row("norm_attn_norm.norm_2", "attn_output_norm", "embd", bias=False),
            row("ffn.router.layer", "ffn_gate_inp", "expert embd", _Narrowed(), bias=False),
            plain("ffn.experts.mlp.w1", "ffn_gate_exps.weight", "expert ff embd", _Stacked()),
            plain("ffn.experts.mlp.v1", "ffn_up_exps.weight", "expert ff embd", _Stacked()),
            plain(
                "ffn.experts.mlp.w2", "ffn_down_exps.weight", "expert embd ff",
                _Stacked(transposed=True),
            ),
        ),
    ),
    defaults=lambda _: {
        "max_seq_len": 2048,
        "attn_config": {"kv_n_heads": 1, "rope_theta": 10000.0},
        "ffn_config": {"ffn_hidden_size": 3584, "moe_num_experts": 4, "moe_top_k": 1},
    },
    prefix="transformer.",
)  # fmt: skip
