"""Models written again with other metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from mtkit.gguf import open_gguf
from mtkit.gguf.writer import Key, NewTensor, write_gguf

if TYPE_CHECKING:
    from pathlib import Path


def changed(source: Path, target: Path, **values: Any) -> Path:
    """Write a model again with other metadata; a dot in a key is two underscores here."""
    file = open_gguf(source)
    new = {name.replace("__", "."): value for name, value in values.items()}
    keys = [Key(name, file.metadata.type_name(name), new.get(name, value))
            for name, value in file.metadata.items()]  # fmt: skip
    assert set(new) <= {key.name for key in keys}
    tensors = [NewTensor(t.name, t.shape, t.type, file.tensor_data(t)) for t in file.tensors]
    write_gguf(str(target), keys, tensors)
    return target
