"""``mtkit.convert``, ``edit`` and ``quantize``: a new file from a tokenizer or a model."""

from __future__ import annotations

import json
import os
from typing import overload

from mtkit.base.binary import expand_home
from mtkit.base.idioms import explained
from mtkit.base.notebook import Progress
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from typing import Any, Literal

    from mtkit.conversion.tokenizer import Conversion
    from mtkit.formats.contract import WriteOptions
    from mtkit.gguf import GgufFile, Metadata
    from mtkit.gguf.writer import Key
    from mtkit.tokenizer.tokenizer import Tokenizer

    StrPath = str | os.PathLike[str]
    Scalar = str | bool | int | float

    Value = Scalar | Sequence[Scalar]


@overload
def convert(  # a tokenizer, or of a model folder only that
    src: StrPath | Tokenizer,
    dst: StrPath | None = None,
    *,
    to: str = "",
    vocab_only: bool = False,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> Conversion: ...
@overload
def convert(  # the folder of a model or of an adapter, to a GGUF
    src: StrPath,
    dst: StrPath | None = None,
    *,
    to: Literal["", "gguf"] = "",
    kind: Literal["auto", "f32", "f16", "bf16", "q8_0"] = "auto",
    max_bytes: int | None = None,
    max_tensors: int | None = None,
    first_without_tensors: bool = False,
    dense_modules: bool = False,
    mmproj: bool = False,
    base: StrPath | None = None,
    metadata: Mapping[str, Any] | None = None,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion: ...
@overload
def convert(  # a GGUF, to a model folder
    src: StrPath,
    dst: StrPath,
    *,
    to: Literal["hf-model"],
    kind: Literal["auto", "f32", "f16", "bf16"] = "auto",
    max_bytes: int | None = None,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion: ...
@overload
def convert(  # a checkpoint of llama2.c, or the tokenizer of a model folder, to a GGUF
    src: StrPath,
    dst: StrPath | None = None,
    *,
    to: Literal["", "gguf"] = "",
    tokenizer: StrPath | Tokenizer | None = None,
    vocab_only: bool = False,
    metadata: Mapping[str, Any] | None = None,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    dry_run: bool = False,
) -> Conversion: ...
@explained
def convert(
    src: StrPath | Tokenizer,
    dst: StrPath | None = None,
    *,
    to: str = "",
    kind: str = "auto",
    tokenizer: StrPath | Tokenizer | None = None,
    max_bytes: int | None = None,
    max_tensors: int | None = None,
    first_without_tensors: bool = False,
    dense_modules: bool = False,
    mmproj: bool = False,
    base: StrPath | None = None,
    vocab_only: bool = False,
    metadata: Mapping[str, Any] | None = None,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion:
    """Convert a tokenizer to another format, or a whole model.

    A folder with config.json and weights becomes a GGUF, as do an adapter's folder, the model in a
    llamafile or in a format before GGUF and, with ``tokenizer``, a checkpoint of llama2.c.
    ``to="hf-model"`` turns a GGUF into a folder. Everything else is read as a tokenizer. Type
    checkers know which arguments go together.

    Args:
        src: A tokenizer, the path of a model folder or GGUF, or anything else that ``load``
            accepts.
        dst: File or folder to write, ``{ftype}`` in the name of a model stands for its type;
            None: next to the source.
        to: Name of the format; empty: inferred from ``dst``.
        kind: Type of a model's matrices: f32, f16, bf16, q8_0, or auto to keep their type (bf16
            for quantized ones in a folder).
        tokenizer: The tokenizer of a llama2.c checkpoint, which does not contain one.
        max_bytes: Maximum bytes of tensors per file of a model; None: one GGUF, or 5 GB.
        max_tensors: Maximum number of tensors per GGUF.
        first_without_tensors: Let the first of several GGUFs have the metadata alone.
        dense_modules: Convert the dense layers that sentence-transformers puts behind a model.
        mmproj: Convert what sees or hears of a model folder, in place of the text model.
        base: Folder of the model that an adapter is for, if the adapter does not say.
        vocab_only: Convert only the tokenizer of a model folder.
        metadata: Keys ``general.…`` and their values, in place of what the model says.
        allow_loss: Codes of losses to accept even if ordinary text gets different ids, or values
            change.
        options: Options for writing the tokenizer; ``name`` is a model's as well.
        force: Replace existing files.
        dry_run: Do all but the writing.
        progress: Called with the bytes written and the total, for a model.

    Raises:
        UsageError: The format is unknown, an output file already exists, or an argument is not for
            what is converted.
        FormatError: A file is damaged, or its parts contradict each other.
        LossError: Ordinary text would get different ids, or weights become infinite, NaN or zero,
            and that is not allowed.
        UnsupportedError: The format cannot represent the tokenizer, or mtkit cannot convert the
            model.
        AnswerNo: The result does not give the same ids; nothing was written.
        ResourceError: The disk is full.
    """
    from mtkit.checkpoints import adapter_folder, model_folder
    from mtkit.conversion.key_types import metadata_keys
    from mtkit.conversion.tokenizer import convert as convert_tokenizer
    from mtkit.conversion.tokenizer import target_format
    from mtkit.sources import stores
    from mtkit.tokenizer.tokenizer import Tokenizer

    arguments = {
        "kind": kind.lower(), "tokenizer": tokenizer, "max_bytes": max_bytes,
        "max_tensors": max_tensors, "first_without_tensors": first_without_tensors,
        "dense_modules": dense_modules, "mmproj": mmproj, "base": base, "vocab_only": vocab_only,
        "metadata": metadata,
    }  # fmt: skip
    arguments = {k: v for k, v in arguments.items() if v is not None and v not in (False, "auto")}
    shared: dict[str, Any] = {
        "allow_loss": allow_loss, "options": options, "force": force, "dry_run": dry_run,
    }  # fmt: skip
    about = tuple(metadata_keys(metadata or {}))
    target = to or target_format(dst)
    progress = progress or Progress("convert").count

    def take(what: str, *names: str) -> dict[str, Any]:
        for field in arguments.keys() - names:
            hint = "mtkit.quantize changes the type of a GGUF" if field == "kind" else ""
            raise UsageError(f"is not for {what}", field=field, hint=hint)
        return {k: v for k, v in arguments.items() if k not in ("metadata", "vocab_only")}

    if target == "hf-model":
        from mtkit.conversion.folder_writer import convert_to_folder

        if dst is None or isinstance(src, Tokenizer):
            raise UsageError("a folder is made of a GGUF, and has a name", field="dst")
        own = take("a GGUF that becomes a folder", "kind", "max_bytes")
        return convert_to_folder(src, dst, progress=progress, **own, **shared)
    if isinstance(src, Tokenizer) or target not in ("", "gguf"):
        take("a tokenizer", "vocab_only")
        return convert_tokenizer(src, dst, to=to, **shared)
    folder = _source_path(src)
    if vocab_only:
        from mtkit.conversion.vocabulary import convert_vocabulary, is_described

        if is_described(folder):
            take("a tokenizer", "vocab_only", "metadata")
            return convert_vocabulary(folder, dst, about=about, **shared)
    elif model_folder.sniff(folder):
        from mtkit.conversion.model import convert_model

        sizes = ("max_bytes", "max_tensors", "first_without_tensors", "dense_modules", "mmproj")
        own = take("a model folder", "kind", "metadata", *sizes)
        return convert_model(folder, dst, about=about, progress=progress, **own, **shared)
    elif adapter_folder.sniff(folder):
        from mtkit.conversion.adapter import convert_adapter

        own = take("an adapter", "kind", "metadata", "base")
        del shared["options"]  # of tokenizers, but for the name
        name = options.name if options else ""
        return convert_adapter(folder, dst, about=about, name=name, **own, **shared)
    elif tokenizer is not None:
        from mtkit.conversion.model import convert_checkpoint
        from mtkit.tokenizer.load import load

        vocabulary = tokenizer if isinstance(tokenizer, Tokenizer) else load(tokenizer)
        take("a checkpoint of llama2.c", "tokenizer", "metadata")
        return convert_checkpoint(folder, vocabulary, dst, about=about, **shared)
    elif target == "gguf" and os.path.isfile(folder) and stores.holds_model(folder):
        from mtkit.conversion.model import convert_whole

        take("a model in one file", "metadata")
        return convert_whole(folder, dst, about=about, force=force, dry_run=dry_run)
    take("a tokenizer", "vocab_only")
    return convert_tokenizer(src, dst, to=to, **shared)


def _source_path(name: StrPath) -> str:
    """Return the path of a source, which is in the cache where no file has its name."""
    from mtkit.sources import hub

    path = expand_home(name)
    return path if os.path.exists(path) else hub.find(path) or path


@explained
def edit(
    src: StrPath,
    dst: StrPath | None = None,
    *,
    keys: Mapping[str, Value] | None = None,
    unset: Collection[str] = (),
    rename_keys: Mapping[str, str] | None = None,
    rename_tensors: Mapping[str, str] | None = None,
    tokenizer: StrPath | Tokenizer | None = None,
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

    path = expand_home(src)
    target = None if dst is None else expand_home(dst)

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


@explained
def quantize(
    src: StrPath,
    dst: StrPath,
    kind: str,
    *,
    pure: bool = False,
    imatrix: StrPath | None = None,
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

    path, target = (expand_home(name) for name in (src, dst))
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
        progress=progress or Progress(f"quantize to {kind}"),
    )
    for note in quantization.notes():
        warnings.warn(note, stacklevel=2)
    return open_gguf(target)
