"""Which matrices llama.cpp lays out anew for the processor when it loads a model on the CPU.

Blocks of several rows are woven together, in memory of their own; a mapped file keeps its pages
beside that. Matrices of other types, or with another number of rows, stay as they are.

Source: ggml-cpu/repack.cpp of ggml (``ggml_repack_get_optimal_repack_type``).
"""

from __future__ import annotations

import platform
from functools import cache
from itertools import takewhile
from operator import itemgetter

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from mtkit.gguf import Tensor

_ROWS = {
    "avx2": {"Q4_0": 8, "Q4_K": 8, "IQ4_NL": 8, "MXFP4": 8},
    "avx512f": {"Q2_K": 8},
    "asimddp": {
        "Q4_0": 4, "Q4_K": 8, "Q5_K": 8, "Q6_K": 8, "Q8_0": 4, "Q1_0": 4, "IQ4_NL": 4, "MXFP4": 4,
    },
}  # fmt: skip
"""What a processor can do -> type of the elements -> what the number of rows is a multiple of."""
_LOOKED_UP = ("token_embd.weight", "position_embd.weight", "per_layer_token_embd.weight")
"""Rows are read out of them; nothing is multiplied with them."""
_EMBEDDING, _HEAD = "token_embd.weight", "output.weight"
_ALIKE = {"AMD64": "avx2", "x86_64": "avx2", "arm64": "asimddp", "aarch64": "asimddp"}
"""Architecture -> what its processors can do, where the system does not say."""


@cache
def processor() -> frozenset[str]:
    """Return what this machine's processor can do, as the kernel names it."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            for line in file:
                name, _, said = line.partition(":")
                if name.strip() in ("flags", "Features"):
                    return frozenset(said.split())
    except OSError:
        pass
    return frozenset({_ALIKE.get(platform.machine(), "")})


def is_repacked(tensor: Tensor, features: AbstractSet[str]) -> bool:
    """Tell whether a matrix that is multiplied with gets another layout."""
    rows = tensor.shape[1] if len(tensor.shape) in (2, 3) else 0
    return rows > 0 and any(
        rows % kinds.get(tensor.type.name, rows + 1) == 0
        for feature, kinds in _ROWS.items()
        if feature in features
    )


def repacked_bytes(tensors: tuple[Tensor, ...], features: AbstractSet[str], *, mapped: bool) -> int:
    """Return what the new layouts take besides the weights.

    Args:
        tensors: Those on the CPU, in the order of the file.
        features: What the processor can do.
        mapped: The file is mapped; a file that is read has one layout of each matrix alone, but for
            an embedding that is the head as well.
    """
    is_tied = all(tensor.name != _HEAD for tensor in tensors)
    new = [is_repacked(tensor, features) for tensor in tensors]
    moved = [
        found and tensor.name not in _LOOKED_UP for found, tensor in zip(new, tensors, strict=True)
    ]
    heads = (one.n_bytes for found, one in zip(new, tensors, strict=True) if found and is_tied
             and one.name == _EMBEDDING)  # fmt: skip
    copies = sum(heads)
    if mapped:
        copies += sum(one.n_bytes for found, one in zip(moved, tensors, strict=True) if found)
        copies -= _unmapped(tensors, moved) + _unmapped(tensors[::-1], moved[::-1])
    return max(copies, 0)


def _unmapped(tensors: tuple[Tensor, ...], moved: list[bool]) -> int:
    """Return the bytes of those at an end of a file, whose pages are given back."""
    return sum(one.n_bytes for one, _ in takewhile(itemgetter(1), zip(tensors, moved, strict=True)))
