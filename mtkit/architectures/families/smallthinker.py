"""SmallThinker, whose router reads what attention reads.

Source: llama.cpp, conversion/smallthinker.py (``SmallThinkerModel``).
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    DECODER,
    NORMS,
    attention,
    decoder,
    default_fields,
    experts,
)
from mtkit.architectures.metadata import computed, u32, with_keys
from mtkit.architectures.table import Architecture, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config

_SOFTMAX, _SIGMOID = 1, 2


def _gating(config: Config) -> int:
    return _SOFTMAX if config.flag("moe_primary_router_apply_softmax") else _SIGMOID


def _window(config: Config) -> int | None:
    layout = config.get("sliding_window_layout")
    slides = isinstance(layout, list) and any(layout)
    return (config.whole("sliding_window_size") or None) if slides else None


SMALLTHINKER = Architecture(
    "smallthinker",
    ("SmallThinkerForCausalLM",),
    "smallthinker",
    (
        *with_keys(
            DECODER,
            u32("expert_count", "moe_num_primary_experts"),
            u32("expert_used_count", "moe_num_active_primary_experts"),
            u32("feed_forward_length", "moe_ffn_hidden_size"),
            computed(
                "expert_gating_func",
                "u32",
                _gating,
                lambda value: {"moe_primary_router_apply_softmax": value == _SOFTMAX},
            ),
        ),
        u32("expert_feed_forward_length", "moe_ffn_hidden_size"),
        computed("attention.sliding_window", "u32", _window, "sliding_window_size"),
    ),
    decoder(
        NORMS,
        attention(),
        row("block_sparse_moe.primary_router", "ffn_gate_inp", "expert embd", bias=False),
        experts("block_sparse_moe.experts.{e}", ("gate", "up", "down")),
    ),
    defaults=default_fields(32768, rms_norm_eps=1e-6),
    # llama.cpp knows which layers have a window: three of four.
    config=lambda dims, tensor: {
        "sliding_window_layout": [
            int("attention.sliding_window" in dims.keys and layer % 4 != 0)
            for layer in range(dims.key("block_count"))
        ]
    },
)
