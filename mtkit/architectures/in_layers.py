"""The rows of an architecture in each layer: names and shapes, whether or not they are there."""

from __future__ import annotations

from mtkit.architectures.table import ANY_LAYER, COUNTS
from mtkit.base.record import Record
from mtkit.errors import FormatError, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mtkit.architectures.changes import Shape
    from mtkit.architectures.dims import Dims
    from mtkit.architectures.table import Architecture, Row

_MOST = 1 << 16


class Match(Record):
    """A row in a layer.

    Attributes:
        row: The row.
        dims: Sizes in its layer.
        folder: Names in the folder, with what stands in front of them there.
        gguf: Names in the GGUF.
        folder_shapes: Slowest axis first.
        gguf_shapes: Slowest axis first.
    """

    row: Row
    dims: Dims
    folder: tuple[str, ...]
    gguf: tuple[str, ...]
    folder_shapes: tuple[Shape, ...]
    gguf_shapes: tuple[Shape, ...]

    def forward(self, arrays: list[Any]) -> list[Any]:
        """Return the arrays of the GGUF."""
        return self.row.change.forward(arrays, self.gguf_shapes, self.dims)

    def back(self, arrays: list[Any]) -> list[Any]:
        """Return the arrays of the folder."""
        return self.row.change.back(arrays, self.folder_shapes, self.dims)


def every_match(
    architecture: Architecture, dims: Dims, most_layers: int = _MOST, most_experts: int = _MOST
) -> Iterator[Match]:
    """Yield the rows of an architecture in each layer, the optional ones as well.

    Args:
        architecture: Of the model.
        dims: Its sizes.
        most_layers: A model with more cannot be meant.
        most_experts: Likewise.

    Raises:
        FormatError: The metadata do not say the sizes, or say one that cannot be meant.
    """
    layers = layer_count(dims, most_layers)
    for row in architecture.rows:
        is_of_layer = any(ANY_LAYER in name for name in row.gguf)
        for layer in range(layers if is_of_layer else 1):
            at = dims.at(layer)
            if row.layers is None or row.layers(at):
                yield match_of(row, at, layer, most_experts)


def match_of(row: Row, dims: Dims, layer: int, most: int) -> Match:
    """Return a row in a layer; a model with more than so many experts cannot be meant.

    Raises:
        FormatError: The metadata do not say the sizes, or say one that cannot be meant.
    """
    folder = tuple(
        name.replace(ANY_LAYER, str(layer))
        for pattern in row.folder
        for name in _each(pattern, dims, most)
    )
    gguf = tuple(name.replace(ANY_LAYER, str(layer)) for name in row.gguf)
    shapes = tuple(dims.shape(axes) for axes in row.axes)
    sources = row.change.sources(shapes, len(folder), dims)
    return Match(row, dims, folder, gguf, tuple(sources), shapes)


def _each(name: str, dims: Dims, most: int) -> list[str]:
    """Return the names of all experts, or heads, where a name stands for several."""
    for part, key in COUNTS.items():
        if part in name:
            return [name.replace(part, str(one)) for one in range(_bounded(dims, key, most))]
    return [name]


def layer_count(dims: Dims, most: int) -> int:
    """Return how many layers there are; a decoder beside an encoder has a number of its own."""
    decoder = "decoder_block_count"
    layers = _bounded(dims, "block_count", most)
    return max(layers, _bounded(dims, decoder, most)) if decoder in dims.keys else layers


def _bounded(dims: Dims, key: str, most: int) -> int:
    """Return a count; one above the number of tensors cannot be true."""
    count = dims.key(key)
    if count > most:
        raise FormatError(f"is {count}, but the model has {counted(most, 'tensor')}", field=key)
    return count
