"""MiniMax: M2, M2.1 and M2.5; M3, text alone; Text-01 and M1, with linear attention.

Source: llama.cpp, conversion/minimax.py; transformers, models/minimax, models/minimax_m2,
models/minimax_m3_vl.
"""

from __future__ import annotations

from mtkit.architectures.changes import PLUS_ONE
from mtkit.architectures.decoder_rows import (
    DECODER,
    FEED_FORWARD,
    IN_LAYER,
    NORMS,
    OUTPUT,
    WIDE_NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
    experts,
    is_dense,
    is_sparse,
    only,
    shared_expert,
)
from mtkit.architectures.expert_rows import shared_width
from mtkit.architectures.metadata import KeyRow, always, computed, f32, u32, with_keys
from mtkit.architectures.table import (
    Architecture,
    block,
    exact,
    in_layers,
    join_rows,
    plain,
    row,
)
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims

_EXPERTS = join_rows(
    row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd", bias=False),
    plain("block_sparse_moe.e_score_correction_bias", "exp_probs_b.bias", "expert"),
    experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2")),
)

MINIMAX_M2 = Architecture(
    "minimax-m2",
    ("MiniMaxM2ForCausalLM",),
    "minimax_m2",
    (
        *DECODER,
        u32("expert_feed_forward_length", "intermediate_size"),
        u32("rope.dimension_count", "rotary_dim"),
    ),
    decoder(
        NORMS,
        attention(),
        WIDE_NORMS,
        _EXPERTS,
    ),
    defaults=default_fields(196608, rms_norm_eps=1e-6, rotary_dim=64, scoring_func="sigmoid"),
    config=config_fields(hidden_act="silu", use_qk_norm=True, use_routing_bias=True),
)


def _dense_layers(config: Config) -> int:
    kinds = config.get("moe_layer_freq")
    if not isinstance(kinds, list):
        raise config.wrong("is not a list", "moe_layer_freq")
    return next((layer for layer, kind in enumerate(kinds) if kind), len(kinds))


def _indexer(name: str, field: str) -> KeyRow:
    def value(config: Config) -> int:
        return config.table("sparse_attention_config").count(field)

    def fields(number: Any) -> dict[str, Any]:
        return {"sparse_attention_config": {field: number}}

    return computed(f"attention.indexer.{name}", "u32", value, fields)


def _norm(folder: str, gguf: str, axes: str) -> tuple[Any, ...]:
    return row(folder, gguf, axes, PLUS_ONE, bias=False)


MINIMAX_M3 = Architecture(
    "minimax-m3",
    ("MiniMaxM3SparseForCausalLM", "MiniMaxM3SparseForConditionalGeneration"),
    "minimax_m3",
    with_keys(
        MINIMAX_M2.keys,
        u32("expert_shared_count", "n_shared_experts"),
        f32("expert_weights_scale", "routed_scaling_factor"),
        always("expert_weights_norm", "bool", True),
        u32("feed_forward_length", "dense_intermediate_size", "intermediate_size"),
        computed("leading_dense_block_count", "u32", _dense_layers),
        _indexer("head_count", "sparse_num_index_heads"),
        _indexer("key_length", "sparse_index_dim"),
        _indexer("top_k", "sparse_topk_blocks"),
        _indexer("block_size", "sparse_block_size"),
        _indexer("local_blocks", "sparse_local_block"),
    ),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        _norm("model.norm", "output_norm", "embd"),
        OUTPUT,
        block(
            IN_LAYER,
            _norm("input_layernorm", "attn_norm", "embd"),
            _norm("post_attention_layernorm", "ffn_norm", "embd"),
            attention(),
            _norm("self_attn.q_norm", "attn_q_norm", "key"),
            _norm("self_attn.k_norm", "attn_k_norm", "key"),
            exact(
                in_layers(
                    is_sparse,
                    row("self_attn.index_q_proj", "indexer.q_proj", "index_q embd", bias=False),
                    row("self_attn.index_k_proj", "indexer.k_proj", "index_key embd", bias=False),
                    _norm("self_attn.index_q_norm", "indexer.q_norm", "index_key"),
                    _norm("self_attn.index_k_norm", "indexer.k_norm", "index_key"),
                )
            ),
            in_layers(is_dense, FEED_FORWARD),
            in_layers(is_sparse, _EXPERTS, shared_expert("block_sparse_moe.shared_experts")),
        ),
    ),
    defaults=default_fields(
        524288, rms_norm_eps=1e-6, rotary_dim=64, scoring_func="sigmoid", rope_theta=None
    ),
    dims={
        "ff_shexp": shared_width,
        "index_key": lambda dims: dims.key("attention.indexer.key_length"),
        "index_q": lambda dims: dims["index_key"] * dims.key("attention.indexer.head_count"),
    },
    config=lambda dims, tensor: {
        "hidden_act": "silu",
        "use_qk_norm": True,
        "use_routing_bias": True,
        "moe_layer_freq": [
            int(is_sparse(dims.at(layer))) for layer in range(dims.key("block_count"))
        ],
    },
)


