"""``mtkit.convert``: a tokenizer or a whole model to another format."""

from __future__ import annotations

import os

from mtkit.checkpoints import model_folder
from mtkit.conversion.tokenizer import convert as convert_tokenizer
from mtkit.conversion.tokenizer import target_format
from mtkit.errors import UsageError
from mtkit.tokenizer.tokenizer import Tokenizer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from mtkit.conversion.tokenizer import Conversion
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

    A folder with config.json and weights is converted to a GGUF, like ``convert_model``;
    ``to="hf-model"`` turns a GGUF into such a folder, like ``convert_to_folder``. Everything else
    is read as a tokenizer.

    Args:
        src: A tokenizer, the path of a model folder or GGUF, or anything else that ``load``
            accepts.
        dst: File or folder to write; None: next to the source.
        to: Name of the format; empty: inferred from ``dst``.
        kind: Type of a model's matrices: f32, f16, bf16, q8_0, or auto to keep their type.
        max_bytes: Maximum bytes of tensors per file of a model; None: one file.
        vocab_only: Convert only the tokenizer of a model folder.
        allow_loss: Codes of losses to accept even if ordinary text gets different ids.
        options: Options for writing the tokenizer.
        force: Replace existing files.
        progress: Called with the bytes written and the total, for a model.

    Raises:
        UsageError: The format is unknown, or an output file already exists.
        FormatError: A file is damaged.
        LossError: Ordinary text would get different ids, and that is not allowed.
        UnsupportedError: The format cannot represent the tokenizer, or mtkit cannot convert the
            model.
        AnswerNo: The result does not give the same ids; nothing was written.
    """
    shared: dict[str, Any] = {"allow_loss": allow_loss, "options": options, "force": force}
    model_options: dict[str, Any] = {"kind": kind, "progress": progress, **shared}
    target = to or target_format(dst)
    if target == "hf-model":
        from mtkit.conversion.folder_writer import convert_to_folder

        if dst is None or isinstance(src, Tokenizer):
            raise UsageError("a folder is made of a GGUF, and has a name", field="dst")
        if max_bytes is not None:
            model_options["max_bytes"] = max_bytes
        return convert_to_folder(src, dst, **model_options)
    is_model = not isinstance(src, Tokenizer) and model_folder.sniff(os.fspath(src))
    if is_model and not vocab_only and target in ("", "gguf"):
        from mtkit.conversion.model import convert_model

        assert not isinstance(src, Tokenizer)
        return convert_model(src, dst, max_bytes=max_bytes, **model_options)
    if kind != "auto" or max_bytes is not None:
        field = "kind" if kind != "auto" else "max_bytes"
        raise UsageError("is for a model, not for a tokenizer", field=field)
    return convert_tokenizer(src, dst, to=to, **shared)
