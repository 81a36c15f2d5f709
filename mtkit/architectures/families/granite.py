"""Granite 3 and its mixtures of experts.

Factors of Llama 3's kind are written where a config.json asks for them: llama.cpp reads them
(src/models/granite.cpp) though its converter has no name for them here.
Source: llama.cpp, conversion/granite.py (``GraniteModel``, ``GraniteMoeModel``); transformers,
models/granite, models/granitemoe, models/granitemoeshared.
"""

from __future__ import annotations

from mtkit.architectures.changes import Split
from mtkit.architectures.decoder_rows import (
    FEED_FORWARD,
    IN_LAYER,
    NORMS,
    SLIDING_WINDOW,
    decoder,
    default_fields,
    layer_types,
    only,
)
from mtkit.architectures.families.llama import ATTENTION, KEYS, LLAMA, LLAMA_3, config
from mtkit.architectures.metadata import KeyRow, computed, pick_keys, with_keys, without_keys
from mtkit.architectures.table import Architecture, block, in_layers, join_rows, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims


def _scale(key: str, field: str) -> KeyRow:
    return computed(key, "f32", lambda config: config.number(field) or None, field)


def _head_dim(config: Config) -> int:
    # Granite has no head_dim; one in config.json does not count.
    return config.count("hidden_size") // config.count("num_attention_heads")


def _shares(dims: Dims) -> bool:
    return dims.key("expert_shared_feed_forward_length", 0) > 0


_KEYS = (
    *with_keys(
        without_keys(KEYS, "attention.key_length", "attention.value_length"),
        computed("rope.dimension_count", "u32", _head_dim),
    ),
    _scale("attention.scale", "attention_multiplier"),
    _scale("embedding_scale", "embedding_multiplier"),
    _scale("residual_scale", "residual_multiplier"),
    _scale("logit_scale", "logits_scaling"),
)
_SILENT = {
    "attention_multiplier": 1.0,
    "embedding_multiplier": 1.0,
    "residual_multiplier": 1.0,
    "logits_scaling": 1.0,
}
_MOE_SILENT = {**_SILENT, "num_local_experts": 8, "num_experts_per_tok": 2}
_CHECKS = (only("position_embedding_type", "rope"),)
GRANITE = Architecture(
    "granite",
    (
        "GraniteForCausalLM",
        "GraniteSpeechForConditionalGeneration",
        "GraniteSpeechPlusForConditionalGeneration",
    ),
    "granite",
    _KEYS,
    LLAMA.rows,
    checks=_CHECKS,
    defaults=default_fields(2048, rms_norm_eps=1e-6, **_SILENT),
    generated=(LLAMA_3,),
    config=config,
)


def _patterned(config: Config) -> list[bool] | None:
    turns = config.get("no_rope_layers")
    if turns is None:
        return None
    if not isinstance(turns, list) or len(turns) != config.count("num_hidden_layers"):
        raise config.wrong("is not a list of a number for each layer", "no_rope_layers")
    return [bool(number) for number in turns]


_WINDOWS = (
    *_KEYS,
    SLIDING_WINDOW,
    layer_types(lambda layer: layer % 4 != 0),
    computed(
        "attention.rope_pattern", "bool[]", _patterned,
        lambda value: {"no_rope_layers": [int(turns) for turns in value]},
    ),
)  # fmt: skip
_SINKS = plain("self_attn.sinks", "attn_sinks.weight", "head")
GRANITE_SWA = Architecture(
    "granite_swa",
    ("GraniteSWAForCausalLM",),
    "granite_swa",
    _WINDOWS,
    decoder(NORMS, ATTENTION, _SINKS, FEED_FORWARD),
    checks=_CHECKS,
    defaults=default_fields(2048, rms_norm_eps=1e-6, sliding_window=128, **_SILENT),
    generated=(LLAMA_3,),
    config=config,
)
GRANITE_MOE = Architecture(
    "granitemoe",
    ("GraniteMoeForCausalLM",),
    "granitemoe",
    _KEYS,
    decoder(
        NORMS,
        ATTENTION,
        row("block_sparse_moe.router.layer", "ffn_gate_inp", "expert embd", bias=False),
        row(
            "block_sparse_moe.input_linear",
            "ffn_gate_exps ffn_up_exps",
            "expert ff_exp embd, expert ff_exp embd",
            Split(-2),
            bias=False,
        ),
        row(
            "block_sparse_moe.output_linear",
            "ffn_down_exps",
            "expert embd ff_exp",
            bias=False,
        ),
    ),
    checks=_CHECKS,
    defaults=default_fields(2048, rms_norm_eps=1e-6, **_MOE_SILENT),
    generated=(LLAMA_3,),
    config=config,
)
GRANITE_MOE_SHARED = Architecture(
    "granitemoe",
    ("GraniteMoeSharedForCausalLM",),
    "granitemoeshared",
    (
        *GRANITE_MOE.keys,
        computed(
            "expert_shared_feed_forward_length",
            "u32",
            lambda config: config.whole("shared_intermediate_size") or None,
            "shared_intermediate_size",
        ),
    ),
    join_rows(
        GRANITE_MOE.rows,
        block(
            IN_LAYER,
            in_layers(
                _shares,
                row(
                    "shared_mlp.input_linear",
                    "ffn_gate_shexp ffn_up_shexp",
                    "ff_shexp embd, ff_shexp embd",
                    Split(-2),
                    bias=False,
                ),
                row("shared_mlp.output_linear", "ffn_down_shexp", "embd ff_shexp", bias=False),
            ),
        ),
    ),
    checks=_CHECKS,
    defaults=default_fields(2048, rms_norm_eps=1e-6, **_MOE_SILENT),
    generated=(LLAMA_3,),
    config=config,
)
GRANITE_MOE_SWA = Architecture(
    "granite_swa",
    ("GraniteMoeSWAForCausalLM",),
    "granitemoe_swa",
    (
        *_WINDOWS,
        *pick_keys(GRANITE_MOE_SHARED.keys, "expert_shared_feed_forward_length"),
    ),
    decoder(
        NORMS,
        ATTENTION,
        _SINKS,
        row("block_sparse_moe.router.layer", "ffn_gate_inp", "expert embd", bias=False),
        row("block_sparse_moe.input_linear", "ffn_gate_up_exps", "expert ff*2 embd", bias=False),
        row("block_sparse_moe.output_linear", "ffn_down_exps", "expert embd ff", bias=False),
        in_layers(
            _shares,
            row("shared_mlp.input_linear", "ffn_up_shexp", "ff_shexp*2 embd", bias=False),
            row("shared_mlp.output_linear", "ffn_down_shexp", "embd ff_shexp", bias=False),
        ),
    ),
    checks=_CHECKS,
    defaults=default_fields(2048, rms_norm_eps=1e-6, sliding_window=128, **_MOE_SILENT),
    generated=(LLAMA_3,),
    dims={"ff_shexp*2": lambda dims: 2 * dims["ff_shexp"]},
    config=config,
)
