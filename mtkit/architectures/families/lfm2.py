"""LFM2 and its mixture of experts: layers of short convolutions between those of attention.

Source: llama.cpp, conversion/lfm2.py (``LFM2Model``, ``LFM2MoeModel``); transformers, models/lfm2,
models/lfm2_moe.
"""

from __future__ import annotations

from mtkit.architectures.changes import Reshaped
from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_COUNT,
    EXPERT_FEED_FORWARD,
    IN_LAYER,
    OUTPUT,
    VOCAB_SIZE,
    experts,
    is_dense,
    is_sparse,
    only,
)
from mtkit.architectures.metadata import always, computed, u32, with_fields, with_keys, without_keys
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

SIGMOID = 2
"""Source: gguf-py/gguf/constants.py (``ExpertGatingFuncType``)."""


def _feed_forward(config: Config) -> int:
    width = config.count("block_ff_dim", "intermediate_size")
    if config.flag("block_auto_adjust_ff_dim") is False:
        return width
    width = 2 * width // 3
    factor = config.number("block_ffn_dim_multiplier")
    if factor is not None:
        width = int(factor * width)
    multiple = config.count("block_multiple_of")
    return -(-width // multiple) * multiple


def heads_kv(config: Config) -> list[int]:
    """Return the number of heads of key and value in each layer, 0 for a convolution."""
    heads = config.count("num_key_value_heads")
    return [0 if kind == "conv" else heads for kind in config.kinds_of_layers()]


def defaults(config: Config) -> Mapping[str, Any]:
    """Return transformers' defaults."""
    indexes = config.get("full_attn_idxs")
    kinds: dict[str, Any] = {}
    if isinstance(indexes, list) and config.count("num_hidden_layers") <= 1 << 16:
        layers = range(config.count("num_hidden_layers"))
        kinds["layer_types"] = ["full_attention" if n in indexes else "conv" for n in layers]
    return {
        **kinds,
        "num_key_value_heads": 8,
        "max_position_embeddings": 128000,
        "norm_eps": 1e-5,
        "block_multiple_of": 256,
        "block_ffn_dim_multiplier": 1.0,
        "rope_theta": 1000000.0,
        "conv_L_cache": 3,
    }


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    layers = range(dims.key("block_count"))
    heads = [dims.at(layer)["head_kv"] for layer in layers]
    return {
        "block_auto_adjust_ff_dim": False,
        "conv_bias": False,
        "num_key_value_heads": max(heads, default=0),
        "layer_types": ["full_attention" if count else "conv" for count in heads],
    }


KEYS = (
    *with_fields(
        without_keys(DECODER, "feed_forward_length"), attention__layer_norm_rms_epsilon="norm_eps"
    ),
    computed("attention.head_count_kv", "i32[]", heads_kv),
    VOCAB_SIZE,
    u32("shortconv.l_cache", "conv_L_cache"),
)
LAYER = join_rows(
    row("operator_norm", "attn_norm", "embd", bias=False),
    row("ffn_norm", "ffn_norm", "embd", bias=False),
    in_layers(
        lambda dims: not dims["head_kv"],
        plain(
            "conv.conv.weight", "shortconv.conv.weight", "embd kernel", Reshaped("embd 1 kernel")
        ),
        row("conv.in_proj", "shortconv.in_proj", "3embd embd", bias=False),
        row("conv.out_proj", "shortconv.out_proj", "embd embd", bias=False),
    ),
    in_layers(
        lambda dims: bool(dims["head_kv"]),
        row("self_attn.q_proj", "attn_q", "q embd", bias=False),
        row("self_attn.k_proj", "attn_k", "k embd", bias=False),
        row("self_attn.v_proj", "attn_v", "v embd", bias=False),
        row("self_attn.out_proj", "attn_output", "embd out", bias=False),
        row("self_attn.q_layernorm", "attn_q_norm", "key", bias=False),
        row("self_attn.k_layernorm", "attn_k_norm", "key", bias=False),
    ),
)
DENSE = join_rows(
    row("feed_forward.w1", "ffn_gate", "ff embd", bias=False),
    row("feed_forward.w3", "ffn_up", "ff embd", bias=False),
    row("feed_forward.w2", "ffn_down", "embd ff", bias=False),
)
WHOLE = join_rows(
    row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
    row("model.embedding_norm", "token_embd_norm", "embd", bias=False),
)
DIMS = {
    "kernel": lambda dims: dims.key("shortconv.l_cache"),
    "3embd": lambda dims: 3 * dims["embd"],
}
LFM2 = Architecture(
    "lfm2",
    ("Lfm2ForCausalLM", "LFM2ForCausalLM"),
    "lfm2",
    (
        *KEYS,
        computed("feed_forward_length", "u32", _feed_forward, "intermediate_size"),
    ),
    join_rows(WHOLE, OUTPUT, block(IN_LAYER, LAYER, DENSE)),
    defaults=defaults,
    dims=DIMS,
    config=config,
)


def config_moe(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a mixture of experts do not have."""
    layer = dims.key("leading_dense_block_count")
    biased = dims.has(f"blk.{layer}.exp_probs_b.bias")
    return {**config(dims, tensor), "use_expert_bias": biased, "norm_topk_prob": True}


LFM2_MOE = Architecture(
    "lfm2moe",
    ("Lfm2MoeForCausalLM",),
    "lfm2_moe",
    (
        *with_keys(KEYS, EXPERT_COUNT, u32("feed_forward_length", "intermediate_size")),
        EXPERT_FEED_FORWARD,
        u32("leading_dense_block_count", "num_dense_layers"),
        always("expert_gating_func", "u32", SIGMOID),
    ),
    join_rows(
        WHOLE,
        block(IN_LAYER, LAYER, in_layers(is_dense, DENSE)),
        block(
            "model.layers.{i}.feed_forward.",
            in_layers(
                is_sparse,
                row("gate", "ffn_gate_inp", "expert embd", bias=False),
                plain("expert_bias", "exp_probs_b.bias", "expert", optional=True),
                experts("experts.{e}", ("w1", "w3", "w2")),
            ),
        ),
    ),
    checks=(only("norm_topk_prob", True), only("routed_scaling_factor", 1.0, 1)),
    defaults=lambda config: {**defaults(config), "num_dense_layers": 2},
    dims=DIMS,
    config=config_moe,
)
