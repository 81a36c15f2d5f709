"""The interface of tiktoken over mtkit: ``import mtkit.tiktoken as tiktoken``.

The same calls give the same results and exceptions as in tiktoken, for any tokenizer that mtkit
reads. ``load``, ``model`` and ``registry`` are modules as in tiktoken, and ``Encoding(name,
pat_str=…, mergeable_ranks=…, special_tokens=…)`` builds an encoding from ranks. Nothing is
downloaded: published encodings are read from tiktoken's cache.
"""

from __future__ import annotations

from mtkit._version import __version__ as _mtkit_version
from mtkit.tiktoken import load, model, registry
from mtkit.tiktoken.core import Encoding, from_file
from mtkit.tiktoken.model import encoding_for_model, encoding_name_for_model
from mtkit.tiktoken.registry import get_encoding, list_encoding_names

__version__ = f"0.14.0+mtkit.{_mtkit_version}"
"""The tiktoken whose interface this is, and what runs it."""
__all__ = [
    "Encoding",
    "encoding_for_model",
    "encoding_name_for_model",
    "from_file",
    "get_encoding",
    "list_encoding_names",
    "load",
    "model",
    "registry",
]
