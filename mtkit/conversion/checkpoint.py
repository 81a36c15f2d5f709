"""Conversion of a checkpoint with its tokenizer into one GGUF that llama.cpp runs.

The tokenizer goes the way of every conversion: what would be lost is named or refused, what was
written is read back and compared on the built-in texts, and only then the file appears. Weights are
streamed from the mapped checkpoint.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.conversion.convert import Conversion, write
from mtkit.conversion.targets import make_folder
from mtkit.conversion.verify import verify
from mtkit.errors import MtkitError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from mtkit.checkpoints import Checkpoint
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf.writer import Key
    from mtkit.tokenizer.tokenizer import Tokenizer

ARCHITECTURE = "llama"
END_OF_TURN = "tokenizer.ggml.eot_token_id"


def convert_checkpoint(
    src: str | os.PathLike[str],
    tokenizer: Tokenizer,
    dst: str | os.PathLike[str] | None = None,
    *,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
) -> Conversion:
    """Convert a llama2.c checkpoint to a GGUF of 32-bit floats.

    Args:
        src: The checkpoint.
        tokenizer: Its tokenizer, which the checkpoint does not contain.
        dst: File or folder to write; None: next to the source.
        allow_loss: Codes of losses to accept even if ordinary text gets different ids.
        options: Options for writing the tokenizer.
        force: Replace an existing file.

    Raises:
        FormatError: The checkpoint is damaged.
        UsageError: Model and tokenizer do not belong together, or a file already exists.
        LossError: Ordinary text would get different ids, and that is not allowed.
        AnswerNo: The converted tokenizer does not give the same ids; nothing was written.
    """
    from mtkit import checkpoints
    from mtkit.base.record import replace
    from mtkit.formats import gguf
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf.in_place import settle
    from mtkit.gguf.writer import write_gguf

    path = os.fspath(src)
    stem = "model" if path == "-" else os.path.splitext(os.path.basename(path))[0]
    options = replace(options or WriteOptions(), name=stem)
    try:
        model = checkpoints.read(Source.open(path))
    except MtkitError as error:
        raise error.located(path) from None
    if tokenizer.spec.vocab_size != model.n_vocab:
        raise UsageError(
            f"has {model.n_vocab} ids, but the tokenizer has {tokenizer.spec.vocab_size}",
            source=path,
            hint="give the tokenizer that the model was trained with",
        )
    tokenizer, assumptions, written = write(tokenizer, gguf, options, allow_loss)
    verified = verify(tokenizer, gguf, written, allow_loss)
    target = _target(path, stem, dst)
    keys, assumed = _keys(model, written.files[".gguf"], tokenizer)
    make_folder(dst, target)
    settle(target, force=force)
    write_gguf(target, keys, model.tensors, force=force)
    return Conversion(
        path=target,
        paths=(target,),
        format_name=gguf.NAME,
        losses=written.losses,
        assumptions=(*assumptions, *assumed),
        verified=verified,
        sizes=(("total", os.path.getsize(target)),),
    )


def _target(path: str, stem: str, dst: str | os.PathLike[str] | None) -> str:
    target = os.path.join(os.path.dirname(path), f"{stem}.gguf") if dst is None else os.fspath(dst)
    if target.endswith(("/", os.sep)) or os.path.isdir(target):
        target = os.path.join(target, f"{stem}.gguf")
    if os.path.exists(target) and os.path.samefile(target, path):
        raise UsageError(
            "is the source file itself", source=path, hint="use -o to choose another file"
        )
    return target


def _keys(
    model: Checkpoint, vocabulary: bytes, tokenizer: Tokenizer
) -> tuple[list[Key], tuple[str, ...]]:
    """Return the keys of the model and of its vocabulary, and what was supplied."""
    from mtkit.gguf import open_gguf
    from mtkit.gguf.writer import Key

    metadata = open_gguf(Source(".gguf", vocabulary)).metadata
    if metadata["general.architecture"] != ARCHITECTURE:
        raise UnsupportedError(
            f"llama.cpp runs this tokenizer with {metadata['general.architecture']} models only",
            source=tokenizer.source,
        )
    found = [Key(name, metadata.type_name(name), value) for name, value in metadata.items()]
    head = [key for key in found if key.name.startswith("general.")]
    keys = [*head, *model.gguf_keys(), *found[len(head) :]]
    bos = tokenizer.spec.special_ids.bos
    if bos is None or END_OF_TURN in metadata:
        return keys, ()
    # run.c stops at BOS, with which the texts of its training data begin.
    return [*keys, Key(END_OF_TURN, "u32", bos)], ("a text ends at BOS, as in llama2.c",)
