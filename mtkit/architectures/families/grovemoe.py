"""GroveMoE: Qwen3's experts, two of which share a small one.

Source: llama.cpp, conversion/grovemoe.py (``GroveMoeModel``).
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import IN_LAYER
from mtkit.architectures.families.qwen3 import QWEN3_MOE
from mtkit.architectures.metadata import always, computed
from mtkit.architectures.table import block, join_rows, row
from mtkit.base.record import replace

_GROUP = 2
GROVE_MOE = replace(
    QWEN3_MOE,
    name="grovemoe",
    classes=("GroveMoeForCausalLM", "modeling_grove_moe.GroveMoeForCausalLM"),
    model_type="grove_moe",
    keys=(
        *QWEN3_MOE.keys,
        computed(
            "expert_chunk_feed_forward_length",
            "u32",
            lambda config: config.whole("head_dim") or 128,
        ),
        always("experts_per_group", "u32", _GROUP),
        always("expert_group_scale", "f32", 0.05),
    ),
    rows=join_rows(
        QWEN3_MOE.rows,
        block(
            f"{IN_LAYER}mlp.chunk_experts.{{c}}.",
            row("gate_proj", "ffn_gate_chexps", "chunk ff_chunk embd", bias=False),
            row("up_proj", "ffn_up_chexps", "chunk ff_chunk embd", bias=False),
            row("down_proj", "ffn_down_chexps", "chunk embd ff_chunk", bias=False),
        ),
    ),
    dims={
        "chunk": lambda dims: dims["expert"] // _GROUP,
        "ff_chunk": lambda dims: dims.key("expert_chunk_feed_forward_length"),
    },
    # A bias of experts that its model does not use.
    skips=lambda name, config: name.endswith(".expert_bias"),
)
