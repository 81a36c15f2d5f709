"""Models with the tensors of Qwen3 and its experts, and other keys: Mellum 2, Maple.

Source: llama.cpp, conversion/mellum.py, conversion/maple.py.
"""

from __future__ import annotations

from mtkit.architectures.decoder_rows import (
    SLIDING_WINDOW,
    VOCAB_SIZE,
    config_fields,
    layer_types,
    only,
    rotary_part,
)
from mtkit.architectures.families.qwen3 import QWEN3_MOE
from mtkit.architectures.metadata import computed, head_dim
from mtkit.base.record import replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.architectures.config import Config

_TYPES = layer_types(lambda _: False)


def _window(config: Config) -> int | None:
    return None if config.flag("use_sliding_window") is False else config.whole("sliding_window")


def _pattern(config: Config) -> object:
    return None if _window(config) is None else _TYPES.value(config)


def _rotary(config: Config) -> int:
    part = config.rope().number("partial_rotary_factor")
    return int(head_dim(config) * (1.0 if part is None else part))


MELLUM = replace(
    QWEN3_MOE,
    name="mellum",
    classes=("MellumForCausalLM",),
    model_type="mellum",
    keys=(
        *QWEN3_MOE.keys,
        computed("attention.sliding_window", "u32", _window, "sliding_window"),
        computed("attention.sliding_window_pattern", "bool[]", _pattern, _TYPES.back),
    ),
)
MAPLE = replace(
    QWEN3_MOE,
    name="maple",
    classes=("MapleForCausalLM",),
    model_type="maple",
    keys=(
        *QWEN3_MOE.keys,
        VOCAB_SIZE,
        SLIDING_WINDOW,
        _TYPES,
        computed("rope.dimension_count", "u32", _rotary),
        computed("swiglu_clamp_exp", "f32[]", lambda c: [7.0] * c.count("num_hidden_layers")),
    ),
    checks=(
        *QWEN3_MOE.checks, only("num_shared_experts", 0), only("norm_topk_prob", True),
        only("nope_on_global_attention", True),
    ),
    config=config_fields(
        hidden_act="silu", norm_topk_prob=True, nope_on_global_attention=True,
        partial_rotary_factor=rotary_part,
    ),
)  # fmt: skip
