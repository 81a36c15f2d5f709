"""What most decoders share: rows of metadata, rows of tensors, and fields of config.json.

A row of metadata lists all names that publishers use for a field; the first is written to a
config.json made from a GGUF. ``default_fields`` are what a config.json may lack, ``config_fields``
what one made from a GGUF gets.

Source: llama.cpp, conversion/base.py (``TextModel.set_gguf_parameters``).
"""

from __future__ import annotations

from mtkit.architectures.changes import SAME
from mtkit.architectures.metadata import KeyRow, computed, f32, u32
from mtkit.architectures.table import block, join_rows, row
from mtkit.base.escape import shown
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from mtkit.architectures.changes import Change
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.table import Check, Rows, Writer


_SCALING = {"linear": "linear", "yarn": "yarn", "su": "longrope", "longrope": "longrope"}
_GATING = {"softmax": 1, "sigmoid": 2, "sqrtsoftplus": 4}
"""Source: gguf-py/gguf/constants.py (``ExpertGatingFuncType``)."""


def _scaling(config: Config) -> str | None:
    rope = config.rope()
    kind = _SCALING.get(rope.text("rope_type") or "")
    return kind if kind == "longrope" or rope.number("factor") is not None else None


def _scaling_field(*kinds: str, field: str) -> Callable[[Config], float | None]:
    def value(config: Config) -> float | None:
        return config.rope().number(field) if _scaling(config) in kinds else None

    return value


def _yarn(name: str, *fields: str) -> KeyRow:
    def value(config: Config) -> float | None:
        return config.rope().number(*fields) if _scaling(config) == "yarn" else None

    return computed(f"rope.scaling.{name}", "f32", value, lambda number: _rope(fields[0], number))


def _original_context(config: Config) -> int | None:
    if _scaling(config) != "yarn":
        return None
    return config.rope().count("original_max_position_embeddings")


def _sections(config: Config) -> list[int] | None:
    rope = config.table("rope_parameters" if config.get("rope_parameters") else "rope_scaling")
    sections = rope.get("mrope_section")
    if sections is None:
        return None
    if not isinstance(sections, list) or not all(type(n) is int and n >= 0 for n in sections):
        raise rope.wrong("is not a list of whole numbers", "mrope_section")
    return [*sections, 0, 0, 0, 0][:4]


def _gating(config: Config) -> int | None:
    names = (
        "score_function", "scoring_func", "score_func", "moe_router_activation",
        "moe_router_activation_func", "expert_selection_fn",
    )  # fmt: skip
    function = config.text(*names)
    if function is not None and function not in _GATING:
        raise config.wrong(f"is {function}, not one of {', '.join(_GATING)}", *names)
    return _GATING[function] if function is not None else None


def _scoring(number: int) -> dict[str, Any]:
    """Return the field of config.json that says how experts are weighed."""
    names = {value: name for name, value in _GATING.items()}
    return {"scoring_func": names[number]} if number in names else {}


def _rope(field: str, value: Any) -> dict[str, Any]:
    return {"rope_scaling": {field: value}}


def rope_row(name: str, field: str) -> KeyRow:
    """Return the row of a number among the fields of rotary positions."""
    return computed(
        name, "f32", lambda config: config.rope().number(field), lambda value: _rope(field, value)
    )


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
        "rope.scaling.factor", "f32", _scaling_field("linear", "yarn", field="factor"),
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
    computed("expert_gating_func", "u32", _gating, _scoring),
    u32("attention.key_length", "head_dim"),
    u32("attention.value_length", "head_dim"),
)  # fmt: skip
"""What ``TextModel`` writes for every model, unless a family says otherwise."""


_KINDS = ("full_attention", "sliding_attention")
_MOST_LAYERS = 1 << 16
VOCAB_SIZE = u32("vocab_size", "vocab_size")
SLIDING_WINDOW = u32("attention.sliding_window", "sliding_window")
EXPERT_COUNT = u32("expert_count", "num_local_experts", "num_experts", written="num_experts")
"""Under the name that most families of experts have in config.json."""
EXPERT_FEED_FORWARD = u32("expert_feed_forward_length", "moe_intermediate_size")


