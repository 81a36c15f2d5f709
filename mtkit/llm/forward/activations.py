"""Activations of the feed-forward part, and how llama.cpp computes them on a CPU.

Source: transformers, activations.py; ggml-cpu, vec.h (``ggml_vec_gelu_f32``).
"""

from __future__ import annotations

from mtkit.gguf.values import F16
from mtkit.llm.forward.rounding import rounded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_MOST = 10
"""From there on llama.cpp looks nothing up."""


def silu(x: Any) -> Any:
    """Return the activation of this name."""
    import numpy as np

    return x / (1 + np.exp(-x))


def gelu(x: Any) -> Any:
    """Return the activation ``gelu_pytorch_tanh``."""
    import numpy as np

    inside = np.float32((2 / np.pi) ** 0.5) * (x + np.float32(0.044715) * x**3)
    return x / 2 * (1 + np.tanh(inside))


def looked_up_gelu(x: Any) -> Any:
    """Return it as llama.cpp looks it up: from a number in F16 to a number in F16."""
    import numpy as np

    found = rounded(gelu(rounded(x, F16)), F16)
    return np.where(x <= -_MOST, 0, np.where(x >= _MOST, x, found)).astype(np.float32)
