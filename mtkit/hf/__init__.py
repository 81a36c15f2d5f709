"""transformers tokenizers that run on mtkit.

A fast tokenizer of transformers gets its ids from an object of the tokenizers library. mtkit takes
over encoding, decoding and what is returned for texts, pairs and batches; the library still adds
tokens, saves, and maps words to characters, and transformers' own code is what is left: chat
templates, ``save_pretrained``, overflowing parts, texts that are split already.
``backend_tokenizer`` is still the library's object: calls on it run the library, and changes made
through it take effect with the next text.

    import mtkit.hf
    tokenizer = mtkit.hf.from_pretrained("Qwen/Qwen3-8B")
    tokenizer = mtkit.hf.from_file("model.gguf")

Batches and pairs take a tenth to a fortieth of the original's time, a short text a twelfth, lists
of offsets a sixth; docs/performance.md has a table.
"""

from __future__ import annotations

import os

from mtkit.errors import MissingExtra, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection
    from typing import Any

__all__ = ["accelerate", "from_file", "from_pretrained"]


def from_pretrained(name_or_path: str | os.PathLike[str], **options: Any) -> Any:
    """Load a tokenizer as ``AutoTokenizer.from_pretrained`` does, accelerated by mtkit.

    Args:
        name_or_path: A model repository (ORG/NAME) or a folder.
        options: Those of ``AutoTokenizer.from_pretrained``.

    Raises:
        MissingExtra: transformers is not installed.
        UnsupportedError: The tokenizer has a part that mtkit does not support.
    """
    transformers = _transformers()
    return _own(transformers.AutoTokenizer.from_pretrained(name_or_path, **options))


def from_file(path: str | os.PathLike[str], *, allow_loss: Collection[str] = ()) -> Any:
    """Return a tokenizer of transformers for a tokenizer file of any format.

    It encodes like the folder that ``mtkit convert --to hf`` writes. A tokenizer.model does not
    record which special tokens go around a text: BOS is added here, but not by ``mtkit.load``.

    Args:
        path: A file that ``mtkit.load`` reads: a GGUF, a tokenizer.model, a .mtok, a .tiktoken …
        allow_loss: Codes of losses to accept when converting to tokenizer.json.

    Raises:
        MissingExtra: transformers is not installed.
        LossError: Written as tokenizer.json, the tokenizer would give ordinary text different ids.
        UnsupportedError: The tokenizer cannot be written as tokenizer.json.
    """
    from mtkit.base.files import temporary_folder
    from mtkit.conversion.tokenizer import convert

    transformers = _transformers()
    with temporary_folder() as folder:
        convert(os.fspath(path), folder + os.sep, to="hf", allow_loss=allow_loss)
        return _own(transformers.PreTrainedTokenizerFast.from_pretrained(folder))


def accelerate(tokenizer: Any) -> Any:
    """Make a fast tokenizer of transformers encode and decode with mtkit, and return it.

    Args:
        tokenizer: A ``TokenizersBackend`` (``is_fast``), with any tokens that were added to it.

    Raises:
        UsageError: The tokenizer is not a fast one.
        UnsupportedError: It has a part that mtkit does not support.
    """
    from mtkit.hf.backend import BACKEND, Accelerated, MtkitBackend, accelerated_class

    if isinstance(tokenizer, Accelerated):
        return tokenizer
    inner = getattr(tokenizer, "_tokenizer", None)
    if inner is None or not hasattr(inner, "to_str"):
        raise UsageError(f"{type(tokenizer).__name__} is not a fast tokenizer of transformers")
    backend = MtkitBackend(inner)
    backend.rebuild()
    vars(tokenizer)[BACKEND] = backend
    kind: Any = type(tokenizer)
    tokenizer.__class__ = accelerated_class(kind)
    return tokenizer


def _own(tokenizer: Any) -> Any:
    """Accelerate a tokenizer that nobody else has yet."""
    from mtkit.hf.backend import BACKEND

    accelerated = accelerate(tokenizer)
    vars(accelerated)[BACKEND].keep()
    return accelerated


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise MissingExtra("needs transformers", hint="pip install transformers") from None
    return transformers


def __dir__() -> list[str]:
    return __all__


def __getattr__(name: str) -> object:
    from mtkit.base.idioms import missing

    raise missing(__name__, name, f"module {__name__!r}")
