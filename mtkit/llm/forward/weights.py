"""The tensors of a model folder as they are computed with: float32, a block of rows at a time."""

from __future__ import annotations

from mtkit.base.escape import quoted
from mtkit.errors import FormatError
from mtkit.gguf.values import decoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.checkpoints.folder_files import Stored

_BLOCK = 1 << 21
"""Values in memory at once, 8 MB of float32; rounding them takes a few times that."""
_PREFIX = "model."
"""Missing in front of all names where a model was published without its head."""


class Weights:
    """Tensors by name.

    Attributes:
        left: Names of those that nothing has asked for yet.
    """

    def __init__(self, tensors: Mapping[str, Stored]) -> None:
        self._tensors = tensors
        self.left = set(tensors)

    def has(self, name: str) -> bool:
        """Whether there is such a tensor."""
        return self._real(name) in self._tensors

    def _real(self, name: str) -> str:
        short = name.removeprefix(_PREFIX)
        return short if name not in self._tensors and short in self._tensors else name

    def _stored(self, name: str, shape: tuple[int, ...]) -> Stored:
        name = self._real(name)
        found = self._tensors.get(name)
        if found is None:
            raise FormatError(f"there is no tensor {quoted(name)}")
        if found.weight.shape != shape:
            what = f"has the shape {list(found.weight.shape)}, but config.json says {list(shape)}"
            raise FormatError(what, field=f"tensor {quoted(name)}")
        self.left.discard(name)
        return found

    def vector(self, name: str, size: int) -> Any:
        """Return a tensor of one axis: float32 of shape (size,).

        Raises:
            FormatError: It is missing or has another shape.
        """
        return _floats(self._stored(name, (size,)), 0, size)

    def block(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Any:
        """Return rows of a matrix: float32 of shape (stop - start, columns).

        Args:
            name: Of the matrix.
            shape: Of the whole matrix.
            start: First row.
            stop: Behind the last row.

        Raises:
            FormatError: It is missing or has another shape.
        """
        _, columns = shape
        found = self._stored(name, shape)
        return _floats(found, start * columns, stop * columns).reshape(-1, columns)

    def rows(self, name: str, shape: tuple[int, int], numbers: Sequence[int]) -> Any:
        """Return single rows of a matrix: float32 of shape (rows, columns)."""
        import numpy as np

        return np.concatenate([self.block(name, shape, one, one + 1) for one in numbers])

    def product(self, x: Any, name: str, size: int) -> Any:
        """Return what a linear layer makes of rows: float32 of shape (rows, size).

        Args:
            x: Float32 of shape (rows, columns).
            name: Of the layer; its bias counts where it has one.
            size: Rows of its matrix.
        """
        import numpy as np

        columns = x.shape[1]
        step = max(_BLOCK // max(columns, 1), 1)
        out = np.empty((len(x), size), np.float32)
        for at in range(0, size, step):
            stop = min(at + step, size)
            part = self.block(f"{name}.weight", (size, columns), at, stop)
            np.matmul(x, part.T, out=out[:, at:stop])
        if self.has(f"{name}.bias"):
            out += self.vector(f"{name}.bias", size)
        return out


def _floats(stored: Stored, start: int, stop: int) -> Any:
    import numpy as np

    count = stored.weight.n_elements
    size = len(stored.data) // count if count else 0
    raw = np.frombuffer(stored.data[start * size : stop * size], np.uint8)
    return decoded(raw, stored.weight.type)
