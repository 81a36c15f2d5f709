"""GPT-2 and what is built like it: GPTBigCode (StarCoder, SantaCoder).

Source: llama.cpp, conversion/gpt2.py (``GPT2Model``), conversion/starcoder.py
(``StarCoderModel``); transformers, models/gpt2, models/gpt_bigcode.
"""

from __future__ import annotations

from mtkit.architectures.changes import SAME, Transposed
from mtkit.architectures.decoder_rows import DECODER, OUTPUT, config_fields, only
from mtkit.architectures.metadata import always, computed, with_fields, without_keys
from mtkit.architectures.table import Architecture, block, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.architectures.changes import Change
    from mtkit.architectures.config import Config
    from mtkit.architectures.table import Rows


def rows(change: Change) -> Rows:
    """Return the tensors; projections are changed."""
    return join_rows(
        row("transformer.wte", "token_embd", "vocab embd", bias=False),
        row("transformer.wpe", "position_embd", "ctx embd", bias=False),
        row("transformer.ln_f", "output_norm", "embd"),
        OUTPUT,
        block(
            "transformer.h.{i}.",
            row("ln_1", "attn_norm", "embd"),
            row("attn.c_attn", "attn_qkv", "qkv embd", change),
            row("attn.c_proj", "attn_output", "embd embd", change),
            row("ln_2", "ffn_norm", "embd"),
            row("mlp.c_fc", "ffn_up", "ff embd", change),
            row("mlp.c_proj", "ffn_down", "embd ff", change),
        ),
    )


def defaults(config: Config) -> Mapping[str, Any]:
    """Return transformers' defaults."""
    return {
        "n_positions": 1024,
        "n_embd": 768,
        "n_layer": 12,
        "n_head": 12,
        "layer_norm_epsilon": 1e-5,
    }


KEYS = (
    *with_fields(
        without_keys(DECODER, "feed_forward_length", "attention.head_count_kv"),
        block_count="n_layer",
        context_length="n_positions",
        embedding_length="n_embd",
        attention__head_count="n_head",
        attention__layer_norm_epsilon="layer_norm_epsilon",
    ),
    computed(
        "feed_forward_length",
        "u32",
        lambda config: config.whole("n_inner") or 4 * config.count("hidden_size", "n_embd"),
        "n_inner",
    ),
)
CHECKS = (only("scale_attn_by_inverse_layer_idx", False),)
GPT2 = Architecture(
    "gpt2",
    ("GPT2LMHeadModel",),
    "gpt2",
    KEYS,
    rows(Transposed()),
    checks=CHECKS,
    prefix="transformer.",
    defaults=defaults,
    config=config_fields(activation_function="gelu_new", n_ctx=lambda dims: dims["ctx"]),
)
GPT_BIGCODE = Architecture(
    "starcoder",
    ("GPTBigCodeForCausalLM",),
    "gpt_bigcode",
    (*KEYS, always("attention.head_count_kv", "u32", 1)),
    rows(SAME),
    checks=(*CHECKS, only("multi_query", True)),
    prefix="transformer.",
    defaults=defaults,
    config=config_fields(activation_function="gelu_pytorch_tanh", multi_query=True),
)
