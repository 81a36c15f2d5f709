"""Llama and what is built like it: Mistral, Mixtral.

Source: llama.cpp, conversion/llama.py (``LlamaModel``); transformers, models/llama.
"""

from __future__ import annotations

from mtkit.architectures.changes import Permuted
from mtkit.architectures.decoder_rows import (
    DECODER,
    FEED_FORWARD,
    NORMS,
    VOCAB_SIZE,
    attention,
    decoder,
    default_fields,
    experts,
)
from mtkit.architectures.metadata import computed, head_dim
from mtkit.architectures.rope import llama_3_factors, llama_3_scaling
from mtkit.architectures.table import Architecture, Generated, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.metadata import Dims

LLAMA_3 = Generated("rope_freqs.weight", "rope/2", llama_3_factors)
KEYS = (*DECODER, VOCAB_SIZE, computed("rope.dimension_count", "u32", head_dim))
ATTENTION = attention(q=Permuted("head"), k=Permuted("head_kv"))
DEFAULTS = default_fields(2048, rms_norm_eps=1e-6)


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
    ("LlamaForCausalLM", "LLaMAForCausalLM", "LlamaModel"),
    "llama",
    KEYS,
    decoder(NORMS, ATTENTION, FEED_FORWARD),
    defaults=default_fields(2048, rms_norm_eps=1e-6, head_dim=head_dim),
    generated=(LLAMA_3,),
    config=config,
)
LLAMA_EMBED = Architecture(
    "llama-embed",
    ("LlamaBidirectionalModel",),
    "llama_bidirec",
    KEYS,
    LLAMA.rows,
    defaults=LLAMA.defaults,
    generated=(LLAMA_3,),
    config=config,
)
MISTRAL = Architecture(
    "llama", ("MistralForCausalLM",), "mistral", KEYS, LLAMA.rows, defaults=DEFAULTS
)
MIXTRAL = Architecture(
    "llama",
    ("MixtralForCausalLM",),
    "mixtral",
    KEYS,
    decoder(
        NORMS,
        ATTENTION,
        row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd"),
        experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2")),
    ),
    defaults=DEFAULTS,
)
