"""Llama and what is built like it: Mistral, Mixtral.

Source: llama.cpp, conversion/llama.py (``LlamaModel``); transformers, models/llama.
"""

from __future__ import annotations

from mtkit.architectures.changes import Permuted
from mtkit.architectures.keys import DECODER, computed, head_dim, u32
from mtkit.architectures.rope import llama_3_factors, llama_3_scaling
from mtkit.architectures.rows import EMBEDDINGS, FEED_FORWARD, NORMS, OUTPUT, attention, experts
from mtkit.architectures.table import Architecture, Generated, block, joined, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.dims import Dims

LLAMA_3 = Generated("rope_freqs.weight", "rope/2", llama_3_factors)
VOCAB_SIZE = u32("vocab_size", "vocab_size")
KEYS = (*DECODER, VOCAB_SIZE, computed("rope.dimension_count", "u32", head_dim))
ATTENTION = attention(q=Permuted("head"), k=Permuted("head_kv"))
LAYER = "model.layers.{i}."


def defaults(config: Config) -> Mapping[str, Any]:
    """Return what transformers takes where a config.json does not say it."""
    return {
        "rope_theta": 10000.0,
        "rms_norm_eps": 1e-6,
        "max_position_embeddings": 2048,
        "num_key_value_heads": config.get("num_attention_heads"),
    }


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    return {
        "hidden_act": "silu",
        "attention_bias": dims.has("blk.0.attn_q.bias"),
        "mlp_bias": dims.has("blk.0.ffn_up.bias"),
        **llama_3_scaling(dims, tensor("rope_freqs.weight")),
    }


LLAMA = Architecture(
    "llama",
    ("LlamaForCausalLM", "LLaMAForCausalLM"),
    "llama",
    KEYS,
    joined(EMBEDDINGS, OUTPUT, block(LAYER, NORMS, ATTENTION, FEED_FORWARD)),
    defaults=lambda config: {**defaults(config), "head_dim": head_dim(config)},
    generated=(LLAMA_3,),
    config=config,
)
MISTRAL = Architecture(
    "llama", ("MistralForCausalLM",), "mistral", KEYS, LLAMA.rows, defaults=defaults
)
MIXTRAL = Architecture(
    "llama",
    ("MixtralForCausalLM",),
    "mixtral",
    KEYS,
    joined(
        EMBEDDINGS,
        OUTPUT,
        block(
            LAYER,
            NORMS,
            ATTENTION,
            row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd"),
            experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2")),
        ),
    ),
    defaults=defaults,
)
