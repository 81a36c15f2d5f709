"""State-space layers: those of Mamba 2, by the axes that their keys give.

A head has one decay.
Source: llama.cpp, conversion/mamba.py (``Mamba2Model``), src/models/mamba2.cpp.
"""

from __future__ import annotations

from mtkit.architectures.changes import LOG_DECAY, SAME, Computed, Reshaped
from mtkit.architectures.metadata import computed, u32
from mtkit.architectures.table import block, plain, row

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.architectures.changes import Change
    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Dims, KeyRow
    from mtkit.architectures.table import Rows

INNER = "ssm.inner_size"


def ssm_keys(
    kernel: str, state: str, groups: str, heads: str, inner: Callable[[Config], int]
) -> tuple[KeyRow, ...]:
    """Return the rows of the sizes, by the fields of config.json."""
    return (
        u32("ssm.conv_kernel", kernel),
        u32("ssm.state_size", state),
        u32("ssm.group_count", groups),
        u32("ssm.time_step_rank", heads),
        computed(INNER, "u32", inner),
    )


def mixer(folder: str, first: Change = SAME, last: Change = SAME) -> Rows:
    """Return the rows of a layer's mixer.

    Args:
        first: What becomes of the projection in.
        last: What becomes of the projection out.
    """
    return block(
        folder,
        row("in_proj", "ssm_in", "ssm_in embd", first, bias=False),
        plain(
            "conv1d.weight",
            "ssm_conv1d.weight",
            "ssm_conv ssm_kernel",
            Reshaped("ssm_conv 1 ssm_kernel"),
        ),
        plain("conv1d.bias", "ssm_conv1d.bias", "ssm_conv", optional=True),
        plain("dt_bias", "ssm_dt.bias", "ssm_heads"),
        plain("A_log", "ssm_a", "ssm_heads 1", Computed(*LOG_DECAY, folder="ssm_heads")),
        plain("D", "ssm_d", "ssm_heads 1", Reshaped("ssm_heads")),
        row("out_proj", "ssm_out", "embd ssm_inner", last, bias=False),
        gguf="",
    )


def mixer_norm(folder: str, *, optional: bool = False) -> Rows:
    """Return the row of the norm behind the states, group by group."""
    return row(
        folder,
        "ssm_norm",
        "ssm_groups ssm_group",
        Reshaped("ssm_inner"),
        bias=False,
        optional=optional,
    )


SSM_DIMS: dict[str, Callable[[Dims], int]] = {
    "ssm_kernel": lambda dims: dims.key("ssm.conv_kernel"),
    "ssm_heads": lambda dims: dims.key("ssm.time_step_rank"),
    "ssm_inner": lambda dims: dims.key(INNER),
    "ssm_groups": lambda dims: dims.key("ssm.group_count"),
    "ssm_group": lambda dims: dims["ssm_inner"] // max(dims["ssm_groups"], 1),
    "ssm_part": lambda dims: dims["ssm_groups"] * dims.key("ssm.state_size"),
    "ssm_conv": lambda dims: dims["ssm_inner"] + 2 * dims["ssm_part"],
    "ssm_in": lambda dims: dims["ssm_inner"] + dims["ssm_conv"] + dims["ssm_heads"],
}


def head_width(dims: Dims) -> int:
    """Return the width of a head of states."""
    return dims["ssm_inner"] // max(dims["ssm_heads"], 1)


def is_recurrent(dims: Dims) -> bool:
    """Tell whether a layer has states, which one without heads of keys has."""
    return not dims["head_kv"]


def is_attention(dims: Dims) -> bool:
    """Tell whether a layer has attention."""
    return bool(dims["head_kv"])


def heads_where(is_full: Callable[[Config], list[bool]]) -> KeyRow:
    """Return the row of the heads of keys in each layer, 0 where there are states."""

    def value(config: Config) -> list[int]:
        heads = config.count("num_key_value_heads")
        return [heads * full for full in is_full(config)]

    def back(heads: Any) -> dict[str, Any]:
        return {"num_key_value_heads": max(heads, default=0)}

    return computed("attention.head_count_kv", "i32[]", value, back)


def layer_list(dims: Dims) -> list[bool]:
    """Return for each layer whether it has attention."""
    return [is_attention(dims.at(layer)) for layer in range(dims.key("block_count"))]


def periodic(config: Config, period: str, offset: str) -> list[bool]:
    """Return for each layer whether it is one of a period."""
    layers = min(config.count("num_hidden_layers"), 1 << 16)
    each, first = config.count(period), config.whole(offset) or 0
    return [layer % each == first for layer in range(layers)]