def _is_linear(dims: Dims) -> bool:
    return (dims.layer + 1) % _INTERVAL != 0


def _is_full(dims: Dims) -> bool:
    return not _is_linear(dims)


def _check_kinds(config: Config) -> None:
    kinds, layers = config.get("attn_type_list"), min(config.count("num_hidden_layers"), 1 << 16)
    if kinds is not None and kinds != [int((n + 1) % _INTERVAL == 0) for n in range(layers)]:
        what = f"is not full attention in every {_INTERVAL}th layer, which llama.cpp cannot run"
        raise UnsupportedError(what, source=config.source, field="attn_type_list")


_ALPHA = "layernorm_full_attention_alpha"
_SAME = ("layernorm_linear_attention_alpha", "layernorm_mlp_alpha")
_BETAS = tuple(f"layernorm_{part}_beta" for part in ("full_attention", "linear_attention", "mlp"))


def _residual(config: Config) -> float | None:
    scale = config.number(_ALPHA)
    if any(config.number(name) not in (None, scale) for name in _SAME):
        raise UnsupportedError("is not the same in all parts", source=config.source, field=_ALPHA)
    return scale


def _residual_fields(value: float) -> dict[str, Any]:
    return {**dict.fromkeys((_ALPHA, *_SAME), value), **dict.fromkeys(_BETAS, 1.0)}


_INTERVAL = 8
MINIMAX_01 = Architecture(
    "minimax-01",
    ("MiniMaxText01ForCausalLM", "MiniMaxM1ForCausalLM"),
    "minimax_text_01",
    (
        *DECODER,
        computed("residual_scale", "f32", _residual, _residual_fields),
        u32("rope.dimension_count", "rotary_dim"),
    ),
    decoder(
        NORMS,
        in_layers(_is_full, attention()),
        in_layers(
            _is_linear,
            row("self_attn.qkv_proj", "attn_qkv", "3q embd", bias=False),
            row("self_attn.output_gate", "attn_gate", "q embd", bias=False),
            row("self_attn.norm", "attn_norm_2", "q", bias=False),
            row("self_attn.out_proj", "attn_output", "embd q", bias=False),
        ),
        row("block_sparse_moe.gate", "ffn_gate_inp", "expert embd", bias=False),
        experts("block_sparse_moe.experts.{e}", ("w1", "w3", "w2")),
    ),
    checks=(_check_kinds, *(only(name, 1, 1.0) for name in _BETAS)),
    defaults=default_fields(10240000, rms_norm_eps=1e-5, rope_theta=None),
    dims={"3q": lambda dims: 3 * dims["q"]},
    config=lambda dims, tensor: {
        "hidden_act": "silu",
        "postnorm": True,
        "attn_type_list": [
            int(_is_full(dims.at(layer))) for layer in range(dims.key("block_count"))
        ],
    },
)
