"""Hy4: DeepSeek V3 with gated attention, sinks, an indexer, and hyper-connections of its own (iHC).

Source: llama.cpp, conversion/hy_v4.py (``HYV4Model``), src/models/hy-v4.cpp; transformers,
models/hy_v4.
"""

from __future__ import annotations

from mtkit.architectures.changes import Split
from mtkit.architectures.decoder_rows import (
    FEED_FORWARD,
    NORMS,
    OUTPUT,
    decoder,
    default_fields,
    is_dense,
    is_sparse,
    shared_expert,
)
from mtkit.architectures.families import deepseek
from mtkit.architectures.families.deepseek_sparse import (
    INDEXER,
    INDEXER_DIMS,
    INDEXER_KEYS,
    INDEXER_TYPES,
)
from mtkit.architectures.metadata import always, computed, f32, u32, with_keys
from mtkit.architectures.table import (
    Architecture,
    beyond_layers,
    exact,
    in_layers,
    join_rows,
    plain,
    row,
    tied_head,
)
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow
    from mtkit.architectures.table import Rows

_SIGMOID = 2
_SPARSE = ("sparse_attention", "deepseek_sparse_attention")


def _indexer_types(config: Config) -> list[bool] | None:
    """Return which layers have an indexer; None: no layer picks tokens."""
    if config.get("indexer_types") is None:
        if not isinstance(config.get("layer_types"), list):
            return None
        full = [kind in _SPARSE for kind in config.kinds_of_layers()]
        return full if any(full) else None
    kinds, layers = config.get("indexer_types"), config.count("num_hidden_layers")
    if not isinstance(kinds, list) or len(kinds) < layers:
        raise config.wrong(f"is not a list for {layers} layers", "indexer_types")
    if any(kind not in ("full", "shared") for kind in kinds[:layers]) or kinds[0] != "full":
        raise config.wrong('is not a list of "full" and "shared", "full" first', "indexer_types")
    return [kind == "full" for kind in kinds[:layers]]


def _if_indexed(key: KeyRow) -> KeyRow:
    return replace(key, value=lambda config: key.value(config) if _indexer_types(config) else None)


def _leading_dense(config: Config) -> int:
    kinds, leading = config.get("mlp_layer_types"), config.whole("first_k_dense_replace")
    if kinds is None:
        return 1 if leading is None else leading
    dense = kinds.count("dense") if isinstance(kinds, list) else -1
    if dense < 0 or "dense" in kinds[dense:]:
        raise config.wrong('is not a list with each "dense" first', "mlp_layer_types")
    if leading not in (None, dense):
        raise config.wrong(f"is {leading}; mlp_layer_types has {dense}", "first_k_dense_replace")
    return dense


def _unless_one_group(key: str, field: str) -> KeyRow:
    def value(config: Config) -> int | None:
        is_one = config.whole("n_group") == config.whole("topk_group") == 1
        return None if is_one else config.whole(field)

    return computed(key, "u32", value, field)


def _limits(config: Config) -> list[float] | None:
    limit = config.number("swiglu_limit") or 0.0
    return [limit] * config.count("num_hidden_layers") if limit > 0 else None


def _connections(folder: str, gguf: str, mix: str, scales: str) -> Rows:
    """Return the rows that join the streams before a part of the model, and share it out after."""
    return exact(
        plain(f"{folder}_fn", f"{gguf}_fn.weight", f"{mix} streams"),
        plain(f"{folder}_base", f"{gguf}_base.weight", mix),
        plain(f"{folder}_scale", f"{gguf}_scale.weight", scales),
    )


