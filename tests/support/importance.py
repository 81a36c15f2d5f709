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


def importance(model: Path, *, bent: str = "") -> bytes:
    """Return an importance matrix: the later columns of everything matter more."""
    tensors = []
    for tensor in open_gguf(model).tensors:
        if len(tensor.shape) == 2:
            width = tensor.shape[0] - (1 if bent == "width" else 0)
            sums = (np.arange(width, dtype="<f4") ** 2 * 10).tobytes()
            tensors.append(NewTensor(f"{tensor.name}.in_sum2", (width, 1), F32, sums))
            count = np.array([10], "<f4").tobytes()
            if bent != "counts":
                tensors.append(NewTensor(f"{tensor.name}.counts", (1, 1), F32, count))
    return gguf_bytes([Key("general.type", "string", "imatrix")], tensors)
