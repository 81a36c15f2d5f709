"""A model whose vocabulary is another one: ids in another order, some of them missing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtkit.gguf import open_gguf
from mtkit.gguf.values import Rows
from mtkit.gguf.writer import Key, NewTensor, write_gguf

if TYPE_CHECKING:
    from collections.abc import Sequence

_BY_ID = ("tokenizer.ggml.tokens", "tokenizer.ggml.scores", "tokenizer.ggml.token_type")
_BY_ROW = ("token_embd.weight", "output.weight")


def renumbered(source: str, ids: Sequence[int], path: str, **other: Any) -> str:
    """Write a model whose id n is what the source's id ``ids[n]`` is; returns its path.

    Args:
        source: A model of a byte-level or SentencePiece vocabulary.
        ids: Of the source; merges of others are left out.
        path: The file to write.
        other: Keys of the tokenizer that have another value: ``pre="gpt-2"``.
    """
    file = open_gguf(source)
    new = {old: at for at, old in enumerate(ids)}
    tokens = file.metadata["tokenizer.ggml.tokens"]
    kept = {tokens[i] for i in ids}
    keys = []
    for name, entry in file.metadata.entries.items():
        value = entry.value
        if name in _BY_ID:
            value = [value[i] for i in ids]
        elif name == "tokenizer.ggml.merges":
            value = [m for m in value if kept >= {*m.split(" "), m.replace(" ", "", 1)}]
        elif name.startswith("tokenizer.ggml.") and name.endswith("_token_id"):
            if value not in new:
                continue
            value = new[value]
        elif name.endswith(".vocab_size"):
            value = len(ids)
        value = other.get(name.removeprefix("tokenizer.ggml."), value)
        keys.append(Key(name, file.metadata.type_name(name), value))
    tensors = []
    for tensor in file.tensors:
        shape, data = tensor.shape, file.tensor_data(tensor)
        if tensor.name in _BY_ROW:
            shape = (*shape[:-1], len(ids))
            data = memoryview(Rows(file, tensor).stored(list(ids)).tobytes())
        tensors.append(NewTensor(tensor.name, shape, tensor.type, data))
    write_gguf(path, keys, tensors, force=True)
    return path
