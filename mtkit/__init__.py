"""Inspect, convert, tokenize and run language-model files.

The public API is what this module exports. Names are resolved on first use, so that
``mtkit --version`` does not pay for the library.
"""

from __future__ import annotations

from mtkit._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.conversion.checkpoint import convert_checkpoint
    from mtkit.conversion.convert import Conversion, convert
    from mtkit.conversion.folder_writer import convert_to_folder
    from mtkit.conversion.whole_model import convert_model
    from mtkit.errors import (
        AnswerNo,
        FormatError,
        LossError,
        MissingExtra,
        MtkitError,
        ResourceError,
        UnsupportedError,
        UsageError,
    )
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf import GgufFile, open_gguf
    from mtkit.llm.generate import generate
    from mtkit.pipeline.result import Encoding
    from mtkit.spec import TokenizerSpec
    from mtkit.tokenizer.load import load
    from mtkit.tokenizer.tokenizer import Tokenizer

__all__ = [
    "AnswerNo",
    "Conversion",
    "Encoding",
    "FormatError",
    "GgufFile",
    "LossError",
    "MissingExtra",
    "MtkitError",
    "ResourceError",
    "Tokenizer",
    "TokenizerSpec",
    "UnsupportedError",
    "UsageError",
    "WriteOptions",
    "convert",
    "convert_checkpoint",
    "convert_model",
    "convert_to_folder",
    "generate",
    "load",
    "open_gguf",
]

_MODULES = {
    "Conversion": "mtkit.conversion.convert",
    "Encoding": "mtkit.pipeline.result",
    "GgufFile": "mtkit.gguf",
    "Tokenizer": "mtkit.tokenizer.tokenizer",
    "TokenizerSpec": "mtkit.spec",
    "WriteOptions": "mtkit.formats.contract",
    "convert": "mtkit.conversion.convert",
    "convert_checkpoint": "mtkit.conversion.checkpoint",
    "convert_model": "mtkit.conversion.whole_model",
    "convert_to_folder": "mtkit.conversion.folder_writer",
    "generate": "mtkit.llm.generate",
    "load": "mtkit.tokenizer.load",
    "open_gguf": "mtkit.gguf",
}
"""Where each export is defined; errors are in ``mtkit.errors``."""


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_MODULES.get(name, "mtkit.errors")), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
