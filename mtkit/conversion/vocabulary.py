"""The tokenizer of a model folder as a GGUF of its own: ``--vocab-only``.

It is the file of the whole conversion without its tensors: the same tokenizer, name, architecture
and keys. No weight is read, in whatever form the weights are.

Source: llama.cpp, conversion/base.py (``write_vocab``).
"""

from __future__ import annotations

import os

from mtkit.architectures import describe_config
from mtkit.base.record import replace
from mtkit.checkpoints import folder_files
from mtkit.conversion.heads import model_document
from mtkit.conversion.model import fill_name
from mtkit.conversion.model_keys import NAME_KEY, architecture_keys, general_keys, model_vocabulary
from mtkit.conversion.model_tensors import FILE_TYPES
from mtkit.conversion.tokenizer import (
    Conversion,
    check_targets,
    is_same_file,
    make_folder,
    source_itself,
    target_paths,
)
from mtkit.errors import MtkitError, UsageError
from mtkit.formats.contract import WriteOptions, Written
from mtkit.gguf.in_place import write_ggufs
from mtkit.gguf.writer import Key, gguf_bytes
from mtkit.sources.locate import TOKENIZER, in_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config

_TYPES = {"float32": "f32", "bfloat16": "bf16"}
"""``dtype`` of config.json -> type of the matrices; else f16, as the converter guesses."""
SIZE_KEY = "general.size_label"


def is_described(folder: str) -> bool:
    """Tell whether a folder has a config.json of a model that mtkit converts, and a tokenizer."""
    return _description(folder) is not None and in_folder(folder, TOKENIZER.files) is not None


def _description(folder: str) -> tuple[Architecture, Config] | None:
    path = os.path.join(folder, folder_files.MODEL_CONFIG)
    if not os.path.isfile(path):
        return None
    try:
        document = model_document(folder, folder_files.read_json(path))
        architecture, config = describe_config(document, path)
        config.count("vocab_size")
    except MtkitError:  # the tokenizer alone is converted, as from a folder without config.json
        return None
    return architecture, config


def convert_vocabulary(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str] | None = None,
    *,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    about: Sequence[Key] = (),
    force: bool = False,
    dry_run: bool = False,
) -> Conversion:
    """Convert the tokenizer of a model folder to a GGUF without tensors.

    Args:
        src: A folder of which ``is_described`` is true.
        dst: File or folder to write, ``{ftype}`` in its name stands for the type that config.json
            names; None: next to the tokenizer.
        allow_loss: Codes of losses to accept even if ordinary text gets different ids.
        options: Options for writing the tokenizer; ``name`` is the model's.
        about: Further keys of ``general``, in place of what the folder says.
        dry_run: Do all but the writing.

    Raises:
        UsageError: A file already exists, or the tokenizer has more ids than the model.
        FormatError: A file is damaged.
        LossError: Ordinary text would get different ids, and that is not allowed.
        UnsupportedError: llama.cpp has no such tokenizer.
        AnswerNo: The result does not give the same ids; nothing was written.
    """
    folder, options = os.fspath(src), options or WriteOptions()
    description = _description(folder)
    if description is None:
        raise UsageError("is no folder of a model that mtkit converts", source=folder)
    architecture, config = description
    if architecture.adds_eos and options.add_eos is None:
        options = replace(options, add_eos=True)
    assumptions: tuple[str, ...] = ()
    kind = _TYPES.get(str(config.get("dtype") or config.get("torch_dtype")), "f16")
    try:
        keys = architecture_keys(architecture, config, FILE_TYPES[kind])
        keys = [key for key in keys if key.type]
    except MtkitError as error:
        keys = []
        assumptions = (
            f"of the model only its architecture is written: {error.field}: {error.what}",
        )
    general = general_keys(folder, [], options.name, about)
    if all(key.name != SIZE_KEY for key in about):
        general.pop(SIZE_KEY, None)  # there are no parameters
    name = str(general[NAME_KEY].value)
    size = config.count("vocab_size")
    vocabulary = model_vocabulary(folder, config, size, replace(options, name=name), allow_loss)
    general[NAME_KEY] = Key(NAME_KEY, "string", vocabulary.name or name)
    first = Key("general.architecture", "string", architecture.name)
    data = gguf_bytes([first, *general.values(), *keys, *vocabulary.keys])
    source = str(in_folder(folder, TOKENIZER.files))
    dst = None if dst is None else fill_name(os.fspath(dst), kind)
    targets = target_paths(source, dst, Written({".gguf": data}))
    if any(is_same_file(path, source) for path in targets):
        raise source_itself(source)
    if dry_run:
        check_targets(dst, targets, force=force)
    else:
        with make_folder(dst, next(iter(targets))):
            write_ggufs(targets, force=force)
    return Conversion(
        path=next(iter(targets)),
        paths=tuple(targets),
        format_name="gguf",
        losses=vocabulary.losses,
        assumptions=(*vocabulary.assumptions, *assumptions),
        verified=vocabulary.verified,
        sizes=(("total", len(data)),),
        is_written=not dry_run,
    )
