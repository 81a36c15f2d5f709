"""DeepSeek V4: compressed keys and values, experts in 4 bits, and hyper-connections.

Keys and values of several tokens become one in layers with a ``compressor``; where that is of four
tokens, an indexer picks among them. The first layers look the experts of a token up by its id. The
names are those of DeepSeek's own code, and every matrix keeps the type that it was published in:
experts MXFP4, FP8 as Q8_0, the others BF16 or F32.
Source: llama.cpp, conversion/deepseek.py (``DeepseekV4Model``); transformers, models/deepseek_v4.
"""

from __future__ import annotations

from mtkit.architectures.changes import TO_I32
from mtkit.architectures.decoder_rows import (
    DECODER,
    EXPERT_FEED_FORWARD,
    SLIDING_WINDOW,
    default_fields,
    experts,
)
from mtkit.architectures.expert_rows import shared_width
from mtkit.architectures.families.deepseek_sparse import INDEXER_DIMS, INDEXER_KEYS
from mtkit.architectures.metadata import computed, f32, flag, u32, with_keys
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, keeping, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow
    from mtkit.architectures.table import Rows

_RATIOS = "attention.compress_ratios"
_PAIRED = 4
"""A compressor of so many tokens takes those of two windows, and has an indexer."""


def _ratios(config: Config) -> list[int]:
    ratios = config.get("compress_ratios")
    layers = config.count("num_hidden_layers")
    sound = isinstance(ratios, list) and all(type(n) is int and 0 <= n < 1 << 20 for n in ratios)
    if not sound or len(ratios) < layers:
        raise config.wrong(f"is not a list of {layers} whole numbers", "compress_ratios")
    return list(ratios)


def _limits(key: str) -> KeyRow:
    def value(config: Config) -> list[float]:
        return [config.number("swiglu_limit") or 0.0] * config.count("num_hidden_layers")

    return computed(key, "f32[]", value, lambda limits: {"swiglu_limit": limits[0]})


def _ratio(dims: Dims) -> int:
    return dims.key(_RATIOS, 0)


def _is_hashed(dims: Dims) -> bool:
    return dims.layer < dims.key("hash_layer_count")


def _mixing(folder: str, gguf: str) -> Rows:
    """Return what joins the streams of a layer before one of its halves, and parts them after."""
    return join_rows(
        plain(f"{folder}_fn", f"{gguf}_fn.weight", "mix streams"),
        plain(f"{folder}_base", f"{gguf}_base.weight", "mix"),
        plain(f"{folder}_scale", f"{gguf}_scale.weight", "3"),
    )


def _compressor(folder: str, gguf: str, width: str, norm: str) -> Rows:
    return join_rows(
        plain(f"{folder}.ape", f"{gguf}_ape.weight", f"ratio {width}"),
        row(f"{folder}.wkv", f"{gguf}_kv", f"{width} embd", bias=False),
        row(f"{folder}.wgate", f"{gguf}_gate", f"{width} embd", bias=False),
        row(f"{folder}.norm", f"{gguf}_norm", norm, bias=False),
    )


_ATTENTION = join_rows(
    plain("attn.attn_sink", "attn_sinks.weight", "head"),
    row("attn.wq_a", "attn_q_a", "q_rank embd", bias=False),
    row("attn.q_norm", "attn_q_a_norm", "q_rank", bias=False),
    row("attn.wq_b", "attn_q_b", "q q_rank", bias=False),
    row("attn.wkv", "attn_kv", "key embd", bias=False),
    row("attn.kv_norm", "attn_kv_a_norm", "key", bias=False),
    row("attn.wo_a", "attn_output_a", "out_low group_out", bias=False),
    row("attn.wo_b", "attn_output_b", "embd out_low", bias=False),
    in_layers(
        lambda dims: _ratio(dims) > 0,
        _compressor("attn.compressor", "attn_compressor", "pooled", "key"),
    ),
    in_layers(
        lambda dims: _ratio(dims) == _PAIRED,
        row("attn.indexer.wq_b", "indexer.attn_q_b", "index_q q_rank", bias=False),
        row("attn.indexer.weights_proj", "indexer.proj", "index_heads embd", bias=False),
        _compressor(
            "attn.indexer.compressor", "indexer_compressor", "index_pooled", "index_key"
        ),
    ),
)  # fmt: skip
_EXPERTS = join_rows(
    row("ffn.gate", "ffn_gate_inp", "expert embd", bias=False),
    in_layers(
        _is_hashed,
        plain("ffn.gate.tid2eid", "ffn_gate_tid2eid.weight", "vocab expert_used", TO_I32),
    ),
    in_layers(
        lambda dims: not _is_hashed(dims),
        plain("ffn.gate.bias", "exp_probs_b.bias", "expert"),
    ),
    plain("ffn.gate.bias_vl", "exp_probs_b_vl.bias", "expert", optional=True),
    experts("ffn.experts.{e}", ("w1", "w3", "w2")),
    row("ffn.shared_experts.w1", "ffn_gate_shexp", "ff_shexp embd", bias=False),
    row("ffn.shared_experts.w2", "ffn_down_shexp", "embd ff_shexp", bias=False),
    row("ffn.shared_experts.w3", "ffn_up_shexp", "ff_shexp embd", bias=False),
)


