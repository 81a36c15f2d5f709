"""Inspect, convert, tokenize and run language-model files.

The public API is what this module exports. Names are resolved on first use, so that
``mtkit --version`` does not pay for the library.
"""

from __future__ import annotations

from mtkit._version import __version__ as __version__

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.api.files import convert, edit, quantize
    from mtkit.api.generation import generate
    from mtkit.api.inspection import compare, count, diff, explain, inspect
    from mtkit.api.model import Model
    from mtkit.api.reply import Reply
    from mtkit.checks import Report, check
    from mtkit.conversion.tokenizer import Conversion
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
    from mtkit.inspection.difference import Difference
    from mtkit.pipeline.encoding import Encoding
    from mtkit.spec import TokenizerSpec
    from mtkit.tokenizer.comparison import Comparison
    from mtkit.tokenizer.explanation import Explanation
    from mtkit.tokenizer.load import load
    from mtkit.tokenizer.tokenizer import Tokenizer

__all__ = [
    "AnswerNo",
    "Comparison",
    "Conversion",
    "Difference",
    "Encoding",
    "Explanation",
    "FormatError",
    "GgufFile",
    "LossError",
    "MissingExtra",
    "Model",
    "MtkitError",
    "Reply",
    "Report",
    "ResourceError",
    "Tokenizer",
    "TokenizerSpec",
    "UnsupportedError",
    "UsageError",
    "WriteOptions",
    "check",
    "compare",
    "convert",
    "count",
    "diff",
    "edit",
    "explain",
    "generate",
    "inspect",
    "load",
    "open_gguf",
    "quantize",
]

_MODULES = {
    "Comparison": "mtkit.tokenizer.comparison",
    "Conversion": "mtkit.conversion.tokenizer",
    "Difference": "mtkit.inspection.difference",
    "Encoding": "mtkit.pipeline.encoding",
    "Explanation": "mtkit.tokenizer.explanation",
    "GgufFile": "mtkit.gguf",
    "Model": "mtkit.api.model",
    "Reply": "mtkit.api.reply",
    "Report": "mtkit.checks",
    "Tokenizer": "mtkit.tokenizer.tokenizer",
    "TokenizerSpec": "mtkit.spec",
    "WriteOptions": "mtkit.formats.contract",
    "check": "mtkit.checks",
    "compare": "mtkit.api.inspection",
    "convert": "mtkit.api.files",
    "count": "mtkit.api.inspection",
    "diff": "mtkit.api.inspection",
    "edit": "mtkit.api.files",
    "explain": "mtkit.api.inspection",
    "generate": "mtkit.api.generation",
    "inspect": "mtkit.api.inspection",
    "load": "mtkit.tokenizer.load",
    "open_gguf": "mtkit.gguf",
    "quantize": "mtkit.api.files",
}
"""Where each export is defined; errors are in ``mtkit.errors``."""
_PACKAGES = ("errors", "hf", "tiktoken")


def __getattr__(name: str) -> Any:
    if name in __all__:
        from importlib import import_module

        return getattr(import_module(_MODULES.get(name, "mtkit.errors")), name)
    if name in _PACKAGES:  # as after importing them
        from importlib import import_module

        return import_module(f"{__name__}.{name}")
    if name.startswith("_"):  # import asks for a module of the package here, before it loads it
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    from mtkit.base.idioms import missing

    raise missing(__name__, name, f"module {__name__!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_PACKAGES, "__version__"])
