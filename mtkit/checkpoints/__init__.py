"""Model files other than GGUF: hyper-parameters and weights; they know nothing of tokenizers.

``safetensors`` is its own door: its header alone is read.
"""

from __future__ import annotations

from mtkit.checkpoints.llama2c import Checkpoint, read, sniff

__all__ = ["Checkpoint", "read", "sniff"]
