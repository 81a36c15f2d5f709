"""Megatron's own reader of indexed datasets, run without PyTorch.

The reader takes PyTorch for one base class, and its package imports all of the training code. Here
the module is imported by itself, and finds a PyTorch that has no more than that class.
"""

from __future__ import annotations

import importlib
import sys
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING
from unittest.mock import patch

from support import absent

if TYPE_CHECKING:
    from pathlib import Path


@cache
def _reader() -> ModuleType:
    try:
        package = distribution("megatron-core").locate_file("megatron/core")
    except PackageNotFoundError:
        absent("reference library megatron-core is not installed", "MTKIT_REQUIRE_REFERENCE")
        raise
    names = ("megatron", "megatron.core", "megatron.core.utils", "torch")
    stubs = {name: ModuleType(name) for name in names}
    stubs["megatron"].__path__ = []
    stubs["megatron.core"].__path__ = [str(package)]
    stubs["megatron.core.utils"].log_single_rank = lambda *_: None  # type: ignore[attr-defined]
    data = SimpleNamespace(Dataset=object)
    vars(stubs["torch"]).update(utils=SimpleNamespace(data=data), Tensor=object)
    with patch.dict(sys.modules, stubs):
        return importlib.import_module("megatron.core.datasets.indexed_dataset")


def read(path: Path) -> list[list[int]]:
    """Return the ids of each document of a .bin with its .idx; mapped and read, they are equal."""
    mapped, unmapped = (
        _reader().IndexedDataset(str(path.with_suffix("")), mmap=mmap) for mmap in (True, False)
    )
    made: list[list[int]] = [mapped[index].tolist() for index in range(len(mapped))]
    assert made == [unmapped[index].tolist() for index in range(len(unmapped))]
    assert mapped.document_indices.tolist() == list(range(len(made) + 1))
    return made
