"""What becomes of the values of a tensor between a HuggingFace folder and a GGUF, both ways.

Arrays have the slowest axis first. A change that only moves values works on their bits, so that
nothing is rounded; one that computes does so in float32.
"""

from __future__ import annotations

from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.architectures.metadata import Axes, Dims

    Shape = tuple[int, ...]

    Arrays = Sequence[Any]

    Shapes = Sequence[Shape]


class Change:
    """No change: the values of several tensors are stacked one behind the other.

    Attributes:
        computes: It takes and gives float32; else it moves values of any type.
        keeps_order: The values of the sources, one tensor after the other, are those of the target.
        stores: Type in the GGUF, whose bytes it gives; empty: as for every tensor.
        takes: Types in the folder that it takes; empty: all of numbers.
        slack: Tolerated difference, in units in the last place, between math libraries.
        moves_rows: It moves whole rows, so it applies to the B of an adapter as well.
        narrows: The tensor gets the type of matrices, though one of its name stays F32 elsewhere.
    """

    computes = False
    keeps_order = True
    stores = ""
    takes: tuple[str, ...] = ()
    slack = 0
    moves_rows = False
    narrows = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shapes in the folder of ``count`` tensors with these shapes in the GGUF."""
        return list(shapes) if count == 1 else [shapes[0][1:]] * count

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Return the arrays of the GGUF, which have the given shapes."""
        raise NotImplementedError

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Return the arrays of the folder, which have the given shapes."""
        raise NotImplementedError


SAME = Change()


class Transposed(Change):
    """A matrix with its axes exchanged, as GPT-2's Conv1D has them; a vector as it is.

    Args:
        folder: Axes of the tensor in the folder, where they are not those of the GGUF exchanged.
    """

    keeps_order = False

    def __init__(self, folder: Axes = "") -> None:
        self._folder = folder

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the last two axes exchanged."""
        return [dims.shape(self._folder)] if self._folder else [_exchanged(s) for s in shapes]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Exchange the axes."""
        return [
            _swap(array.reshape(_exchanged(shape)))
            for array, shape in zip(arrays, shapes, strict=True)
        ]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Exchange them again."""
        return [_swap(array).reshape(shape) for array, shape in zip(arrays, shapes, strict=True)]


def _exchanged(shape: Shape) -> Shape:
    return shape if len(shape) < 2 else (*shape[:-2], shape[-1], shape[-2])


def _swap(array: Any) -> Any:
    return array if array.ndim < 2 else array.swapaxes(-1, -2)


class Reshaped(Change):
    """The same values in a shape of other axes, as convolutions have one of a single element."""

    def __init__(self, axes: Axes) -> None:
        self._axes = axes

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape in the folder."""
        return [dims.shape(self._axes)]


class Behind(Change):
    """Drops the first rows, which are never looked up; they come back as zeros."""

    keeps_order = False

    def __init__(self, rows: int) -> None:
        self._rows = rows

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape with the first rows."""
        return [(shape[0] + self._rows, *shape[1:]) for shape in shapes]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Leave the first rows out."""
        return [array[self._rows :] for array in arrays]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Put zeros in front."""
        import numpy as np

        padding = ((self._rows, 0), (0, 0))
        return [np.pad(array, padding) for array in arrays]


class PickedRows(Change):
    """Some rows of a matrix, in an order of their own; the others are lost."""

    keeps_order = False

    def __init__(self, rows: tuple[int, ...]) -> None:
        self._rows = list(rows)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Pick them."""
        return [array[self._rows] for array in arrays]


class Split(Change):
    """One tensor of the folder that is several in the GGUF, cut along an axis.

    Args:
        axis: Of the tensors in the GGUF, from behind (-1, -2 …).
        transposed: Whether the last two axes are exchanged in the folder.
    """

    keeps_order = False

    def __init__(self, axis: int, *, transposed: bool = False) -> None:
        self._axis, self._transposed = axis, transposed
        self.moves_rows = axis == -2 and not transposed

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of all together."""
        whole = list(shapes[0])
        whole[self._axis] = sum(shape[self._axis] for shape in shapes)
        if self._transposed:
            whole[-2:] = whole[-1], whole[-2]
        return [tuple(whole)]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Cut."""
        import numpy as np

        (array,) = arrays
        if self._transposed:
            array = array.swapaxes(-1, -2)
        ends = np.cumsum([shape[self._axis] for shape in shapes])
        return list(np.split(array, ends[:-1], self._axis))

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Join."""
        import numpy as np

        array = np.concatenate(arrays, self._axis)
        return [array.swapaxes(-1, -2) if self._transposed else array]


class Computed(Change):
    """Values computed in float32, element by element.

    Args:
        folder: Axes of the tensor in the folder, where they differ.
    """

    computes = True
    keeps_order = False

    def __init__(
        self,
        forward: Callable[[Any], Any],
        back: Callable[[Any], Any],
        slack: int = 0,
        folder: Axes = "",
    ) -> None:
        self._forward, self._back, self._folder = forward, back, folder
        self.slack = slack

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape in the folder."""
        return [dims.shape(self._folder)] if self._folder else list(shapes)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Compute the GGUF's values."""
        pairs = zip(arrays, shapes, strict=True)
        return [self._forward(array).reshape(shape) for array, shape in pairs]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Compute the folder's values."""
        pairs = zip(arrays, shapes, strict=True)
        return [self._back(array).reshape(shape) for array, shape in pairs]


PLUS_ONE = Computed(lambda array: array + 1, lambda array: array - 1)
"""The weight of a norm that the folder holds as its distance from 1."""


def _decay(array: Any) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return -np.exp(array.astype(np.float64)).astype(np.float32)


