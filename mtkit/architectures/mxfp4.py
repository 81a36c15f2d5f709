"""What becomes of the experts of gpt-oss: gate and up in turn, and numbers of 4 bits (MXFP4)."""

from __future__ import annotations

from mtkit.architectures.changes import Change
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.architectures.changes import Arrays, Shape, Shapes
    from mtkit.architectures.dims import Dims


class Interleaved(Change):
    """One tensor of the folder whose last axis has elements of two of the GGUF in turn.

    Args:
        transposed: The last two axes are exchanged, too.
    """

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


class Mxfp4(Change):
    """Numbers of 4 bits and a scale for each 32 of them, which are two tensors in the folder.

    A byte of the folder holds neighbors, one of the GGUF a number and the one 16 behind it. Two
    tensors of the GGUF take the rows in turn.
    Source: llama.cpp, conversion/gpt_oss.py (``repack_mxfp4``), ggml-common.h (``block_mxfp4``).
    """

    keeps_order = False
    stores = "MXFP4"

    def sources(self, shapes: Shapes, count: int, dims: Dims) -> list[Shape]:
        """Return the shapes of numbers and of scales.

        Raises:
            FormatError: A row is not a whole number of blocks.
        """
        *more, rows, values = shapes[0]
        if values % 32:
            raise FormatError(f"has rows of {values} numbers, not a multiple of 32", field="MXFP4")
        scales = (*more, rows * len(shapes), values // 32)
        return [(*scales, 16), scales]

    def forward(self, arrays: Arrays, shapes: Shapes, dims: Dims) -> list[Any]:
        """Make blocks: the scale, then the numbers."""
        import numpy as np

        made = []
        for number in range(len(shapes)):
            numbers, scales = (one[:, number :: len(shapes)] for one in arrays)
            first, second = numbers[..., :8], numbers[..., 8:]
            blocks = np.empty((*scales.shape, 17), np.uint8)
            blocks[..., 0] = scales
            blocks[..., 1::2] = (first & 15) | (second << 4)
            blocks[..., 2::2] = (first >> 4) | (second & 0xF0)
            made.append(blocks)
        return made
