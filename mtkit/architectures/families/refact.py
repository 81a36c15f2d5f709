"""Refact.

Source: llama.cpp, conversion/refact.py (``RefactModel``).
"""

from __future__ import annotations

from mtkit.architectures.changes import Split
from mtkit.architectures.decoder_rows import OUTPUT
from mtkit.architectures.families.gpt2 import KEYS
from mtkit.architectures.metadata import always, computed, f32, pick_keys, with_keys
from mtkit.architectures.table import Architecture, block, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config


def _width(config: Config) -> int:
    return -(-int(8 * config.count("n_embd") / 3) // 256) * 256


REFACT = Architecture(
    "refact",
    ("GPTRefactForCausalLM",),
    "gpt_refact",
    (
        *with_keys(
            pick_keys(
                KEYS, "block_count", "context_length", "embedding_length", "attention.head_count"
            ),
            computed("feed_forward_length", "u32", _width),
            always("attention.head_count_kv", "u32", 1),
        ),
        f32("attention.layer_norm_rms_epsilon", "layer_norm_epsilon"),
    ),
    join_rows(
        row("transformer.wte", "token_embd", "vocab embd", bias=False),
        row("transformer.ln_f", "output_norm", "embd", bias=False),
        OUTPUT,
        block(
            "transformer.h.{i}.",
            row("ln_1", "attn_norm", "embd", bias=False),
            row("attn.q", "attn_q", "q embd", bias=False),
            plain("attn.kv.weight", "attn_k.weight attn_v.weight", "k embd, v embd", Split(-2)),
            row("attn.c_proj", "attn_output", "embd out", bias=False),
            row("ln_2", "ffn_norm", "embd", bias=False),
            plain(
                "mlp.gate_up_proj.weight", "ffn_gate.weight ffn_up.weight",
                "ff embd, ff embd", Split(-2),
            ),
            row("mlp.c_proj", "ffn_down", "embd ff", bias=False),
        ),
    ),
    defaults=lambda _: {"n_positions": 4096, "layer_norm_epsilon": 1e-5},
    prefix="transformer.",
    config=lambda dims, tensor: {"multi_query": True},
)  # fmt: skip