def _log_decay(array: Any) -> Any:
    import numpy as np

    with np.errstate(all="ignore"):
        return np.log(-array.astype(np.float64)).astype(np.float32)


LOG_DECAY = (_decay, _log_decay, 1)
DECAY = Computed(*LOG_DECAY)
"""The decay of a state, which the folder holds as its logarithm."""


class Scaled(Change):
    """Values times numbers of config.json, which a GGUF has no keys for: it holds the products.

    Args:
        fields: Names of the numbers; behind a dot the place in a list.
        parts: Rows that are scaled besides: a field with a number for each, and their axes.
    """

    computes = True
    keeps_order = False

    def __init__(self, *fields: str, parts: tuple[str, tuple[Axes, ...]] | None = None) -> None:
        self._fields, self._parts = fields, parts

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Multiply, one number after the other."""
        import numpy as np

        (array,) = arrays
        for field in self._fields:
            name, _, place = field.partition(".")
            numbers = dims.keys[name]
            array = array * np.float32(numbers[int(place)] if place else numbers)
        if self._parts:
            field, axes = self._parts
            sizes = [dims[name] for name in axes]
            factors = np.repeat(np.float32(dims.keys[field]), sizes)
            array = array * factors[:, None]
        return [array]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Leave the products, whose numbers are 1."""
        return list(arrays)


class Permuted(Change):
    """Rows of heads, whose rotary pairs are halves apart in the folder and neighbors in the GGUF.

    Source: llama.cpp, conversion/llama.py (``LlamaModel.permute``).
    """

    keeps_order = False
    moves_rows = True

    def __init__(self, heads: str) -> None:
        self._heads = heads

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the same shape."""
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


class SplitHeads(Split):
    """One tensor of query, key and value that are three in the GGUF, with pairs as ``Permuted``."""

    def __init__(self) -> None:
        super().__init__(-2)

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Cut, and bring pairs together."""
        query, key, value = super().forward(arrays, shapes, dims)
        pairs = (Permuted("head"), query), (Permuted("head_kv"), key)
        return [*(change.forward([part], shapes, dims)[0] for change, part in pairs), value]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Take pairs apart, and join."""
        query, key, value = arrays
        pairs = (Permuted("head"), query), (Permuted("head_kv"), key)
        parts = [change.back([part], shapes, dims)[0] for change, part in pairs]
        return super().back([*parts, value], shapes, dims)


class Joined(Change):
    """Rows of several tensors of the folder, of equal shapes, one behind the other."""

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of each."""
        rows, *more = shapes[0]
        return [(rows // count, *more)] * count

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Join."""
        import numpy as np

        return [np.concatenate(arrays)]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Cut."""
        import numpy as np

        return list(np.split(arrays[0], len(shapes)))


class GroupedQkv(Change):
    """Rows of query, key and value: group by group in the folder, each part whole in the GGUF.

    A group is the heads of the query that share a head of key and value, and these two.
    Source: llama.cpp, conversion/falcon.py, conversion/bloom.py.
    """

    keeps_order = False
    moves_rows = True

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the same shapes."""
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


class Interleaved(Change):
    """One tensor of the folder whose last axis has elements of two of the GGUF in turn."""

    keeps_order = False

    def __init__(self, *, transposed: bool = False) -> None:
        self._transposed = transposed

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of both together."""
        first = shapes[0]
        if self._transposed:
            first = (*first[:-2], first[-1], first[-2])
        return [(*first[:-1], 2 * first[-1])]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Take every other element."""
        parts = [arrays[0][..., number::2] for number in range(2)]
        return [part.swapaxes(-1, -2) for part in parts] if self._transposed else parts

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Put the elements in turn."""
        import numpy as np

        parts = [array.swapaxes(-1, -2) for array in arrays] if self._transposed else arrays
        return [np.stack(list(parts), -1).reshape(shapes[0])]


class _Whole(Change):
    """Whole numbers that are I32 in the GGUF."""

    keeps_order = False
    stores = "I32"
    takes = ("I64", "I32")

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Narrow them."""
        return [array.astype("<i4") for array in arrays]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Widen them."""
        return [array.astype("<i8") for array in arrays]


TO_I32 = _Whole()


class Mxfp4(Change):
    """Numbers of 4 bits and a scale for each 32 of them, which are two tensors in the folder.

    A byte of the folder holds neighbors, one of the GGUF a number and the one 16 behind it. Two
    tensors of the GGUF take the rows in turn.
    Source: llama.cpp, conversion/gpt_oss.py (``repack_mxfp4``), ggml-common.h (``block_mxfp4``).
    """

    keeps_order = False
    stores = "MXFP4"
    takes = ("U8",)

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shapes of numbers and of scales."""
        *more, rows, values = shapes[0]
        if values % 32:
            raise FormatError(f"has rows of {values} numbers, not a multiple of 32", field="MXFP4")
        scales = (*more, rows * len(shapes), values // 32)
        return [(*scales, 16), scales]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Make blocks."""
        tensors = []
        for number in range(len(shapes)):
            numbers, scales = (array[:, number :: len(shapes)] for array in arrays)
            tensors.append(mxfp4_blocks(numbers, scales))
        return tensors


def mxfp4_blocks(pairs: Any, scales: Any) -> Any:
    """Return blocks: the scale, then the numbers, of which ``pairs`` has neighbors in a byte."""
    import numpy as np

    first, second = pairs[..., :8], pairs[..., 8:]
    blocks = np.empty((*scales.shape, 17), np.uint8)
    blocks[..., 0] = scales
    blocks[..., 1::2] = (first & 15) | (second << 4)
    blocks[..., 2::2] = (first >> 4) | (second & 0xF0)
    return blocks
