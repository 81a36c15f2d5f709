"""Granite 4: layers of Mamba 2 and of attention, with and without experts; Bamba.

A model of attention alone is a Granite 3 in llama.cpp, with all keys.
Source: llama.cpp, conversion/granite.py (``GraniteHybridModel``); transformers,
models/granitemoehybrid, models/bamba.
"""

from __future__ import annotations

from mtkit.architectures.changes import Split
from mtkit.architectures.decoder_rows import IN_LAYER, NORMS, OUTPUT, default_fields, only
from mtkit.architectures.families.granite import GRANITE, GRANITE_MOE, GRANITE_MOE_SHARED
from mtkit.architectures.families.llama import ATTENTION
from mtkit.architectures.metadata import computed, head_dim, with_keys
from mtkit.architectures.state_space import (
    SSM_DIMS,
    head_width,
    heads_where,
    is_attention,
    is_recurrent,
    layer_list,
    mixer,
    mixer_norm,
    periodic,
    ssm_keys,
)
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow
    from mtkit.architectures.table import Rows

_LONGEST = 1 << 20
_KINDS = ("mamba", "attention")


def _attention(config: Config) -> list[bool]:
    """Return for each layer whether it has attention."""
    if config.get("layer_types") is not None:
        return [kind == "attention" for kind in config.kinds_of_layers()]
    places = config.get("attn_layer_indices")
    if isinstance(places, list):
        layers = min(config.count("num_hidden_layers"), 1 << 16)
        return [layer in places for layer in range(layers)]
    return periodic(config, "attn_layer_period", "attn_layer_offset")


def _inner(config: Config) -> int:
    return config.count("mamba_expand") * config.count("hidden_size")


def _has_experts(dims: Dims) -> bool:
    return dims.key("expert_count", 0) > 0


def _keys(*, turns: bool) -> tuple[KeyRow, ...]:
    return with_keys(
        GRANITE_MOE_SHARED.keys,
        *ssm_keys("mamba_d_conv", "mamba_d_state", "mamba_n_groups", "mamba_n_heads", _inner),
        heads_where(_attention),
        computed("rope.scaling.finetuned", "bool", lambda config: turns),
        *(() if turns else (computed("context_length", "u32", lambda config: _LONGEST),)),
    )


def _layer(attention: Rows, *rest: Rows) -> Rows:
    return block(
        IN_LAYER,
        in_layers(is_recurrent, mixer("mamba."), mixer_norm("mamba.norm")),
        in_layers(is_attention, attention),
        *rest,
    )


_EXPERTS = tuple(row for row in GRANITE_MOE.rows if "block_sparse_moe" in row.folder[0])
_SHARED = tuple(row for row in GRANITE_MOE_SHARED.rows if "shared_mlp" in row.folder[0])
_DENSE = block(
    IN_LAYER,
    row("shared_mlp.input_linear", "ffn_gate ffn_up", "ff embd, ff embd", Split(-2), bias=False),
    row("shared_mlp.output_linear", "ffn_down", "embd ff", bias=False),
)
_ROWS = join_rows(
    GRANITE.rows[:2],
    OUTPUT,
    _layer(ATTENTION, NORMS),
    in_layers(_has_experts, _EXPERTS, _SHARED),
    in_layers(lambda dims: not _has_experts(dims), _DENSE),
)
_DEFAULTS = {
    "mamba_d_conv": 4, "mamba_d_state": 256, "mamba_n_groups": 1, "mamba_n_heads": 128,
    "mamba_expand": 2,
}  # fmt: skip


def _config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    return {
        "hidden_act": "silu",
        "mamba_expand": dims["ssm_inner"] // max(dims["embd"], 1),
        "mamba_d_head": head_width(dims),
    }


def _granite_config(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    kinds = [_KINDS[full] for full in layer_list(dims)]
    return {**_config(dims, tensor), "layer_types": kinds, "position_embedding_type": "nope"}


def _granite(
    name: str, accepts: Callable[[Config], bool] | None, fits: Callable[[Dims], bool], kind: str
) -> Architecture:
    return Architecture(
        name,
        ("GraniteMoeHybridForCausalLM",),
        "granitemoehybrid",
        _keys(turns=accepts is not None),
        _ROWS,
        checks=(only("position_embedding_type", kind), only("hidden_act", "silu")),
        defaults=default_fields(2048, rms_norm_eps=1e-6, **_DEFAULTS),
        accepts=accepts,
        fits=fits,
        dims=SSM_DIMS,
        config=lambda dims, tensor: {
            **_granite_config(dims, tensor),
            "position_embedding_type": kind,
        },
    )


def _is_whole(config: Config) -> bool:
    return all(_attention(config))


def _turns(dims: Dims) -> bool:
    return bool(dims.keys.get("rope.scaling.finetuned"))


GRANITE_HYBRID = _granite("granitehybrid", None, lambda dims: not _turns(dims), "nope")
GRANITE_WHOLE = _granite(
    "granite",
    lambda config: _is_whole(config) and not config.whole("num_experts_per_tok"),
    _turns,
    "rope",
)
GRANITE_WHOLE_MOE = _granite(
    "granitemoe",
    lambda config: _is_whole(config) and bool(config.whole("num_experts_per_tok")),
    _turns,
    "rope",
)


def _indices(dims: Dims, tensor: Callable[[str], Any]) -> Mapping[str, Any]:
    places = [layer for layer, full in enumerate(layer_list(dims)) if full]
    return {**_config(dims, tensor), "attn_layer_indices": places}


BAMBA = Architecture(
    "granitehybrid",
    ("BambaForCausalLM",),
    "bamba",
    with_keys(
        _keys(turns=True),
        computed(
            "rope.dimension_count",
            "u32",
            lambda config: config.whole("attn_rotary_emb") or head_dim(config),
            "attn_rotary_emb",
        ),
    ),
    join_rows(
        row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
        row("model.final_layernorm", "output_norm", "embd", bias=False),
        OUTPUT,
        _layer(
            ATTENTION,
            row("input_layernorm", "attn_norm", "embd", bias=False),
            row("pre_ff_layernorm", "ffn_norm", "embd", bias=False),
            row("feed_forward.gate_proj", "ffn_gate", "ff embd"),
            row("feed_forward.up_proj", "ffn_up", "ff embd"),
            row("feed_forward.down_proj", "ffn_down", "embd ff"),
        ),
    ),
    checks=(only("hidden_act", "silu"),),
    defaults=default_fields(262144, rms_norm_eps=1e-5, **_DEFAULTS),
    fits=_turns,
    dims=SSM_DIMS,
    config=_indices,
)
