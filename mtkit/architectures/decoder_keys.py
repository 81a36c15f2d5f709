"""The metadata that most models share, with all the names that publishers use for a field.

The first name of a row is the one that a config.json written from a GGUF gets.

Source: llama.cpp, conversion/base.py (``TextModel.set_gguf_parameters``).
"""

from __future__ import annotations

from mtkit.architectures.keys import computed, f32, u32

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.keys import KeyRow

_SCALING = {"linear": "linear", "yarn": "yarn", "su": "longrope", "longrope": "longrope"}
_GATING = {"softmax": 1, "sigmoid": 2, "sqrtsoftplus": 4}
"""Source: gguf-py/gguf/constants.py (``ExpertGatingFuncType``)."""


def _scaling(config: Config) -> str | None:
    rope = config.rope()
    kind = _SCALING.get(rope.text("rope_type") or "")
    return kind if kind == "longrope" or rope.number("factor") is not None else None


def _scaled(*kinds: str, field: str) -> Callable[[Config], float | None]:
    def value(config: Config) -> float | None:
        return config.rope().number(field) if _scaling(config) in kinds else None

    return value


def _yarn(name: str, *fields: str) -> KeyRow:
    def value(config: Config) -> float | None:
        return config.rope().number(*fields) if _scaling(config) == "yarn" else None

    return computed(f"rope.scaling.{name}", "f32", value, lambda found: _rope(fields[0], found))


def _original_context(config: Config) -> int | None:
    if _scaling(config) != "yarn":
        return None
    return config.rope().count("original_max_position_embeddings")


def _sections(config: Config) -> list[int] | None:
    found = config.table("rope_parameters" if config.get("rope_parameters") else "rope_scaling")
    sections = found.get("mrope_section")
    if sections is None:
        return None
    if not isinstance(sections, list) or not all(type(n) is int and n >= 0 for n in sections):
        raise found.wrong("is not a list of whole numbers", "mrope_section")
    return [*sections, 0, 0, 0, 0][:4]


def _gating(config: Config) -> int | None:
    names = (
        "score_function", "scoring_func", "score_func", "moe_router_activation",
        "moe_router_activation_func", "expert_selection_fn",
    )  # fmt: skip
    said = config.text(*names)
    if said is not None and said not in _GATING:
        raise config.wrong(f"is {said}, not one of {', '.join(_GATING)}", *names)
    return _GATING[said] if said is not None else None


def _rope(field: str, value: Any) -> dict[str, Any]:
    return {"rope_scaling": {field: value}}


DECODER = (
    computed(
        "block_count", "u32",
        lambda config: config.count("num_hidden_layers", "n_layers", "n_layer", "num_layers"),
        "num_hidden_layers",
    ),
    u32(
        "context_length", "max_position_embeddings", "n_ctx", "n_positions", "max_length",
        "max_sequence_length", "model_max_length",
    ),
    u32("embedding_length", "hidden_size", "n_embd", "dim"),
    u32(
        "feed_forward_length", "prefix_dense_intermediate_size", "dense_intermediate_size",
        "intermediate_size", "n_inner", "hidden_dim", written="intermediate_size",
    ),
    u32("attention.head_count", "num_attention_heads", "n_head", "n_heads"),
    u32("attention.head_count_kv", "num_key_value_heads", "n_kv_heads"),
    computed(
        "attention.causal", "bool",
        lambda config: False if config.flag("is_causal") is False else None,
        "is_causal",
    ),
    computed(
        "rope.scaling.type", "string", _scaling, lambda value: _rope("rope_type", value),
    ),
    computed(
        "rope.scaling.factor", "f32", _scaled("linear", "yarn", field="factor"),
        lambda value: _rope("factor", value),
    ),
    computed(
        "rope.scaling.original_context_length", "u32", _original_context,
        lambda value: _rope("original_max_position_embeddings", value),
    ),
    _yarn("yarn_ext_factor", "extrapolation_factor"),
    _yarn("yarn_attn_factor", "attention_factor", "attn_factor"),
    _yarn("yarn_beta_fast", "beta_fast"),
    _yarn("yarn_beta_slow", "beta_slow"),
    computed(
        "rope.dimension_sections", "i32[]", _sections,
        lambda value: _rope("mrope_section", list(value)[:3]),
    ),
    computed(
        "rope.freq_base", "f32", lambda config: config.rope().number("rope_theta"),
        "rope_theta",
    ),
    computed(
        "rope.freq_base_swa", "f32",
        lambda config: config.rope("sliding_attention").number("rope_theta"),
        "rope_local_base_freq",
    ),
    f32("attention.layer_norm_rms_epsilon", "rms_norm_eps", "norm_eps"),
    f32("attention.layer_norm_epsilon", "layer_norm_eps", "layer_norm_epsilon", "norm_epsilon"),
    u32("expert_count", "num_local_experts", "num_experts", "n_routed_experts"),
    u32(
        "expert_used_count", "num_experts_per_tok", "num_experts_per_token", "top_k_experts",
    ),
    u32("expert_group_count", "n_group"),
    u32("expert_group_used_count", "topk_group"),
    computed("expert_gating_func", "u32", _gating),
    u32("attention.key_length", "head_dim"),
    u32("attention.value_length", "head_dim"),
)  # fmt: skip
"""What ``TextModel`` writes for every model that does not say otherwise."""
