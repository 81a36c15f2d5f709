"""The sizes of a model by name: what its metadata say of the axes of its tensors.

The same numbers serve a folder that becomes a GGUF, whose keys are computed first, and a GGUF.
"""

from __future__ import annotations

from mtkit.architectures.keys import TOKENIZER
from mtkit.base.escape import quoted
from mtkit.errors import FormatError
from mtkit.gguf.arrays import GgufArray

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    Axes = str
    """Names of axes, slowest first, as in "q embd"; a number stands for itself."""

_MOST = 1 << 40


class Dims:
    """Sizes in one layer.

    Attributes:
        keys: Metadata without the architecture's name in front, such as ``embedding_length``;
            ``vocab`` is the number of tokens.
        layer: Where a key has a value for each layer, that of this one counts.
        shapes: Of the tensors that are there, in the folder or in the GGUF, by name; empty while
            they are not known.
    """

    def __init__(
        self,
        keys: Mapping[str, Any],
        own: Mapping[str, Callable[[Dims], int]],
        layer: int = 0,
        shapes: Mapping[str, tuple[int, ...]] = {},
    ) -> None:
        self.keys = keys
        self._own = own
        self.layer = layer
        self.shapes = shapes

    @classmethod
    def of(
        cls,
        architecture: str,
        metadata: Mapping[str, Any],
        vocab: int,
        own: Mapping[str, Callable[[Dims], int]],
    ) -> Dims:
        """Return the sizes that the metadata of a GGUF say, of a file or of one in the making.

        Args:
            architecture: As a GGUF calls it.
            metadata: Whole name of a key -> its value.
            vocab: Number of tokens.
            own: Name of an axis -> its size, besides the usual ones.
        """
        start = f"{architecture}."
        found = {
            name.removeprefix(start): _plain(value)
            for name, value in metadata.items()
            if name.startswith(start)
            # The tokenizer's arrays are no sizes, and they are long.
            or (name.startswith(TOKENIZER) and not isinstance(value, (GgufArray, list, tuple)))
        }
        return cls({**found, "vocab": vocab}, own)

    def at(self, layer: int) -> Dims:
        """Return the sizes in another layer."""
        return Dims(self.keys, self._own, layer, self.shapes)

    def among(self, shapes: Mapping[str, tuple[int, ...]]) -> Dims:
        """Return the sizes with the tensors that are there."""
        return Dims(self.keys, self._own, self.layer, shapes)

    def has(self, *names: str) -> bool:
        """Tell whether a tensor of one of the names is there."""
        return any(name in self.shapes for name in names)

    def key(self, name: str, default: int | None = None) -> int:
        """Return the value of a key.

        Raises:
            FormatError: It is missing and there is no default, or it is not a whole number.
        """
        value = self.keys.get(name)
        if value is not None and not isinstance(value, (int, str, float)):
            value = value[self.layer] if self.layer < len(value) else None
        if value is None:
            value = default
        if value is None:
            raise FormatError("is missing", field=name)
        if not isinstance(value, int) or not 0 <= value <= _MOST:
            raise FormatError(f"is {quoted(str(value))}, not a whole number", field=name)
        return int(value)

    def __getitem__(self, name: str) -> int:
        """Return a size by the name of its axis.

        Raises:
            FormatError: The metadata do not say it.
        """
        if name.isdigit():
            return int(name)
        size = (self._own.get(name) or _DIMS[name])(self)
        if not 0 <= size <= _MOST:
            raise FormatError(f"{name} would be {size}", field="config.json")
        return size

    def shape(self, axes: Axes) -> tuple[int, ...]:
        """Return the sizes of several axes."""
        return tuple(self[name] for name in axes.split())


def _plain(value: Any) -> Any:
    if isinstance(value, GgufArray):
        return list(value.numbers() if value.element.code else value)
    return value


def _heads(dims: Dims) -> int:
    return dims.key("attention.head_count")


def _heads_kv(dims: Dims) -> int:
    return dims.key("attention.head_count_kv", dims["head"])


def _width(dims: Dims) -> int:
    heads = dims["head"]
    if not heads:
        raise FormatError("is 0", field="attention.head_count")
    return dims["embd"] // heads


_DIMS: dict[str, Callable[[Dims], int]] = {
    "embd": lambda dims: dims.key("embedding_length"),
    "ff": lambda dims: dims.key("feed_forward_length"),
    "ff*2": lambda dims: 2 * dims["ff"],
    "vocab": lambda dims: dims.key("vocab"),
    "ctx": lambda dims: dims.key("context_length"),
    "head": _heads,
    "head_kv": _heads_kv,
    "key": lambda dims: dims.key("attention.key_length", _width(dims)),
    "value": lambda dims: dims.key("attention.value_length", _width(dims)),
    "q": lambda dims: dims["head"] * dims["key"],
    "k": lambda dims: dims["head_kv"] * dims["key"],
    "v": lambda dims: dims["head_kv"] * dims["value"],
    "out": lambda dims: dims["head"] * dims["value"],
    "qkv": lambda dims: dims["q"] + dims["k"] + dims["v"],
    "expert": lambda dims: dims.key("expert_count"),
    "ff_exp": lambda dims: dims.key("expert_feed_forward_length", dims.key("feed_forward_length")),
    "ff_shexp": lambda dims: dims.key("expert_shared_feed_forward_length"),
    "rope": lambda dims: dims.key("rope.dimension_count", dims["key"]),
    "rope/2": lambda dims: dims["rope"] // 2,
}
"""Name of an axis -> its size; a module of a family adds its own."""
