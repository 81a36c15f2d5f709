"""Inspect, convert, tokenize with and run model files.

The public API is what this module exports. Names are resolved on first use, so that
``mtkit --version`` does not pay for the library.
"""

from __future__ import annotations

from mtkit._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.checkpoint_conversion import convert_checkpoint as convert_checkpoint
    from mtkit.conversion import Conversion as Conversion
    from mtkit.conversion import convert as convert
    from mtkit.encoding import Encoding as Encoding
    from mtkit.errors import FormatError as FormatError
    from mtkit.errors import LossError as LossError
    from mtkit.errors import MtkitError as MtkitError
    from mtkit.errors import ResourceError as ResourceError
    from mtkit.errors import UnsupportedError as UnsupportedError
    from mtkit.errors import UsageError as UsageError
    from mtkit.gguf import GgufFile as GgufFile
    from mtkit.gguf import open_gguf as open_gguf
    from mtkit.llm.generate import generate as generate
    from mtkit.loading import load as load
    from mtkit.spec import TokenizerSpec as TokenizerSpec
    from mtkit.tokenizer import Tokenizer as Tokenizer

_EXPORTS = {
    "Conversion": "mtkit.conversion",
    "Encoding": "mtkit.encoding",
    "FormatError": "mtkit.errors",
    "GgufFile": "mtkit.gguf",
    "LossError": "mtkit.errors",
    "MtkitError": "mtkit.errors",
    "ResourceError": "mtkit.errors",
    "Tokenizer": "mtkit.tokenizer",
    "TokenizerSpec": "mtkit.spec",
    "UnsupportedError": "mtkit.errors",
    "UsageError": "mtkit.errors",
    "convert": "mtkit.conversion",
    "convert_checkpoint": "mtkit.checkpoint_conversion",
    "generate": "mtkit.llm.generate",
    "load": "mtkit.loading",
    "open_gguf": "mtkit.gguf",
}


def __getattr__(name: str) -> Any:
    if name in _EXPORTS:
        from importlib import import_module

        return getattr(import_module(_EXPORTS[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*_EXPORTS, "__version__"])
