"""OpenELM, whose layers differ in width.

Source: llama.cpp, conversion/openelm.py (``OpenELMModel``); configuration_openelm.py beside the
models.
"""

from __future__ import annotations

from mtkit.architectures.changes import Split
from mtkit.architectures.metadata import always, computed, u32
from mtkit.architectures.table import Architecture, block, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.architectures.config import Config

_EPSILON = 1e-6


def _numbers(config: Config, field: str) -> list[float]:
    values, layers = config.get(field), config.count("num_transformer_layers")
    if not isinstance(values, list) or len(values) != layers:
        raise config.wrong(f"is not a list of {layers} numbers", field)
    if not all(type(value) in (int, float) and 0 < value < 1 << 20 for value in values):
        raise config.wrong("has what is not a number above 0", field)
    return values


def _widths(config: Config) -> list[int]:
    embd, divisor = config.count("model_dim"), config.count("ffn_dim_divisor")
    widths = []
    for factor in _numbers(config, "ffn_multipliers"):
        width = max(divisor, int(factor * embd + divisor / 2) // divisor * divisor)
        widths.append(width + divisor if width < 0.9 * factor * embd else width)
    return widths


def _heads(field: str) -> Callable[[Config], list[int]]:
    return lambda config: [int(number) for number in _numbers(config, field)]


OPENELM = Architecture(
    "openelm",
    ("OpenELMForCausalLM",),
    "openelm",
    (
        u32("block_count", "num_transformer_layers"),
        u32("context_length", "max_context_length"),
        u32("embedding_length", "model_dim"),
        computed("feed_forward_length", "i32[]", _widths),
        computed("attention.head_count", "i32[]", _heads("num_query_heads"), "num_query_heads"),
        computed("attention.head_count_kv", "i32[]", _heads("num_kv_heads"), "num_kv_heads"),
        computed(
            "rope.freq_base",
            "f32",
            lambda config: config.number("rope_freq_constant"),
            "rope_freq_constant",
        ),
        always("attention.layer_norm_rms_epsilon", "f32", _EPSILON),
        u32("rope.dimension_count", "head_dim"),
        u32("attention.key_length", "head_dim"),
        u32("attention.value_length", "head_dim"),
    ),
    join_rows(
        row("transformer.token_embeddings", "token_embd", "vocab embd", bias=False),
        row("transformer.norm", "output_norm", "embd", bias=False),
        block(
            "transformer.layers.{i}.",
            row("attn_norm", "attn_norm", "embd", bias=False),
            row("attn.qkv_proj", "attn_qkv", "qkv embd", bias=False),
            row("attn.q_norm", "attn_q_norm", "key", bias=False),
            row("attn.k_norm", "attn_k_norm", "key", bias=False),
            row("attn.out_proj", "attn_output", "embd out", bias=False),
            row("ffn_norm", "ffn_norm", "embd", bias=False),
            plain(
                "ffn.proj_1.weight",
                "ffn_gate.weight ffn_up.weight",
                "ff embd, ff embd",
                Split(-2),
            ),
            row("ffn.proj_2", "ffn_down", "embd ff", bias=False),
        ),
    ),
    defaults=lambda _: {
        "max_context_length": 2048,
        "rope_freq_constant": 10000,
        "ffn_dim_divisor": 256,
    },
    prefix="transformer.",
    config=lambda dims, tensor: {
        "activation_fn_name": "swish",
        "normalize_qk_projections": True,
        "share_input_output_layers": True,
        "ffn_with_glu": True,
        "ffn_dim_divisor": 1,
        "ffn_multipliers": [
            dims.at(layer)["ff"] / dims["embd"] for layer in range(dims.key("block_count"))
        ],
    },
)