def _skips(name: str, config: Config) -> bool:
    if name.startswith(("mtp.", "aligner.", "image_", "vision.")):
        return True
    parts = name.split(".")  # experts that are looked up are not weighed
    is_bias = parts[:1] == ["layers"] and parts[2:] == ["ffn", "gate", "bias"]
    is_bias = is_bias and parts[1].isdecimal() and len(parts[1]) < 10
    return is_bias and int(parts[1]) < config.count("num_hash_layers")


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        "hidden_act": "silu",
        "attention_bias": False,
        "topk_method": "noaux_tc",
        "num_nextn_predict_layers": 0,
    }


DEEPSEEK_4 = Architecture(
    "deepseek4",
    ("DeepseekV4ForCausalLM",),
    "deepseek_v4",
    (
        *with_keys(
            DECODER,
            u32("expert_count", "n_routed_experts"),
            EXPERT_FEED_FORWARD,
        ),
        u32("rope.dimension_count", "qk_rope_head_dim"),
        u32("attention.q_lora_rank", "q_lora_rank"),
        SLIDING_WINDOW,
        u32("expert_shared_count", "n_shared_experts"),
        f32("expert_weights_scale", "routed_scaling_factor"),
        flag("expert_weights_norm", "norm_topk_prob"),
        _limits("swiglu_clamp_exp"),
        _limits("swiglu_clamp_shexp"),
        *INDEXER_KEYS,
        u32("attention.output_group_count", "o_groups"),
        u32("attention.output_lora_rank", "o_lora_rank"),
        computed(_RATIOS, "i32[]", _ratios, "compress_ratios"),
        f32("attention.compress_rope_freq_base", "compress_rope_theta"),
        u32("hyper_connection.count", "hc_mult"),
        u32("hyper_connection.sinkhorn_iterations", "hc_sinkhorn_iters"),
        f32("hyper_connection.epsilon", "hc_eps"),
        u32("hash_layer_count", "num_hash_layers"),
        computed(
            "embedding_length_out",
            "u32",
            lambda config: config.count("hidden_size") * config.count("hc_mult"),
        ),
    ),
    keeping(
        row("embed", "token_embd", "vocab embd", bias=False),
        row("norm", "output_norm", "embd", bias=False),
        row("head", "output", "vocab embd", bias=False),
        plain("hc_head_fn", "output_hc_fn.weight", "stream streams"),
        plain("hc_head_base", "output_hc_base.weight", "stream"),
        plain("hc_head_scale", "output_hc_scale.weight", "1"),
        block(
            "layers.{i}.",
            row("attn_norm", "attn_norm", "embd", bias=False),
            row("ffn_norm", "ffn_norm", "embd", bias=False),
            _mixing("hc_attn", "hc_attn"),
            _mixing("hc_ffn", "hc_ffn"),
            _ATTENTION,
            _EXPERTS,
        ),
    ),
    prefix="",
    skips=_skips,
    defaults=default_fields(
        1048576,
        rms_norm_eps=1e-6,
        num_key_value_heads=1,
        scoring_func="sqrtsoftplus",
        norm_topk_prob=True,
        n_shared_experts=1,
        routed_scaling_factor=1.5,
        swiglu_limit=10.0,
        num_hash_layers=3,
        compress_rope_theta=160000.0,
        hc_mult=4,
        hc_sinkhorn_iters=20,
        hc_eps=1e-6,
    ),
    dims={
        **INDEXER_DIMS,
        "q_rank": lambda dims: dims.key("attention.q_lora_rank"),
        "out_low": lambda dims: (
            dims.key("attention.output_group_count") * dims.key("attention.output_lora_rank")
        ),
        "group_out": lambda dims: dims["q"] // max(dims.key("attention.output_group_count"), 1),
        "stream": lambda dims: dims.key("hyper_connection.count"),
        "streams": lambda dims: dims["stream"] * dims["embd"],
        "mix": lambda dims: dims["stream"] * (dims["stream"] + 2),
        "ratio": _ratio,
        "windows": lambda dims: 2 if _ratio(dims) == _PAIRED else 1,
        "pooled": lambda dims: dims["windows"] * dims["key"],
        "index_pooled": lambda dims: 2 * dims["index_key"],
        "expert_used": lambda dims: dims.key("expert_used_count"),
        "ff_exp": lambda dims: dims.key("expert_feed_forward_length"),
        "ff_shexp": shared_width,
    },
    config=_config,
)
