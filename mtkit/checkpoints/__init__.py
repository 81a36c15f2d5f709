"""Model files other than GGUF: hyper-parameters and weights; they know nothing of tokenizers.

``safetensors`` is its own door: its header alone is read.
"""

from __future__ import annotations

from mtkit.checkpoints import legacy_imatrix, safetensors
from mtkit.checkpoints.llama2c import Checkpoint, read, sniff
from mtkit.gguf.file import MAGIC

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mtkit.base.binary import Source

    Kind = Literal["gguf", "index", "safetensors", "llama2c", "imatrix", "tokenizer"]


__all__ = ["Checkpoint", "read", "sniff"]


def kind_of(source: Source) -> Kind:
    """Return the kind of a file by its content; "tokenizer" for any other kind."""
    if bytes(source.data[: len(MAGIC)]) == MAGIC:
        return "gguf"
    if safetensors.sniff_index(source):
        return "index"
    if safetensors.is_meant(source):
        return "safetensors"
    if legacy_imatrix.sniff(source):
        return "imatrix"
    return "llama2c" if sniff(source) else "tokenizer"
