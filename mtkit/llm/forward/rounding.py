"""How llama.cpp rounds on a CPU: weights to the type of the file, what meets them likewise.

Source: ggml-cpu.c (``type_traits_cpu``).
"""

from __future__ import annotations

from mtkit.gguf.values import F16, Q8_0, decoded, encoded
from mtkit.llm.forward.weights import Weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.checkpoints.folder_files import Stored
    from mtkit.gguf.types import TensorType


class Rounded(Weights):
    """Tensors whose matrices have the type of a GGUF: F32, F16, BF16 or Q8_0."""

    def __init__(self, tensors: Mapping[str, Stored], kind: TensorType) -> None:
        super().__init__(tensors)
        self._kind = kind

    def block(self, name: str, shape: tuple[int, int], start: int, stop: int) -> Any:
        """Return rows as they are in the file."""
        return self._rounded(super().block(name, shape, start, stop))

    def product(self, x: Any, name: str, size: int) -> Any:
        """Round the rows as well, as they are multiplied."""
        return super().product(self._rounded(x), name, size)

    def _rounded(self, values: Any) -> Any:
        # A row that no block fits has another type, as in ``conversion.model_tensors``.
        kind = F16 if values.shape[-1] % self._kind.block else self._kind
        return rounded(values, kind)


def rounded(values: Any, kind: TensorType) -> Any:
    """Return float32 values as a type has them."""
    import numpy as np

    data = encoded(np.ascontiguousarray(values), kind)
    if kind is not Q8_0:
        return decoded(data, kind.name).reshape(values.shape)
    blocks = data.reshape(-1, kind.block_bytes)  # a scale in F16, and 32 whole numbers
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    return (blocks[:, 2:].view(np.int8) * scales).reshape(values.shape)
