"""``mtkit.convert``: a tokenizer, or a whole model, in another format."""

from __future__ import annotations

import os

from mtkit.checkpoints import model_folder
from mtkit.conversion.convert import convert as convert_tokenizer
from mtkit.conversion.targets import format_of
from mtkit.errors import UsageError
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from mtkit.conversion.convert import Conversion
    from mtkit.formats.contract import WriteOptions


def convert(
    src: str | os.PathLike[str] | Tokenizer,
    dst: str | os.PathLike[str] | None = None,
    *,
    to: str = "",
    kind: str = "auto",
    max_bytes: int | None = None,
    vocab_only: bool = False,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion:
    """Convert a tokenizer to another format, or a whole model.

    A folder with config.json and weights becomes a GGUF, as by ``convert_model``; ``to="hf-model"``
    makes such a folder of a GGUF, as by ``convert_to_folder``. Everything else is a tokenizer.

    Args:
        src: A path as ``load`` takes it, or a tokenizer.
        dst: Where to write: a file, or a folder; None for beside the source.
        to: Name of the format; empty for the one that the name of ``dst`` says.
        kind: The type of the matrices of a model.
        max_bytes: The most bytes of tensors in a file of a model; None for one file.
        vocab_only: Convert the tokenizer of a model folder alone.
        allow_loss: Codes of losses that may happen although they change ordinary ids.
        options: Choices of the tokenizer's writer.
        force: Replace files that exist.
        progress: Called for a model with the bytes that are written and with all of them.

    Raises:
        UsageError: The format is unknown, or a file is there already.
        FormatError: A file is damaged.
        LossError: Ordinary text would get different ids and that is not allowed.
        UnsupportedError: The format cannot hold it, or mtkit does not convert such a model.
        AnswerNo: The result does not give the same ids; nothing is left on the disk.
    """
    shared: dict[str, Any] = {"allow_loss": allow_loss, "options": options, "force": force}
    of_model: dict[str, Any] = {"kind": kind, "progress": progress, **shared}
    wanted = to or format_of(dst)
    if wanted == "hf-model":
        from mtkit.conversion.folder_writer import convert_to_folder

        if dst is None or isinstance(src, Tokenizer):
            raise UsageError("a folder is made of a GGUF, and has a name", field="dst")
        sized: dict[str, Any] = {} if max_bytes is None else {"max_bytes": max_bytes}
        return convert_to_folder(src, dst, **sized, **of_model)
    is_model = not isinstance(src, Tokenizer) and model_folder.sniff(os.fspath(src))
    if is_model and not vocab_only and wanted in ("", "gguf"):
        from mtkit.conversion.whole_model import convert_model

        assert not isinstance(src, Tokenizer)
        return convert_model(src, dst, max_bytes=max_bytes, **of_model)
    if kind != "auto" or max_bytes is not None:
        field = "kind" if kind != "auto" else "max_bytes"
        raise UsageError("is for a model, not for a tokenizer", field=field)
    return convert_tokenizer(src, dst, to=to, **shared)
