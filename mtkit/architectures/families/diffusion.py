"""Models that fill in masks instead of writing on: LLaDA and its experts, Dream, RND1.

Source: llama.cpp, conversion/llada.py, conversion/dream.py, conversion/qwen.py (``RND1Model``).
"""

from __future__ import annotations

from mtkit.architectures.changes import Permuted
from mtkit.architectures.decoder_rows import (
    DECODER,
    HEAD_NORMS,
    NORMS,
    POOLING,
    VOCAB_SIZE,
    attention,
    decoder,
)
from mtkit.architectures.families.qwen2 import EXPERTS, MOE_KEYS, QWEN2
from mtkit.architectures.families.qwen3 import QWEN3_MOE
from mtkit.architectures.metadata import always, computed, u32, with_fields, with_keys
from mtkit.architectures.table import Architecture, block, join_rows, row
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config

_SEES_ALL = always("attention.causal", "bool", False)
_MASK = u32("tokenizer.ggml.mask_token_id", "mask_token_id")
_UNSHIFTED = always("diffusion.shift_logits", "bool", False)
_MASK_OF_LLADA_MOE = 156895


def _llada_head(config: Config) -> int:
    return config.whole("head_dim") or config.count("d_model") // config.count("n_heads")


LLADA = Architecture(
    "llada",
    ("LLaDAModelLM",),
    "llada",
    (
        *with_keys(
            with_fields(
                DECODER,
                block_count="n_layers",
                attention__head_count="n_heads",
                attention__head_count_kv="n_kv_heads",
            ),
            u32("embedding_length", "d_model"),
            u32("feed_forward_length", "mlp_hidden_size"),
            u32("context_length", "max_sequence_length"),
            _SEES_ALL,
        ),
        VOCAB_SIZE,
        POOLING,
        _UNSHIFTED,
        computed("rope.dimension_count", "u32", _llada_head),
    ),
    join_rows(
        row("model.transformer.wte", "token_embd", "vocab embd", bias=False),
        row("model.transformer.ln_f", "output_norm", "embd", bias=False),
        row("model.transformer.ff_out", "output", "vocab embd", bias=False, optional=True),
        block(
            "model.transformer.blocks.{i}.",
            row("attn_norm", "attn_norm", "embd", bias=False),
            row("ff_norm", "ffn_norm", "embd", bias=False),
            row("q_proj", "attn_q", "q embd", Permuted("head")),
            row("k_proj", "attn_k", "k embd", Permuted("head_kv")),
            row("v_proj", "attn_v", "v embd"),
            row("attn_out", "attn_output", "embd out", bias=False),
            row("ff_proj", "ffn_gate", "ff embd", bias=False),
            row("up_proj", "ffn_up", "ff embd", bias=False),
            row("ff_out", "ffn_down", "embd ff", bias=False),
        ),
    ),
    defaults=lambda _: {
        "max_sequence_length": 4096, "d_model": 4096, "mlp_hidden_size": 12288,
        "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
    },
    prefix="",
    config=lambda dims, tensor: {"block_type": "llama", "activation_type": "silu"},
)  # fmt: skip
DREAM = replace(
    QWEN2,
    name="dream",
    classes=("DreamModel",),
    model_type="Dream",
    keys=(*with_keys(QWEN2.keys, _SEES_ALL), _MASK),
)
RND1 = replace(
    QWEN3_MOE,
    name="rnd1",
    classes=("RND1",),
    model_type="rnd1",
    keys=(*with_keys(QWEN3_MOE.keys, _SEES_ALL), _MASK),
)
LLADA_MOE = replace(
    QWEN3_MOE,
    name="llada-moe",
    classes=("LLaDAMoEModelLM", "LLaDAMoEModel"),
    model_type="llada",
    keys=(
        *with_keys(
            MOE_KEYS, _SEES_ALL, u32("expert_feed_forward_length", "expert_intermediate_size")
        ),
        always("tokenizer.ggml.mask_token_id", "u32", _MASK_OF_LLADA_MOE),
        _UNSHIFTED,
    ),
    rows=decoder(NORMS, attention(), HEAD_NORMS, EXPERTS),
)
