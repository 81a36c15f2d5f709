"""The matrices of a model that have a row for each id, cut to some of them.

Rows are copied byte for byte, whatever their type, so the logits of those that stay are what they
were: to the bit where their number is a multiple of ``ROWS_MULTIPLE``, as some kernels add in
another order for odd numbers of rows.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.gguf.rows import Rows
from mtkit.gguf.writer import NewTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.gguf.file import GgufFile

ROWS_MULTIPLE = 64
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
_BY_ROW = frozenset((EMBEDDING, HEAD, "output.bias"))


def count_rows(file: GgufFile) -> int:
    """Return the number of ids of a model that can be cut.

    Raises:
        UnsupportedError: It keeps its vocabulary in another way.
    """
    source = file.name
    tensor = file.names.get(EMBEDDING)
    if tensor is None or len(tensor.shape) != 2:
        raise UnsupportedError(f"has no {EMBEDDING} to cut", source=source)
    n_vocab = tensor.shape[1]
    odd = [
        tensor.label
        for tensor in file.tensors
        if (tensor.shape[-1:] != (n_vocab,) if tensor.name in _BY_ROW
            else len(tensor.shape) > 1 and tensor.shape[-1] == n_vocab)
    ]  # fmt: skip
    if odd:
        raise UnsupportedError(f"{', '.join(odd)}: not known how to cut it", source=source)
    return n_vocab


def cut_rows(file: GgufFile, ids: Sequence[int]) -> list[NewTensor]:
    """Return the tensors of a model with the rows of these ids alone, in their order."""
    tensors = []
    for tensor in file.tensors:
        shape, data = tensor.shape, file.tensor_data(tensor)
        if tensor.name in _BY_ROW:
            shape = (*shape[:-1], len(ids))
            data = _rows(file, tensor.name, ids)
        tensors.append(NewTensor(tensor.name, shape, tensor.type, data))
    return tensors


def _rows(file: GgufFile, name: str, ids: Sequence[int]) -> memoryview:
    import numpy as np

    tensor = file.names[name]
    if len(tensor.shape) == 1:  # a bias
        size = tensor.n_bytes // tensor.n_elements
        found = np.frombuffer(file.tensor_data(tensor), np.uint8).reshape(-1, size)[list(ids)]
    else:
        found = Rows(file, tensor).stored(list(ids))
    return memoryview(np.ascontiguousarray(found).data).cast("B")
