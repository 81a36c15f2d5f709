"""How llama.cpp rounds on a CPU: weights to the type of the file, and what they are multiplied with.

Source: ggml-cpu.c (``type_traits_cpu``: the type of the other factor), vec.h (``ggml_vec_gelu_f32``).
"""

from __future__ import annotations

from mtkit.gguf.values import F16, Q8_0, decoded, stored
from mtkit.llm.forward.weights import Weights

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from mtkit.checkpoints.model_folder import Stored
    from mtkit.gguf.types import TensorType

_GELU_MOST = 10
"""From there on llama.cpp looks nothing up."""


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

    data = stored(np.ascontiguousarray(values), kind)
    if kind is not Q8_0:
        return decoded(data, kind.name).reshape(values.shape)
    blocks = data.reshape(-1, kind.block_bytes)  # a scale in F16, and 32 whole numbers
    scales = np.ascontiguousarray(blocks[:, :2]).view("<f2").astype(np.float32)
    return (blocks[:, 2:].view(np.int8) * scales).reshape(values.shape)


def gelu(x: Any) -> Any:
    """Return the activation ``gelu_pytorch_tanh``."""
    import numpy as np

    inside = np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x**3)
    return x / 2 * (1 + np.tanh(inside))


def looked_up_gelu(x: Any) -> Any:
    """Return it as llama.cpp looks it up: from a number in F16 to a number in F16."""
    import numpy as np

    found = rounded(gelu(rounded(x, F16)), F16)
    return np.where(x <= -_GELU_MOST, 0, np.where(x >= _GELU_MOST, x, found)).astype(np.float32)
