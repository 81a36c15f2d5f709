"""Gated linear attention (Gated DeltaNet), as Qwen3-Next and Qwen 3.5 have it in most layers.

Heads of values share heads of keys. Values stand key by key in a folder; in the GGUF of Qwen 3.5
they stand in turns, a value of each key after the other, as ggml repeats.
Source: llama.cpp, conversion/qwen.py (``Qwen3NextModel``, ``_LinearAttentionVReorderBase``).
"""

from __future__ import annotations

from mtkit.architectures.changes import SAME, Change
from mtkit.architectures.metadata import computed, u32
from mtkit.architectures.next_tokens import is_next
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from mtkit.architectures.config import Config
    from mtkit.architectures.metadata import Axes, Dims

    Shape = tuple[int, ...]
    Arrays = Sequence[Any]
    Shapes = Sequence[Shape]


_KINDS = ("full_attention", "linear_attention")


def _inner(config: Config) -> int:
    return config.count("linear_value_head_dim") * config.count("linear_num_value_heads")


def _recurrent(config: Config) -> list[bool] | None:
    """Return for each layer whether its attention is linear, where config.json says it."""
    kinds, layers = config.get("layer_types"), config.count("num_hidden_layers")
    if kinds is None:
        return None
    if not isinstance(kinds, list) or len(kinds) != layers:
        raise config.wrong(f"is not a list of {layers}", "layer_types")
    next_layers = min(config.whole("mtp_num_hidden_layers") or 0, layers)
    return [kind == _KINDS[True] for kind in kinds] + [False] * next_layers


def layer_kinds(config: Config) -> list[str]:
    """Return transformers' kinds of layers for a config.json that has none."""
    period = config.whole("full_attention_interval") or 4
    layers = range(min(config.count("num_hidden_layers"), 1 << 16))
    return [_KINDS[bool((layer + 1) % period)] for layer in layers]


RECURRENT = "attention.recurrent_layers"
LINEAR_KEYS = (
    u32("ssm.conv_kernel", "linear_conv_kernel_dim"),
    u32("ssm.state_size", "linear_key_head_dim"),
    u32("ssm.group_count", "linear_num_key_heads"),
    u32("ssm.time_step_rank", "linear_num_value_heads"),
    computed("ssm.inner_size", "u32", _inner),
    computed(RECURRENT, "bool[]", _recurrent),
    u32("full_attention_interval", "full_attention_interval"),
)


def is_linear(dims: Dims) -> bool:
    """Tell whether the attention of a layer is linear."""
    recurrent = dims.keys.get(RECURRENT)
    if recurrent is not None:
        return dims.layer < len(recurrent) and bool(recurrent[dims.layer])
    period = dims.key("full_attention_interval", 0)
    return not is_next(dims) and bool(period) and (dims.layer + 1) % period != 0


def is_full(dims: Dims) -> bool:
    """Tell whether the attention of a layer sees all tokens."""
    return not is_linear(dims)


def linear_fields(dims: Dims) -> dict[str, Any]:
    """Return the fields of config.json that no key gives back by itself."""
    layers = dims.key("block_count") - dims.key("nextn_predict_layers", 0)
    return {
        "linear_value_head_dim": dims["linear_value"],
        "layer_types": [_KINDS[is_linear(dims.at(layer))] for layer in range(layers)],
    }


def _value(dims: Dims) -> int:
    heads = dims["linear_heads"]
    if not heads or not dims["linear_groups"] or heads % dims["linear_groups"]:
        what = f"is {heads}, not a multiple of {dims['linear_groups']} heads of keys"
        raise FormatError(what, field="ssm.time_step_rank")
    return dims["linear_inner"] // heads


LINEAR_DIMS = {
    "linear_kernel": lambda dims: dims.key("ssm.conv_kernel"),
    "linear_key": lambda dims: dims.key("ssm.state_size"),
    "linear_groups": lambda dims: dims.key("ssm.group_count"),
    "linear_heads": lambda dims: dims.key("ssm.time_step_rank"),
    "linear_2heads": lambda dims: 2 * dims.key("ssm.time_step_rank"),
    "linear_inner": lambda dims: dims.key("ssm.inner_size"),
    "linear_value": _value,
    "linear_keys": lambda dims: 2 * dims["linear_key"] * dims["linear_groups"],
    "linear_qkv": lambda dims: dims["linear_keys"] + dims["linear_inner"],
    "2q": lambda dims: 2 * dims["q"],
}


class GroupedQkvz(Change):
    """Rows of query, key, value and gate, head of keys by head; in the GGUF each part is whole.

    The first three are one tensor there, the gate is another.
    """

    keeps_order = False
    moves_rows = True

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of all together."""
        (first, *more), (second, *_) = shapes
        return [(first + second, *more)]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Bring together what is of one kind."""
        import numpy as np

        (array,) = arrays
        groups = array.reshape(dims["linear_groups"], -1, *array.shape[1:])
        parts = np.split(groups, np.cumsum(self._widths(dims))[:-1], 1)
        query, key, value, gate = (part.reshape(-1, *array.shape[1:]) for part in parts)
        return [np.concatenate([query, key, value]), gate]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Bring together what is of one head of keys."""
        import numpy as np

        joined, gate = arrays
        keys = dims["linear_keys"]
        parts = (*np.split(joined, (keys // 2, keys)), gate)
        groups = [part.reshape(dims["linear_groups"], -1, *joined.shape[1:]) for part in parts]
        return [np.concatenate(groups, 1).reshape(shapes[0])]

    def _widths(self, dims: Dims) -> tuple[int, int, int, int]:
        values = dims["linear_inner"] // dims["linear_groups"]
        return dims["linear_key"], dims["linear_key"], values, values


class InTurns(Change):
    """Heads of values along an axis, key by key in the folder, in turns in the GGUF.

    Args:
        width: Name of the axis of a head's elements.
        lead: Name of the axis of what stands in front and stays.
        axis: Of the tensor.
        folder: Axes of the tensor in the folder, where they differ.
        values: What becomes of the values besides.
    """

    keeps_order = False

    def __init__(
        self, width: str, lead: str = "", *, axis: int = 0, folder: Axes = "", values: Change = SAME
    ) -> None:
        self._width, self._lead, self._axis = width, lead, axis
        self._folder, self._values = folder, values
        self.computes, self.slack = values.computes, values.slack
        self.moves_rows = not axis and not folder and values is SAME

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape in the folder."""
        return [dims.shape(self._folder)] if self._folder else list(shapes)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Take a value of each key in turn."""
        if self._values is not SAME:
            arrays = self._values.forward(arrays, shapes, dims)
        groups, heads = dims["linear_groups"], dims["linear_heads"]
        return [self._exchange(arrays[0].reshape(shapes[0]), groups, heads // groups, dims)]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Bring together the values of a key."""
        groups, heads = dims["linear_groups"], dims["linear_heads"]
        array = self._exchange(arrays[0], heads // groups, groups, dims).reshape(shapes[0])
        return [array] if self._values is SAME else self._values.back([array], shapes, dims)

    def _exchange(self, array: Any, outer: int, inner: int, dims: Dims) -> Any:
        import numpy as np

        array = array.swapaxes(0, self._axis)
        start = dims[self._lead] if self._lead else 0
        front, values = array[:start], array[start:]
        split = values.reshape(outer, inner, dims[self._width], *array.shape[1:])
        values = split.swapaxes(0, 1).reshape(values.shape)
        return np.concatenate([front, values]).swapaxes(0, self._axis)