def layer_types(slides: Callable[[int], bool]) -> KeyRow:
    """Return the row of the layers whose attention sees a window alone."""

    def value(config: Config) -> list[bool] | None:
        kinds = config.get("layer_types")
        if kinds is None:
            layers = min(config.count("num_hidden_layers"), _MOST_LAYERS)
            return [slides(layer) for layer in range(layers)]
        if not isinstance(kinds, list):
            raise config.wrong("is not a list", "layer_types")
        return [kind == "sliding_attention" for kind in kinds]

    return KeyRow("attention.sliding_window_pattern", "bool[]", value, _layer_types)


def _layer_types(value: Any) -> dict[str, Any]:
    return {"layer_types": [_KINDS[bool(slides)] for slides in value]}


def only(field: str, *values: object) -> Check:
    """Return the check of a field that has no key: llama.cpp runs these values only."""

    def check(config: Config) -> None:
        value = config.get(field)
        if value is not None and value not in values:
            what = f"is {shown(repr(value)[:40])}, which llama.cpp cannot run"
            raise UnsupportedError(what, source=config.source, field=field)

    return check


def _end(number: int) -> Callable[[Config], int | None]:
    def value(config: Config) -> int | None:
        ends, ids = config.get("eos_token_id"), config.whole("vocab_size") or 0
        end = ends[number] if isinstance(ends, list) and len(ends) > number else None
        return end if type(end) is int and 0 <= end < ids else None

    return value


END_OF_TURN = KeyRow("tokenizer.ggml.eot_token_id", "u32", _end(1))
"""The second of several ids that end a text, where llama.cpp does not know it by its spelling."""
END_OF_MESSAGE = KeyRow("tokenizer.ggml.eom_token_id", "u32", _end(2))
"""The third."""
POOLINGS = {"mean": 1, "cls": 2, "lasttoken": 3}
_RANK = 4
"""Source: gguf-py/gguf/constants.py (``PoolingType``)."""


def _pooling(config: Config) -> int | None:
    mode = config.text(SENTENCE_POOLING)
    if config.get(RERANK) is not None:
        return _RANK
    if mode is None:
        return None
    if mode not in POOLINGS:
        what = f"is {shown(mode)}; llama.cpp pools by {', '.join(POOLINGS)}"
        raise UnsupportedError(what, field=SENTENCE_POOLING)
    return POOLINGS[mode]


SENTENCE_POOLING = "sentence_pooling"
"""Field for the pooling that sentence-transformers' files beside config.json say."""
RERANK = "rerank_ids"
"""Field for the ids of the answers of a reranker, whose rows of the head are all it has."""
POOLING = KeyRow("pooling_type", "u32", _pooling)


SUPPRESSED = "suppress_tokens"
"""Field for the tokens that generation_config.json forbids."""
SUPPRESS = KeyRow("tokenizer.ggml.suppress_tokens", "i32[]", lambda config: config.get(SUPPRESSED))


IN_LAYER = "model.layers.{i}."
"""Prefix of the names in a layer."""
EMBEDDINGS = join_rows(
    row("model.embed_tokens", "token_embd", "vocab embd", bias=False),
    row("model.norm", "output_norm", "embd"),
)
OUTPUT = row("lm_head", "output", "vocab embd", optional=True)
"""Missing where the embedding is tied to it."""
NORMS = join_rows(
    row("input_layernorm", "attn_norm", "embd"),
    row("post_attention_layernorm", "ffn_norm", "embd"),
)
HEAD_NORMS = join_rows(
    row("self_attn.q_norm", "attn_q_norm", "key", bias=False),
    row("self_attn.k_norm", "attn_k_norm", "key", bias=False),
)
"""Norms of queries and keys, head by head."""
WIDE_NORMS = join_rows(
    row("self_attn.q_norm", "attn_q_norm", "q", bias=False),
    row("self_attn.k_norm", "attn_k_norm", "k", bias=False),
)
"""Norms of all queries, of all keys."""
FEED_FORWARD = join_rows(
    row("mlp.gate_proj", "ffn_gate", "ff embd"),
    row("mlp.up_proj", "ffn_up", "ff embd"),
    row("mlp.down_proj", "ffn_down", "embd ff"),
)
UP_AND_DOWN = FEED_FORWARD[2:]
"""A feed-forward part without a gate."""


