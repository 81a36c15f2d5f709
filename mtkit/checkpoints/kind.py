"""What a file is, by how it begins and what it is called."""

from __future__ import annotations

from mtkit import checkpoints
from mtkit.checkpoints import safetensors, safetensors_index
from mtkit.gguf.magic import MAGIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mtkit.base.binary import Source

    Kind = Literal["gguf", "index", "safetensors", "llama2c", "tokenizer"]


def kind_of(source: Source) -> Kind:
    """Return what a file is; "tokenizer": a tokenizer's, if it is of a kind that is known."""
    if bytes(source.data[: len(MAGIC)]) == MAGIC:
        return "gguf"
    if safetensors_index.sniff(source):
        return "index"
    if safetensors.is_meant(source):
        return "safetensors"
    return "llama2c" if checkpoints.sniff(source) else "tokenizer"
