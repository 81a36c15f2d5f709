"""Chameleon, text alone.

Source: llama.cpp, conversion/chameleon.py (``ChameleonModel``); transformers, models/chameleon.
"""

from __future__ import annotations

from mtkit.architectures.changes import Change
from mtkit.architectures.decoder_rows import FEED_FORWARD, NORMS, decoder, default_fields
from mtkit.architectures.families.llama import ATTENTION, LLAMA
from mtkit.architectures.metadata import computed, without_keys
from mtkit.architectures.table import row
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.architectures.metadata import Dims

    Shape = tuple[int, ...]


class _FirstHead(Change):
    """The norm of the first head for all of them, its rotary pairs as neighbors.

    Published models have the same norm in each head.
    """

    keeps_order = False

    def forward(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Bring the two elements of a pair together."""
        import numpy as np

        heads, width = shapes[0]
        pairs = arrays[0][0].reshape(2, width // 2).T.reshape(1, width)
        return [np.repeat(pairs, heads, 0)]

    def back(self, arrays: Sequence[Any], shapes: Sequence[Shape], dims: Dims) -> list[Any]:
        """Take the two elements of a pair apart."""
        heads, width = shapes[0]
        return [arrays[0].reshape(heads, width // 2, 2).swapaxes(1, 2).reshape(heads, width)]


CHAMELEON = replace(
    LLAMA,
    name="chameleon",
    classes=("ChameleonForConditionalGeneration", "ChameleonForCausalLM"),
    model_type="chameleon",
    keys=(
        *without_keys(LLAMA.keys, "vocab_size", "rope.dimension_count"),
        computed("swin_norm", "bool", lambda config: config.flag("swin_norm") or False,
                 "swin_norm"),
    ),
    rows=decoder(
        NORMS,
        ATTENTION,
        row("self_attn.q_norm", "attn_q_norm", "head key", _FirstHead()),
        row("self_attn.k_norm", "attn_k_norm", "head_kv key", _FirstHead()),
        FEED_FORWARD,
    ),
    defaults=default_fields(4096, rms_norm_eps=1e-5),
    generated=(),
    skips=lambda name, config: name.startswith("model.vqmodel"),
    config=lambda dims, tensor: {"hidden_act": "silu"},
)  # fmt: skip
