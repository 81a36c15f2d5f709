"""T5, Flan-T5, mT5, UMT5, and the encoder alone.

Source: llama.cpp, conversion/t5.py (``T5Model``, ``T5EncoderModel``); transformers, models/t5,
models/mt5, models/umt5.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import OUTPUT, only
from mtkit.architectures.metadata import f32, u32, without_keys
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Rows

_EPSILON = "layer_norm_epsilon"
SHARED = ("shared.weight", "encoder.embed_tokens.weight", "decoder.embed_tokens.weight")
"""Names of the embedding; of several that are there the first counts."""


def _gated(dims: Dims) -> bool:
    name = "encoder.block.0.layer.1.DenseReluDense.wi_0.weight"
    return dims.has(name, "enc.blk.0.ffn_gate.weight")


def _layers(key: str, first: bool | None = None) -> Callable[[Dims], bool]:
    return lambda dims: dims.layer < dims.key(key) and first in (None, not dims.layer)


def _attention(folder: str, gguf: str) -> Rows:
    return join_rows(
        row(f"{folder}.q", f"{gguf}_q", "q embd", bias=False),
        row(f"{folder}.k", f"{gguf}_k", "k embd", bias=False),
        row(f"{folder}.v", f"{gguf}_v", "v embd", bias=False),
        row(f"{folder}.o", f"{gguf}_o", "embd out", bias=False),
    )


def _stack(name: str, gguf: str, count: str, feed_forward: int, *more: Rows) -> Rows:
    """Return the layers of encoder or decoder; the first has the bias of positions."""
    start, norm = f"{name}.block.{{i}}.layer.", f"{name}.final_layer_norm"
    bias, gguf_layer = "0.SelfAttention.relative_attention_bias", f"{gguf}.blk.{{i}}."
    wide, inner = f"{feed_forward}.DenseReluDense", _layers(count)

    def part(layers: Callable[[Dims], bool], *rows: Rows) -> Rows:
        return in_layers(layers, block(start, *rows, gguf=gguf_layer))

    def biased(*, optional: bool) -> Rows:
        return row(bias, "attn_rel_b", "buckets head", bias=False, optional=optional)

    return join_rows(
        part(
            inner,
            row("0.layer_norm", "attn_norm", "embd", bias=False),
            _attention("0.SelfAttention", "attn"),
            *more,
            row(f"{feed_forward}.layer_norm", "ffn_norm", "embd", bias=False),
            row(f"{wide}.wo", "ffn_down", "embd ff", bias=False),
        ),
        part(_layers(count, True), biased(optional=False)),
        part(_layers(count, False), biased(optional=True)),
        part(
            lambda dims: inner(dims) and _gated(dims),
            row(f"{wide}.wi_0", "ffn_gate", "ff embd", bias=False),
            row(f"{wide}.wi_1", "ffn_up", "ff embd", bias=False),
        ),
        part(
            lambda dims: inner(dims) and not _gated(dims),
            row(f"{wide}.wi", "ffn_up", "ff embd", bias=False),
        ),
        row(norm, f"{gguf}.output_norm", "embd", bias=False),
    )


CHECKS = (
    only("feed_forward_proj", "relu", "gated-gelu"),
    only("relative_attention_max_distance", 128),
)
KEYS = (
    u32("context_length", "n_positions"),
    u32("embedding_length", "d_model"),
    u32("feed_forward_length", "d_ff"),
    u32("block_count", "num_layers"),
    u32("decoder_block_count", "num_decoder_layers"),
    u32("attention.head_count", "num_heads"),
    u32("attention.key_length", "d_kv"),
    u32("attention.value_length", "d_kv"),
    f32("attention.layer_norm_epsilon", _EPSILON),
    f32("attention.layer_norm_rms_epsilon", _EPSILON),
    u32("attention.relative_buckets_count", "relative_attention_num_buckets"),
    u32("decoder_start_token_id", "decoder_start_token_id"),
)


def defaults(config: Config) -> Mapping[str, Any]:
    """Return transformers' defaults."""
    return {
        "n_positions": 512,
        "d_kv": 64,
        "num_decoder_layers": config.get("num_layers"),
        "relative_attention_num_buckets": 32,
        _EPSILON: 1e-6,
        "decoder_start_token_id": config.get("pad_token_id") or 0,
    }


def config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    """Return the fields that the metadata of a GGUF do not have."""
    gated = dims.has("enc.blk.0.ffn_gate.weight")
    both = "decoder_block_count" in dims.keys
    every = both and dims.has("enc.blk.1.attn_rel_b.weight")
    umt5 = {"architectures": ["UMT5ForConditionalGeneration"], "model_type": "umt5"}
    return {
        "feed_forward_proj": "gated-gelu" if gated else "relu",
        "dense_act_fn": "gelu_new" if gated else "relu",
        "is_gated_act": gated,
        "is_encoder_decoder": both,
        "relative_attention_max_distance": 128,
        **(umt5 if every else {}),
    }


ENCODER = join_rows(
    row("shared", "token_embd", "vocab embd", bias=False),
    OUTPUT,
    _stack("encoder", "enc", "block_count", 1),
)
DIMS = {"buckets": lambda dims: dims.key("attention.relative_buckets_count")}
T5 = Architecture(
    "t5",
    (
        "T5ForConditionalGeneration",
        "T5WithLMHeadModel",
        "MT5ForConditionalGeneration",
        "UMT5ForConditionalGeneration",
        "UMT5Model",
    ),
    "t5",
    KEYS,
    join_rows(
        ENCODER,
        _stack(
            "decoder",
            "dec",
            "decoder_block_count",
            2,
            row("1.layer_norm", "cross_attn_norm", "embd", bias=False),
            _attention("1.EncDecAttention", "cross_attn"),
            row(
                "1.EncDecAttention.relative_attention_bias",
                "cross_attn_rel_b",
                "buckets head",
                bias=False,
                optional=True,
            ),
        ),
    ),
    checks=CHECKS,
    prefix="",
    defaults=defaults,
    copies=SHARED,
    dims=DIMS,
    adds_eos=True,
    config=config,
)
T5_ENCODER = Architecture(
    "t5encoder",
    ("T5EncoderModel",),
    "t5",
    without_keys(KEYS, "decoder_block_count", "decoder_start_token_id"),
    ENCODER,
    checks=CHECKS,
    prefix="",
    defaults=defaults,
    copies=SHARED,
    dims=DIMS,
    adds_eos=True,
    config=config,
)
