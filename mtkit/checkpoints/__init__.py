"""Model files other than GGUF: hyper-parameters and weights; they know nothing of tokenizers.

``safetensors`` is its own door: its header alone is read.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    from mtkit.base.binary import Source

    Kind = Literal["gguf", "index", "safetensors", "llama2c", "imatrix", "tokenizer"]


def kind_of(source: Source) -> Kind:
    """Return the kind of a file by its content; "tokenizer" for any other kind."""
    if bytes(source.data[:4]) == b"GGUF":
        return "gguf"
    from mtkit.checkpoints import legacy_imatrix, llama2c, safetensors

    if safetensors.sniff_index(source):
        return "index"
    if safetensors.is_meant(source):
        return "safetensors"
    if legacy_imatrix.sniff(source):
        return "imatrix"
    return "llama2c" if llama2c.sniff(source) else "tokenizer"
