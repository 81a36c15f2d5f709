"""Whole windows of a text, and what of them enters each matrix of a model, by numpy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from reference_llama import Llama

if TYPE_CHECKING:
    from pathlib import Path

STORIES = "models/stories260K/stories260K-f32.gguf"
"""Begins with BOS."""
STORY = "Once upon a time, there was a little girl named Lily. She had a big, red ball. " * 8
SIZE = 48
"""Tokens of a window."""


def windows(path: Path, text: str) -> list[list[int]]:
    """Return the windows; the first token of each is replaced where the model adds BOS."""
    from mtkit.llama import Model

    with Model(str(path)) as model:
        ids = model.tokenize(text, parse_special=False)
        bos = [model.bos] if model.add_bos else []
    cut = [ids[at : at + SIZE] for at in range(0, len(ids) - SIZE + 1, SIZE)]
    return [bos + window[len(bos) :] for window in cut]


class _Watched(np.ndarray[Any, Any]):
    """A matrix that remembers what it is multiplied with."""

    seen: list[Any]

    def __array_finalize__(self, other: Any) -> None:
        self.seen = getattr(other, "seen", [])

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Any:
        plain = [np.asarray(one) if isinstance(one, _Watched) else one for one in inputs]
        if ufunc is np.matmul:
            self.seen.append(plain[0])
        return getattr(ufunc, method)(*plain, **options)


def squares(path: Path, windows: list[list[int]]) -> dict[str, np.ndarray[Any, Any]]:
    """Return name of a matrix -> the sum of the squares of what enters each of its columns."""
    model = Llama.of_gguf(path)
    watched = {}
    for name, tensor in model.tensors.items():
        if tensor.ndim == 2 and name != "token_embd.weight":
            watched[name] = model.tensors[name] = tensor.view(_Watched)
            watched[name].seen = []
    for ids in windows:
        model.logits(ids)
    return {
        name: sum((rows.astype(np.float64) ** 2).sum(axis=0) for rows in matrix.seen)
        for name, matrix in watched.items()
    }
