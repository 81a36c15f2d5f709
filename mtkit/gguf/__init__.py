"""The GGUF container: header, metadata, tensor table, writer; it knows nothing of tokenizers."""

from __future__ import annotations

from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.file import Entry, GgufFile, Metadata, Tensor
from mtkit.gguf.reader import open_gguf

__all__ = ["Entry", "GgufArray", "GgufFile", "Metadata", "Tensor", "open_gguf"]
