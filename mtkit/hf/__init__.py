"""transformers tokenizers that run on mtkit.

A fast tokenizer of transformers keeps an object of the tokenizers library and asks it for ids. Here
it asks mtkit, and the library for what is not about speed: adding tokens, saving, words and
characters of an encoding. Everything above it (padding, tensors, chat templates,
``save_pretrained``) is transformers' own code. ``backend_tokenizer`` stays the library's object:
what is called or changed there is the library's, and the next text is encoded by what it says then.

    import mtkit.hf
    tokenizer = mtkit.hf.from_pretrained("Qwen/Qwen3-8B")
    tokenizer = mtkit.hf.from_file("model.gguf")

Source: transformers 5 ``tokenization_utils_tokenizers.py`` for what is asked of the object, and
tokenizers 0.23 for what it answers.
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
    """Return what ``AutoTokenizer.from_pretrained`` does, with mtkit inside.

    Args:
        name_or_path: A repository of the hub or a folder.
        options: Those of ``AutoTokenizer.from_pretrained``.

    Raises:
        MissingExtra: transformers is not installed.
        UnsupportedError: The tokenizer has something that mtkit does not know.
    """
    transformers = _transformers()
    return accelerate(transformers.AutoTokenizer.from_pretrained(name_or_path, **options))


def from_file(path: str | os.PathLike[str], *, allow_loss: Collection[str] = ()) -> Any:
    """Return a tokenizer of transformers for a tokenizer file of any format.

    It does what ``mtkit convert --to hf`` writes: a tokenizer.model, which does not say what stands
    around a text, gets BOS in front of it, though ``mtkit.load`` adds none.

    Args:
        path: A file that ``mtkit.load`` reads: a GGUF, a tokenizer.model, a .mtok, ranks …
        allow_loss: Codes of losses that may happen on the way to a tokenizer.json.

    Raises:
        MissingExtra: transformers is not installed.
        LossError: tokenizer.json cannot hold the tokenizer as it is.
        UnsupportedError: It cannot be written as tokenizer.json at all.
    """
    import tempfile

    from mtkit.conversion.convert import convert

    transformers = _transformers()
    with tempfile.TemporaryDirectory() as folder:
        convert(os.fspath(path), folder + os.sep, to="hf", allow_loss=allow_loss)
        return accelerate(transformers.PreTrainedTokenizerFast.from_pretrained(folder))


def accelerate(tokenizer: Any) -> Any:
    """Let mtkit encode and decode for a fast tokenizer of transformers; returns the tokenizer.

    Args:
        tokenizer: A ``TokenizersBackend`` (``is_fast``); what was added to it counts.

    Raises:
        UsageError: It is not a fast tokenizer.
        UnsupportedError: It has something that mtkit does not know.
    """
    from mtkit.hf.accelerated import BACKEND, Accelerated, accelerated
    from mtkit.hf.backend import Backend

    if isinstance(tokenizer, Accelerated):
        return tokenizer
    inner = getattr(tokenizer, "_tokenizer", None)
    if inner is None or not hasattr(inner, "to_str"):
        raise UsageError(f"{type(tokenizer).__name__} is not a fast tokenizer of transformers")
    backend = Backend(inner)
    backend.rebuild()
    vars(tokenizer)[BACKEND] = backend
    kind: Any = type(tokenizer)
    tokenizer.__class__ = accelerated(kind)
    return tokenizer


def _transformers() -> Any:
    try:
        import transformers
    except ImportError:
        raise MissingExtra("needs transformers", hint="pip install transformers") from None
    return transformers
