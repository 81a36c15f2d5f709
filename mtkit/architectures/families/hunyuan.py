"""Hunyuan, dense.

Source: llama.cpp, conversion/hunyuan.py (``HunYuanModel``); transformers, models/hunyuan_v1_dense.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    ATTENTION_BIAS,
    DECODER,
    FEED_FORWARD,
    NORMS,
    attention,
    config_fields,
    decoder,
    default_fields,
)
from mtkit.architectures.metadata import KeyRow, computed, with_keys, without_keys
from mtkit.architectures.table import Architecture, row, tied_head
from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config

_CONTEXT = 256 * 1024
"""Context of models whose base is scaled, whatever their config.json says."""


def _is_scaled(config: Config) -> bool:
    """Tell whether the base of rotary positions is scaled for long texts, in whatever text."""
    rope = config.rope()
    kind = rope.text("rope_type")
    if kind in (None, "default"):
        return False
    lengths = (32 * 1024, _CONTEXT)
    context = config.count("max_position_embeddings")
    if kind != "dynamic" or rope.number("rope_theta") != 10000.0 or context not in lengths:
        what = "scales in a way that llama.cpp does not have for Hunyuan"
        raise UnsupportedError(what, source=config.source, field="rope_scaling")
    return True


def _base(config: Config) -> float | None:
    rope = config.rope()
    base = rope.number("rope_theta")
    if base is None or not _is_scaled(config):
        return base
    alpha, width = rope.number("alpha"), config.count("head_dim")
    alpha = 50.0 if alpha is None else alpha
    if not 0 < alpha < 1e9 or width < 4:
        raise rope.wrong("is out of range", "alpha")
    return float(base * alpha ** (width / (width - 2)))


def _if_scaled(name: str, kind: str, value: object) -> KeyRow:
    # What is written back is the scaled base alone, which says the same.
    return computed(name, kind, lambda config: value if _is_scaled(config) else None)


def _context(config: Config) -> int:
    return _CONTEXT if _is_scaled(config) else config.count("max_position_embeddings")


HUNYUAN = Architecture(
    "hunyuan-dense",
    ("HunYuanDenseV1ForCausalLM",),
    "hunyuan_v1_dense",
    with_keys(
        without_keys(
            DECODER,
            "expert_count",
            *(row.name for row in DECODER if row.name.startswith("rope.scaling.yarn_")),
        ),
        computed("context_length", "u32", _context, "max_position_embeddings"),
        computed("rope.freq_base", "f32", _base, "rope_theta"),
        _if_scaled("rope.scaling.type", "string", "none"),
        _if_scaled("rope.scaling.factor", "f32", 1.0),
        _if_scaled("rope.scaling.original_context_length", "u32", _CONTEXT),
    ),
    decoder(
        NORMS,
        attention(),
        row("self_attn.query_layernorm", "attn_q_norm", "key", bias=False),
        row("self_attn.key_layernorm", "attn_k_norm", "key", bias=False),
        FEED_FORWARD,
    ),
    defaults=default_fields(2048, rms_norm_eps=1e-5),
    skips=tied_head,
    config=config_fields(hidden_act="silu", attention_bias=ATTENTION_BIAS),
)
