"""Rows of a table of metadata: a key of a GGUF, its type, the fields of config.json it is from.

``DECODER`` has what most models share, with all the names that publishers use for a field; the
first name of a row is the one that a config.json written from a GGUF gets.

Source: llama.cpp, conversion/base.py (``TextModel.set_gguf_parameters``).
"""

from __future__ import annotations

from mtkit.base.record import Record, replace
from mtkit.gguf.writer import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mtkit.architectures.config import Config


TOKENIZER = "tokenizer."
"""Keys that begin with it have no architecture's name in front."""


class KeyRow(Record):
    """A key of a GGUF.

    Attributes:
        name: Behind the architecture's name and a dot; whole where it begins with ``tokenizer.``.
        type: As ``Key`` has it.
        value: From a config to the key's value; None: the key is not written.
        field: Of config.json, which is written from the key as it is; empty: ``back`` writes it.
        back: From the key's value to fields of config.json.
    """

    name: str
    type: str
    value: Callable[[Config], Any]
    field: str = ""
    back: Callable[[Any], dict[str, Any]] | None = None

    def fields(self, value: Any) -> dict[str, Any]:
        """Return the fields of config.json that a value of the key gives."""
        if self.back is not None:
            return self.back(value)
        return {self.field: value} if self.field else {}


def u32(name: str, *fields: str, written: str = "") -> KeyRow:
    """Return the row of a whole number: the first of the fields that is there."""
    return KeyRow(name, "u32", lambda config: config.whole(*fields), written or fields[0])


def f32(name: str, *fields: str) -> KeyRow:
    """Return the row of a number: the first of the fields that is there."""
    return KeyRow(name, "f32", lambda config: config.number(*fields), fields[0])


def flag(name: str, field: str) -> KeyRow:
    """Return the row of a truth value."""
    return KeyRow(name, "bool", lambda config: config.flag(field), field)


def computed(
    name: str,
    kind: str,
    value: Callable[[Config], Any],
    back: Callable[[Any], dict[str, Any]] | None = None,
) -> KeyRow:
    """Return the row of what is not a field by itself."""
    return KeyRow(name, kind, value, back=back)


def always(name: str, kind: str, value: object) -> KeyRow:
    """Return the row of what is the same in every model of the architecture."""
    return KeyRow(name, kind, lambda _: value)


def without(rows: tuple[KeyRow, ...], *names: str) -> tuple[KeyRow, ...]:
    """Return rows but for those of the given keys."""
    return tuple(row for row in rows if row.name not in names)


def named(rows: tuple[KeyRow, ...], **fields: str) -> tuple[KeyRow, ...]:
    """Return rows of which some are written to other fields of config.json.

    Args:
        rows: The rows.
        fields: Key, with two underscores for each dot -> the field.
    """
    new = {name.replace("__", "."): field for name, field in fields.items()}
    return tuple(
        replace(row, field=new[row.name], back=None) if row.name in new else row for row in rows
    )


def picked(rows: tuple[KeyRow, ...], *names: str) -> tuple[KeyRow, ...]:
    """Return the rows of the given keys alone."""
    return tuple(row for row in rows if row.name in names)


def replaced(rows: tuple[KeyRow, ...], *new: KeyRow) -> tuple[KeyRow, ...]:
    """Return rows with others in place of those of the same keys."""
    return (*without(rows, *(one.name for one in new)), *new)


def keys_of(architecture: str, rows: tuple[KeyRow, ...], config: Config) -> Iterator[Key]:
    """Yield the keys that a config gives; a later row of a name counts.

    Raises:
        FormatError: A field is missing or not what it should be.
        UnsupportedError: It says what llama.cpp has no value for.
    """
    found = {row.name: (row.type, row.value(config)) for row in rows}
    for name, (kind, value) in found.items():
        if value is not None:
            is_whole = name.startswith(TOKENIZER)
            yield Key(name if is_whole else f"{architecture}.{name}", kind, value)


def head_dim(config: Config) -> int:
    """Return the width of a head of attention."""
    heads = config.count("num_attention_heads", "n_head", "n_heads")
    return config.whole("head_dim") or config.count("hidden_size", "n_embd", "dim") // heads


def rotary_dim(default: float) -> Callable[[Config], int]:
    """Return what gives the part of a head that is rotated.

    Args:
        default: Part of a head where a config.json does not say it.
    """

    def value(config: Config) -> int:
        part = config.rope().number("partial_rotary_factor")
        if part is not None and not 0 <= part <= 1:
            raise config.wrong(f"is {part}, not from 0 to 1", "partial_rotary_factor")
        heads = config.count("num_attention_heads")
        return int((default if part is None else part) * (config.count("hidden_size") // heads))

    return value


def rope_base_unless(usual: float) -> KeyRow:
    """Return the row of rotary positions' base for a family whose converter does not write it.

    llama.cpp takes 10000 where there is none.
    """

    def value(config: Config) -> float | None:
        base = config.rope().number("rope_theta")
        return None if base == usual else base

    return computed("rope.freq_base", "f32", value, lambda value: {"rope_theta": value})


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

    return KeyRow(f"rope.scaling.{name}", "f32", value, back=lambda found: _rope(fields[0], found))


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
        lambda value: {"num_hidden_layers": value},
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
        lambda value: {"is_causal": value},
    ),
    computed(
        "rope.scaling.type", "string", _scaling, lambda value: _rope("rope_type", value),
    ),
    KeyRow(
        "rope.scaling.factor", "f32", _scaled("linear", "yarn", field="factor"),
        back=lambda value: _rope("factor", value),
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
        lambda value: {"rope_theta": value},
    ),
    computed(
        "rope.freq_base_swa", "f32",
        lambda config: config.rope("sliding_attention").number("rope_theta"),
        lambda value: {"rope_local_base_freq": value},
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
