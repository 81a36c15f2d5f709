"""The tokenizer of a model folder as a GGUF of its own: ``--vocab-only``.

It is the file of the whole conversion without its tensors: the same tokenizer, name, architecture
and keys. No weight is read, in whatever form the weights are.

Source: llama.cpp, conversion/base.py (``write_vocab``).
"""

from __future__ import annotations

import os

from mtkit.architectures import describe_config
from mtkit.architectures.decoder_rows import SENTENCE_POOLING
from mtkit.base.record import replace
from mtkit.checkpoints import folder_files
from mtkit.conversion.model_keys import architecture_keys, model_vocabulary, name_keys
from mtkit.conversion.model_tensors import FILE_TYPES
from mtkit.conversion.tokenizer import Conversion, is_same_file, make_folder, target_paths
from mtkit.errors import MtkitError, UsageError
from mtkit.formats.contract import WriteOptions, Written
from mtkit.gguf.in_place import write_ggufs
from mtkit.gguf.writer import Key, gguf_bytes
from mtkit.sources.locate import TOKENIZER, in_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection

    from mtkit.architectures import Architecture
    from mtkit.architectures.config import Config

_TYPES = {"float32": "f32", "bfloat16": "bf16"}
"""``dtype`` of config.json -> type of the matrices; else f16, as the converter guesses."""
NAME_KEY = "general.name"


def is_described(folder: str) -> bool:
    """Tell whether a folder has a config.json of a model that mtkit converts, and a tokenizer."""
    return _description(folder) is not None and in_folder(folder, TOKENIZER.files) is not None


def _description(folder: str) -> tuple[Architecture, Config] | None:
    path = os.path.join(folder, folder_files.MODEL_CONFIG)
    if not os.path.isfile(path):
        return None
    try:
        pooling = folder_files.pooling_of(folder)
        document = {**folder_files.read_json(path), SENTENCE_POOLING: pooling}
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
    force: bool = False,
) -> Conversion:
    """Convert the tokenizer of a model folder to a GGUF without tensors.

    Args:
        src: A folder of which ``is_described`` is true.
        dst: File or folder to write; None: next to the tokenizer.
        allow_loss: Codes of losses to accept even if ordinary text gets different ids.

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
    except MtkitError as error:
        keys = []
        assumptions = (
            f"of the model only its architecture is written: {error.field}: {error.what}",
        )
    about = name_keys(folder, [], options.name or None)
    name = next(str(key.value) for key in about if key.name == NAME_KEY)
    size = config.count("vocab_size")
    vocabulary = model_vocabulary(folder, config, size, replace(options, name=name), allow_loss)
    first = [
        Key("general.architecture", "string", architecture.name),
        *(
            Key(NAME_KEY, "string", vocabulary.name or name) if key.name == NAME_KEY else key
            for key in about
            if key.name != "general.size_label"  # there are no parameters
        ),
    ]
    data = gguf_bytes([*first, *keys, *vocabulary.keys])
    source = str(in_folder(folder, TOKENIZER.files))
    targets = target_paths(source, dst, Written({".gguf": data}))
    if any(is_same_file(path, source) for path in targets):
        what = "is the source file itself"
        raise UsageError(what, source=source, hint="use -o to choose another file")
    make_folder(dst, next(iter(targets)))
    write_ggufs(targets, force=force)
    return Conversion(
        path=next(iter(targets)),
        paths=tuple(targets),
        format_name="gguf",
        losses=vocabulary.losses,
        assumptions=(*vocabulary.assumptions, *assumptions),
        verified=vocabulary.verified,
        sizes=(("total", len(data)),),
    )
