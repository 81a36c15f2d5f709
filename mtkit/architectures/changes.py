"""What becomes of the values of a tensor between a HuggingFace folder and a GGUF, both ways.

Arrays have the slowest axis first. What only moves values works on their bits, so that nothing is
rounded; what computes does so in float32.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.architectures.dims import Axes, Dims

    Shape = tuple[int, ...]
    Arrays = Sequence[Any]
    Shapes = Sequence[Shape]


class Change:
    """Values as they are: those of several tensors stand one behind the other.

    Attributes:
        computes: It takes and gives float32; else it moves values of any type.
        keeps_order: The values of the sources, one tensor after the other, are those of the target.
        stores: Type in the GGUF, whose bytes it gives; empty: as for every tensor.
        slack: Tolerated difference, in units in the last place, between math libraries.
        moves_rows: It moves whole rows of one matrix, whatever is in them.
    """

    computes = False
    keeps_order = True
    stores = ""
    slack = 0
    moves_rows = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shapes in the folder of what has these shapes in the GGUF.

        Args:
            shapes: Of the tensors of the GGUF.
            count: How many tensors of the folder they are made of.
            dims: Sizes in the layer.
        """
        return list(shapes) if count == 1 else [shapes[0][1:]] * count

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Return the arrays of the GGUF, which have the given shapes."""
        raise NotImplementedError

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Return the arrays of the folder, which have the given shapes."""
        raise NotImplementedError


SAME = Change()


class Transposed(Change):
    """A matrix with its axes exchanged, as GPT-2's Conv1D has them; a vector as it is."""

    keeps_order = False

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the last two axes exchanged."""
        return [
            shape if len(shape) < 2 else (*shape[:-2], shape[-1], shape[-2]) for shape in shapes
        ]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Exchange the axes."""
        return [array if array.ndim < 2 else array.swapaxes(-1, -2) for array in arrays]

    back = forward


class Reshaped(Change):
    """The same values in a shape of other axes, as convolutions have one of a single element.

    Attributes:
        axes: In the folder.
    """

    def __init__(self, axes: Axes) -> None:
        self._axes = axes

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape in the folder."""
        return [dims.shape(self._axes)]


class Behind(Change):
    """Drops the first rows, which are never looked up; they come back as zeros.

    Args:
        rows: How many they are.
    """

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


class Split(Change):
    """One tensor of the folder that is several in the GGUF, cut along an axis.

    Args:
        axis: Of the folder's tensor, from behind (-1, -2 …).
    """

    keeps_order = False

    def __init__(self, axis: int) -> None:
        self._axis = axis
        self.moves_rows = axis == -2

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shape of all together."""
        whole = list(shapes[0])
        whole[self._axis] = sum(shape[self._axis] for shape in shapes)
        return [tuple(whole)]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Cut."""
        import numpy as np

        ends = np.cumsum([shape[self._axis] for shape in shapes])
        return list(np.split(arrays[0], ends[:-1], self._axis))

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Join."""
        import numpy as np

        return [np.concatenate(arrays, self._axis)]


class Computed(Change):
    """Values computed in float32, element by element."""

    computes = True
    keeps_order = False

    def __init__(
        self, forward: Callable[[Any], Any], back: Callable[[Any], Any], slack: int = 0
    ) -> None:
        self._forward, self._back = forward, back
        self.slack = slack

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Compute the GGUF's values."""
        return [self._forward(array) for array in arrays]

    def back(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Compute the folder's values."""
        return [self._back(array) for array in arrays]


PLUS_ONE = Computed(lambda array: array + 1, lambda array: array - 1)
"""The weight of a norm that the folder holds as its distance from 1."""
