"""What becomes of the rows of attention's heads."""

from __future__ import annotations

from mtkit.architectures.changes import Change
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.dims import Dims


class Permuted(Change):
    """Rows of heads, whose rotary pairs are halves apart in the folder and neighbors in the GGUF.

    Source: llama.cpp, conversion/llama.py (``LlamaModel.permute``).
    """

    keeps_order = False
    moves_rows = True

    def __init__(self, heads: str) -> None:
        self._heads = heads

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the same shape.

        Raises:
            FormatError: The rows are not those of heads of an even width.
        """
        heads = dims[self._heads]
        if not heads or shapes[0][0] % (2 * heads):
            what = f"{shapes[0][0]} rows are not those of {heads} heads of an even width"
            raise FormatError(what, field="head_dim")
        return list(shapes)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Bring the two elements of a pair together."""
        (array,) = arrays
        heads = dims[self._heads]
        halves = array.reshape(heads, 2, len(array) // heads // 2, *array.shape[1:])
        return [halves.swapaxes(1, 2).reshape(array.shape)]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Take the two elements of a pair apart."""
        (array,) = arrays
        heads = dims[self._heads]
        pairs = array.reshape(heads, len(array) // heads // 2, 2, *array.shape[1:])
        return [pairs.swapaxes(1, 2).reshape(array.shape)]


class GroupedQkv(Change):
    """Rows of query, key and value: group by group in the folder, each part whole in the GGUF.

    A group is the heads of the query that share a head of key and value, and these two.
    Source: llama.cpp, conversion/falcon.py, conversion/bloom.py.
    """

    keeps_order = False
    moves_rows = True

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the same shapes.

        Raises:
            FormatError: Heads do not fall into groups.
        """
        heads, groups = dims["head"], dims["head_kv"]
        if not groups or heads % groups or not dims["key"]:
            what = f"is {groups}, which does not divide {heads} heads"
            raise FormatError(what, field="attention.head_count_kv")
        return list(shapes)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Bring together what is of one kind."""
        import numpy as np

        (array,) = arrays
        groups = array.reshape(dims["head_kv"], -1, dims["key"], *array.shape[1:])
        parts = (groups[:, :-2], groups[:, -2], groups[:, -1])
        return [np.concatenate([part.reshape(-1, *array.shape[1:]) for part in parts])]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Bring together what is of one group."""
        import numpy as np

        (array,) = arrays
        parts = np.split(array, (dims["q"], dims["q"] + dims["k"]))
        lead = dims["head_kv"]
        groups = [part.reshape(lead, -1, dims["key"], *array.shape[1:]) for part in parts]
        return [np.concatenate(groups, 1).reshape(array.shape)]


class Widening(Change):
    """Rows of all heads: of each those of its keys, then of its values; the keys' are transposed.

    Source: llama.cpp, conversion/deepseek.py (``DeepseekV2Model.modify_tensors``).
    """

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of all heads together."""
        (heads, rank, keys), (_, values, _) = shapes
        return [(heads * (keys + values), rank)]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Part keys and values."""
        (heads, rank, keys), (_, values, _) = shapes
        both = arrays[0].reshape(heads, keys + values, rank)
        return [both[:, :keys].swapaxes(1, 2), both[:, keys:]]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Join keys and values."""
        import numpy as np

        keys, values = arrays
        return [np.concatenate([keys.swapaxes(1, 2), values], 1).reshape(shapes[0])]
