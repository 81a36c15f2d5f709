"""A draft with fewer rows: its head and embedding cut to a static vocabulary.

llama.cpp refuses a model whose head has another number of rows than its vocabulary. So both are
cut, and the file says that it has no vocabulary (``tokenizer.ggml.model`` is ``no_vocab``) but
``{architecture}.vocab_size`` ids. Rows are copied byte for byte, so the logits of those that stay
are what they were: to the bit where their number is a multiple of 64, as some kernels add in
another order for odd numbers of rows.

Tokens outside the vocabulary enter as embeddings, from the file that it was made of: the pruned
file names it, and which id each row had (``mtkit.draft.d2t``; d2t is llama.cpp's own name for it).
"""

from __future__ import annotations

import os

from mtkit.base.packed import Numbers
from mtkit.errors import UnsupportedError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.rows import Rows
from mtkit.gguf.writer import Key, NewTensor, write_gguf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.gguf import GgufFile

IDS = "mtkit.draft.d2t"
SOURCE = "mtkit.draft.source"
SOURCE_BYTES = "mtkit.draft.source_bytes"
ROWS_MULTIPLE = 64
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
_BY_ROW = frozenset((EMBEDDING, HEAD, "output.bias"))


def prune(source: str, ids: Sequence[int], target: str, *, force: bool = False) -> None:
    """Write a draft that has the rows of these ids alone.

    Raises:
        FormatError: The source is damaged.
        UnsupportedError: Its architecture keeps its vocabulary in another way, or it is in shards.
        UsageError: There are no ids, an id is not in it, or the file exists or is the source.
        ResourceError: The disk is full.
    """
    file = open_gguf(source)
    n_vocab = _check(file, source)
    if os.path.exists(target) and os.path.samefile(source, target):
        raise UsageError(
            "is the draft itself, which the pruned one needs beside it", source=target,
            hint="name another file",
        )  # fmt: skip
    if not ids:
        raise UsageError("no ids: a draft has to have some")
    outside = next((i for i in ids if i >= n_vocab), None)
    if outside is not None:
        raise UsageError(f"there is no id {outside}", source=source)
    architecture = str(file.metadata["general.architecture"])
    keys = [
        Key(name, file.metadata.type_name(name), entry.value)
        for name, entry in file.metadata.entries.items()
        if not name.startswith(("tokenizer.", "mtkit.draft.", "split."))
        and name != f"{architecture}.vocab_size"
    ]
    keys += [
        Key("tokenizer.ggml.model", "string", "no_vocab"),
        Key(f"{architecture}.vocab_size", "u32", len(ids)),
        Key(IDS, "i64[]", Numbers.of("q", ids)),
        Key(SOURCE, "string", os.path.basename(source)),
        Key(SOURCE_BYTES, "u64", len(file.data)),
    ]
    tensors = []
    for tensor in file.tensors:
        shape, data = tensor.shape, file.tensor_data(tensor)
        if tensor.name in _BY_ROW:
            shape = (*shape[:-1], len(ids))
            data = _rows(file, tensor.name, ids)
        tensors.append(NewTensor(tensor.name, shape, tensor.type, data))
    write_gguf(target, keys, tensors, force=force)


def _rows(file: GgufFile, name: str, ids: Sequence[int]) -> memoryview:
    tensor = file.names[name]
    if len(tensor.shape) == 1:  # a bias
        import numpy as np

        size = tensor.n_bytes // tensor.n_elements
        found = np.frombuffer(file.tensor_data(tensor), np.uint8).reshape(-1, size)[list(ids)]
    else:
        found = Rows(file, tensor).stored(list(ids))
    return memoryview(found.tobytes())


def _check(file: GgufFile, source: str) -> int:
    """Return the number of ids of a file that can be pruned."""
    if file.metadata.get("split.count", 0) > 1:
        raise UnsupportedError("is one of several shards", source=source)
    if SOURCE in file.metadata:
        raise UsageError("is a pruned draft already", source=source)
    tensor = file.names.get(EMBEDDING)
    if tensor is None or len(tensor.shape) != 2:
        raise UnsupportedError(f"has no {EMBEDDING} to cut", source=source)
    n_vocab = tensor.shape[1]
    odd = [
        tensor.name
        for tensor in file.tensors
        if tensor.name not in _BY_ROW and len(tensor.shape) > 1 and tensor.shape[-1] == n_vocab
    ]
    head = file.names.get(HEAD)
    if odd or (head is not None and head.shape[-1] != n_vocab):
        names = ", ".join(odd) or HEAD
        raise UnsupportedError(f"{names}: not known how to cut it", source=source)
    return n_vocab
