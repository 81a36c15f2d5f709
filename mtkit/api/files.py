"""``mtkit.convert``, ``edit`` and ``quantize``: a new file from a tokenizer or a model."""

from __future__ import annotations

import json
import os

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any

    from mtkit.conversion.tokenizer import Conversion
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf import GgufFile, Metadata
    from mtkit.gguf.writer import Key
    from mtkit.tokenizer.tokenizer import Tokenizer

    Scalar = str | bool | int | float

    Value = Scalar | Sequence[Scalar]


def convert(
    src: str | os.PathLike[str] | Tokenizer,
    dst: str | os.PathLike[str] | None = None,
    *,
    to: str = "",
    kind: str = "auto",
    max_bytes: int | None = None,
    dense_modules: bool = False,
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
        dense_modules: Convert the dense layers that sentence-transformers puts behind a model.
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
    from mtkit.checkpoints import model_folder
    from mtkit.conversion.tokenizer import convert as convert_tokenizer
    from mtkit.conversion.tokenizer import target_format
    from mtkit.tokenizer.tokenizer import Tokenizer

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
        return convert_model(
            src, dst, max_bytes=max_bytes, dense_modules=dense_modules, **model_options
        )
    model_fields = {
        "kind": kind != "auto",
        "max_bytes": max_bytes is not None,
        "dense_modules": dense_modules,
    }
    for field in (name for name, is_set in model_fields.items() if is_set):
        raise UsageError("is for a model, not for a tokenizer", field=field)
    if vocab_only and not isinstance(src, Tokenizer) and target in ("", "gguf"):
        from mtkit.conversion.vocabulary import convert_vocabulary, is_described
        from mtkit.sources import hub

        name = os.path.expanduser(os.fspath(src))
        folder = name if os.path.exists(name) else hub.find(name)
        if folder is not None and is_described(folder):
            return convert_vocabulary(folder, dst, **shared)
    return convert_tokenizer(src, dst, to=to, **shared)


def edit(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str] | None = None,
    *,
    keys: Mapping[str, Value] | None = None,
    unset: Collection[str] = (),
    rename_keys: Mapping[str, str] | None = None,
    rename_tensors: Mapping[str, str] | None = None,
    tokenizer: str | os.PathLike[str] | Tokenizer | None = None,
    allow_loss: Collection[str] = (),
    force: bool = False,
) -> GgufFile:
    """Change metadata, tensor names or the tokenizer of a GGUF; tensor data stays the same.

    Args:
        src: The file, or the first shard of a sharded model; the result is one file.
        dst: The new file; None: edit ``src`` in place, if the new header fits.
        keys: Key -> value. An existing key keeps its type; a new key gets the type of its value:
            u32 for an integer, or i32 if it is negative.
        unset: Keys to remove.
        rename_keys: Old name -> new name.
        rename_tensors: Old name -> new name.
        tokenizer: A tokenizer that replaces the file's.
        allow_loss: Codes of tokenizer losses to accept even if ids change.
        force: Replace an existing file.

    Returns:
        The new file.

    Raises:
        UsageError: A key or tensor does not exist, a value does not fit its type, or the new header
            does not fit in place of the old one.
        FormatError: The file is damaged.
        LossError: Ids would change if the tokenizer were stored in a GGUF.
        ResourceError: The disk is full.
    """
    from mtkit.gguf import open_gguf
    from mtkit.gguf.draft import Draft
    from mtkit.gguf.in_place import InPlace, write_ggufs
    from mtkit.gguf.shards import open_whole

    path = os.path.expanduser(os.fspath(src))
    target = None if dst is None else os.path.expanduser(os.fspath(dst))

    def draft_of(file: GgufFile) -> Draft:
        draft = Draft.of(file)
        if tokenizer is not None:
            from mtkit.conversion.model_keys import replace_vocabulary
            from mtkit.tokenizer.load import load
            from mtkit.tokenizer.tokenizer import Tokenizer

            own = tokenizer if isinstance(tokenizer, Tokenizer) else load(tokenizer)
            replace_vocabulary(draft, file, own, tuple(allow_loss))
        for old, new in (rename_keys or {}).items():
            draft.rename_key(old, new)
        for old, new in (rename_tensors or {}).items():
            draft.rename_tensor(old, new)
        for name in unset:
            draft.unset(name)
        for name, value in (keys or {}).items():
            draft.set(_typed_key(name, value, file.metadata))
        return draft

    if target is None:
        with InPlace(path) as place:
            file = open_gguf(path)
            place.write(file, draft_of(file))
        return open_gguf(path)
    write_ggufs({target: draft_of(open_whole(path)).chunks()}, force=force)
    return open_gguf(target)


def _typed_key(name: str, value: Value, metadata: Metadata) -> Key:
    from mtkit.gguf.draft import parse_key

    kind = metadata.type_name(name) if name in metadata else _value_type(name, value)
    text = value if isinstance(value, str) else json.dumps(value)
    return parse_key(name, f"{kind}:{text}", metadata)


def _value_type(name: str, value: Value) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "u32" if value >= 0 else "i32"
    if isinstance(value, float):
        return "f32"
    kinds = {_value_type(name, element) for element in value}
    if kinds == {"u32", "i32"}:
        kinds = {"i32"}
    if len(kinds) != 1:
        raise UsageError("an array has elements of one type, and one at least", field=name)
    return f"{kinds.pop()}[]"


def quantize(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    kind: str,
    *,
    pure: bool = False,
    imatrix: str | os.PathLike[str] | None = None,
    threads: int = 0,
    allow_requantize: bool = False,
    fallback: bool = True,
    force: bool = False,
    progress: Callable[[float], object] | None = None,
) -> GgufFile:
    """Quantize a model with llama.cpp's quantizer, in a separate process.

    A ``UserWarning`` says how many tensors got another type than the mix has for them, because
    their rows are not whole blocks of it, and that a mix for experts found none.

    Args:
        src: The GGUF.
        dst: The new file.
        kind: The quantization type, such as "Q4_K_M".
        pure: Use one type for all matrices.
        imatrix: An importance matrix in a GGUF.
        threads: Number of threads; 0: one per core.
        allow_requantize: Allow a model that is already quantized.
        fallback: Let tensors that do not fit their type have a larger one.
        force: Replace an existing file.
        progress: Called with the fraction done, 0 to 1.

    Returns:
        The new file.

    Raises:
        MissingExtra: llama-cpp-python is not installed.
        UsageError: The type is unknown, or the output file already exists.
        FormatError: The file is damaged.
        UnsupportedError: The model is already quantized, llama.cpp cannot quantize it to this
            type, or a tensor does not fit its type and ``fallback`` is False.
    """
    import warnings

    from mtkit.gguf import open_gguf
    from mtkit.llm.quantization import TensorKinds, file_type
    from mtkit.llm.quantization import quantize as run

    path, target = (os.path.expanduser(os.fspath(name)) for name in (src, dst))
    quantization = run(
        path,
        target,
        file_type(kind),
        pure=pure,
        kinds=TensorKinds((), "", ""),
        imatrix=None if imatrix is None else os.fspath(imatrix),
        threads=threads,
        allow_requantize=allow_requantize,
        force=force,
        fallback=fallback,
        progress=progress or (lambda _: None),
    )
    for note in quantization.notes():
        warnings.warn(note, stacklevel=2)
    return open_gguf(target)
