"""Importance matrices in GGUF: what llama-imatrix writes and llama-quantize reads.

``NAME.in_sum2`` is the sum of the squares of what entered each column of the matrix NAME,
``NAME.counts`` of how many rows; a tensor of experts has a row of sums and a count for each.
Source: tools/imatrix/imatrix.cpp and common/imatrix-loader.cpp of llama.cpp.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import FormatError
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.reader import open_gguf
from mtkit.gguf.types import STRING, TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, write_gguf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_SUMS, _COUNTS = ".in_sum2", ".counts"
_DATASETS, _CHUNKS, _SIZE = "imatrix.datasets", "imatrix.chunk_count", "imatrix.chunk_size"

_MOST_COUNTED = 2.0**62
_MOST_CHUNKS = 1 << 31
"""What is above it was not counted."""


class Importance(Record):
    """An importance matrix.

    Attributes:
        entries: Name of a tensor -> its sums, float32 of shape (experts, columns) or (1, columns),
            and its counts, int64 of shape (experts,) or (1,).
        datasets: Names of the texts.
        chunks: Windows of text that it was made from; 0 where the file does not say.
        chunk_size: Tokens of a window; 0 where the file does not say.
    """

    entries: dict[str, tuple[Any, Any]]
    datasets: tuple[str, ...] = ()
    chunks: int = 0
    chunk_size: int = 0


def read_importance(path: str) -> Importance:
    """Read an importance matrix.

    Raises:
        FormatError: The file is not one.
    """
    import numpy as np

    file = open_gguf(path)
    names = [name for name in file.names if name.endswith(_SUMS)]
    if not names:
        hint = (
            "llama-imatrix and mtkit imatrix write one; the .dat of older versions is not supported"
        )
        raise FormatError("holds no importance matrix", source=path, hint=hint)
    entries = {}
    for name in names:
        stem = name.removesuffix(_SUMS)
        counts = file.names.get(stem + _COUNTS)
        sums = file.names[name]
        if counts is None or {sums.type.name, counts.type.name} != {"F32"}:
            raise FormatError("has no counts of 32-bit floats", source=path, field=sums.label)
        of_each = np.frombuffer(file.tensor_data(counts), "<f4")
        total = np.frombuffer(file.tensor_data(sums), "<f4")
        if not len(of_each) or len(total) % len(of_each):
            raise FormatError("does not go with its counts", source=path, field=sums.label)
        if not np.all((of_each >= 0) & (of_each < _MOST_COUNTED)):  # NaN is neither
            raise FormatError("is no number of tokens", source=path, field=counts.label)
        entries[stem] = total.reshape(len(of_each), -1), of_each.astype(np.int64)
    known = file.metadata
    chunks, size = (known.get(key) for key in (_CHUNKS, _SIZE))
    datasets = known.get(_DATASETS)
    if not isinstance(datasets, GgufArray) or datasets.element is not STRING:
        datasets = ()
    return Importance(
        entries,
        tuple(datasets),
        chunks if type(chunks) is int and 0 <= chunks < _MOST_CHUNKS else 0,
        size if type(size) is int and 0 <= size < _MOST_CHUNKS else 0,
    )


def write_importance(path: str, made: Importance, *, force: bool = False) -> None:
    """Write an importance matrix; it appears whole or not at all.

    Raises:
        UsageError: The file exists and ``force`` is not given.
        ResourceError: The disk is full.
    """
    keys = [
        Key("general.type", "string", "imatrix"),
        Key(_DATASETS, "string[]", made.datasets),
        Key(_CHUNKS, "u32", made.chunks),
        Key(_SIZE, "u32", made.chunk_size),
    ]
    tensors = []
    for name, (sums, counts) in sorted(made.entries.items()):
        experts = (len(counts),) * (len(counts) > 1)
        for suffix, values, width in ((_SUMS, sums, sums.shape[1]), (_COUNTS, counts, 1)):
            data = values.astype("<f4").tobytes()
            tensors.append(NewTensor(name + suffix, (width, *experts), TENSOR_TYPES[0], data))
    write_gguf(path, keys, tensors, force=force)