def decoder(*layer: Rows, head: Rows = OUTPUT) -> Rows:
    """Return the rows of a decoder."""
    return join_rows(EMBEDDINGS, head, block(IN_LAYER, *layer))


def attention(prefix: str = "self_attn.", q: Change = SAME, k: Change = SAME) -> Rows:
    """Return the four projections of attention."""
    return join_rows(
        row(f"{prefix}q_proj", "attn_q", "q embd", q),
        row(f"{prefix}k_proj", "attn_k", "k embd", k),
        row(f"{prefix}v_proj", "attn_v", "v embd"),
        row(f"{prefix}o_proj", "attn_output", "embd out"),
    )


def experts(
    folder: str, names: tuple[str, str, str] = ("gate_proj", "up_proj", "down_proj")
) -> Rows:
    """Return the feed-forward parts of experts, each a tensor of its own in the folder."""
    gate, up, down = names
    return join_rows(
        row(f"{folder}.{gate}", "ffn_gate_exps", "expert ff_exp embd", bias=False),
        row(f"{folder}.{up}", "ffn_up_exps", "expert ff_exp embd", bias=False),
        row(f"{folder}.{down}", "ffn_down_exps", "expert embd ff_exp", bias=False),
    )


def shared_expert(folder: str, *, bias: bool | None = False) -> Rows:
    """Return the feed-forward part that every token goes through besides its experts."""
    return join_rows(
        row(f"{folder}.gate_proj", "ffn_gate_shexp", "ff_shexp embd", bias=bias),
        row(f"{folder}.up_proj", "ffn_up_shexp", "ff_shexp embd", bias=bias),
        row(f"{folder}.down_proj", "ffn_down_shexp", "embd ff_shexp", bias=bias),
    )


def is_dense(dims: Dims) -> bool:
    """Tell whether a layer is one of the first, which have no experts."""
    return dims.layer < dims.key("leading_dense_block_count")


def is_sparse(dims: Dims) -> bool:
    """Tell whether a layer has experts, behind the first that have none."""
    return not is_dense(dims)


def default_fields(context: int, **fields: Any) -> Callable[[Config], Mapping[str, Any]]:
    """Return transformers' defaults for fields of config.json, as most decoders have them."""
    usual = {
        "max_position_embeddings": context,
        "num_key_value_heads": lambda config: config.get("num_attention_heads"),
        "rope_theta": 10000.0,
    }
    return lambda config: _call_fields({**usual, **fields}, config)


def config_fields(**fields: Any) -> Writer:
    """Return a writer of fields of config.json; a function is called with the sizes."""
    return lambda dims, tensor: _call_fields(fields, dims)


def _call_fields(fields: Mapping[str, Any], argument: object) -> dict[str, Any]:
    return {name: value(argument) if callable(value) else value for name, value in fields.items()}


def has(name: str) -> Callable[[Dims], bool]:
    """Return a test for a tensor."""
    return lambda dims: dims.has(name)


ATTENTION_BIAS = has("blk.0.attn_q.bias")
FEED_FORWARD_BIAS = has("blk.0.ffn_up.bias")


def rotary_part(dims: Dims) -> float:
    """Return the part of a head that is rotated."""
    return dims["rope"] / max(dims["key"], 1)
