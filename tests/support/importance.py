"""Importance matrices for quantizing, made for the tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from mtkit.gguf import open_gguf
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes

if TYPE_CHECKING:
    from pathlib import Path

F32 = TENSOR_TYPES[0]


def importance(model: Path, *, bent: str = "", last: float | None = None) -> bytes:
    """Return an importance matrix: the later columns of everything matter more.

    Args:
        last: The sum of each last column.
    """
    tensors = []
    for tensor in open_gguf(model).tensors:
        if len(tensor.shape) == 2:
            width = tensor.shape[0] - (1 if bent == "width" else 0)
            values = np.arange(width, dtype="<f4") ** 2 * 10
            values[-1] = values[-1] if last is None else last
            name = f"other.{tensor.name}" if bent == "names" else tensor.name
            tensors.append(NewTensor(f"{name}.in_sum2", (width, 1), F32, values.tobytes()))
            count = np.array([10], "<f4").tobytes()
            if bent != "counts":
                tensors.append(NewTensor(f"{name}.counts", (1, 1), F32, count))
    return gguf_bytes([Key("general.type", "string", "imatrix")], tensors)