def _rows(head: Rows = OUTPUT) -> Rows:
    layers = decoder(
        NORMS,
        deepseek.LATENT,
        plain("self_attn.learnable_sink_param", "attn_sinks.weight", "head"),
        row("self_attn.linear_gate", "attn_gate", "out_mla embd", bias=False),
        in_layers(lambda dims: dims.key(INDEXER_TYPES.name, 0) > 0, INDEXER),
        _connections("hc_attn_layer.hc_pre.hc", "hc_attn", "mix", "2"),
        _connections("hc_mlp_layer.hc_pre.hc", "hc_ffn", "mix", "2"),
        in_layers(is_dense, FEED_FORWARD),
        in_layers(
            is_sparse,
            row("mlp.gate", "ffn_gate_inp", "expert embd", bias=False),
            plain(
                "mlp.experts.gate_up_proj",
                "ffn_gate_exps.weight ffn_up_exps.weight",
                "expert ff_exp embd, expert ff_exp embd",
                Split(-2),
            ),
            plain("mlp.experts.down_proj", "ffn_down_exps.weight", "expert embd ff_exp"),
            shared_expert("mlp.shared_experts"),
        ),
        head=head,
    )
    outer = _connections("model.hc_head.hc_head", "output_hc", "stream", "1")
    return join_rows(outer, layers, deepseek.CORRECTION)


def _rows_of(config: Config) -> Rows:
    return _rows(exact(OUTPUT) if config.flag("enable_lm_head_fp32") else OUTPUT)


def _skips(name: str, config: Config) -> bool:
    is_next = name.startswith("model.mtp_layers.") or beyond_layers(name, config)
    return is_next or tied_head(name, config)


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    layers, dense = dims.key("block_count"), dims.key("leading_dense_block_count")
    attention = "indexed_attention" if INDEXER_TYPES.name in dims.keys else "full_attention"
    return {
        **deepseek.config(dims, tensor),
        "layer_types": [attention] * layers,
        "mlp_layer_types": ["dense"] * dense + ["sparse"] * (layers - dense),
        **({} if "swiglu_clamp_exp" in dims.keys else {"swiglu_limit": 0.0}),
    }


HY_4 = Architecture(
    "hy_v4",
    ("HYV4ForCausalLM",),
    "hy_v4",
    (
        *with_keys(
            deepseek.KEYS,
            computed("leading_dense_block_count", "u32", _leading_dense, "first_k_dense_replace"),
            _unless_one_group("expert_group_count", "n_group"),
            _unless_one_group("expert_group_used_count", "topk_group"),
            always("expert_gating_func", "u32", _SIGMOID),
        ),
        computed(
            "swiglu_clamp_exp", "f32[]", _limits, lambda limits: {"swiglu_limit": limits[0]}
        ),
        u32("hyper_connection.count", "hc_mult"),
        f32("hyper_connection.epsilon", "hc_eps"),
        f32("hyper_connection.magnitude", "hc_magnitude"),
        *map(_if_indexed, INDEXER_KEYS),
        replace(INDEXER_TYPES, value=_indexer_types),
    ),
    _rows(),
    rows_of=_rows_of,
    skips=_skips,
    defaults=default_fields(
        262144,
        rms_norm_eps=1e-5,
        moe_intermediate_size=768,
        n_routed_experts=256,
        n_shared_experts=1,
        num_experts_per_tok=8,
        n_group=1,
        topk_group=1,
        q_lora_rank=1536,
        kv_lora_rank=512,
        qk_nope_head_dim=192,
        qk_rope_head_dim=64,
        v_head_dim=256,
        routed_scaling_factor=2.827,
        norm_topk_prob=True,
        swiglu_limit=10.0,
        index_topk=2048,
        index_head_dim=128,
        index_n_heads=16,
        hc_mult=4,
        hc_magnitude=2.0,
        hc_eps=1e-6,
    ),
    dims={
        **deepseek.DIMS,
        **INDEXER_DIMS,
        "stream": lambda dims: dims.key("hyper_connection.count"),
        "streams": lambda dims: dims["stream"] * dims["embd"],
        "mix": lambda dims: 2 * dims["stream"],
    },
    config=_config,
)  # fmt: skip
