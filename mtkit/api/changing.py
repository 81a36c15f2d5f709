"""``mtkit.edit`` and ``quantize``: a GGUF with other metadata, or with smaller weights."""

from __future__ import annotations

import json
import os

from mtkit.errors import UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.joined import open_whole

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

    from mtkit.gguf import GgufFile, Metadata
    from mtkit.gguf.writer import Key
    from mtkit.tokenizer.tokenizer import Tokenizer

    Scalar = str | bool | int | float
    Value = Scalar | Sequence[Scalar]


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
        src: The file; of a model in shards the first, of which one whole file is made.
        dst: The new file; None changes ``src`` itself, where the new header fits.
        keys: Key -> value. A key that is there keeps its type; a new one has that of its value,
            whole numbers being u32, or i32 below 0.
        unset: Keys to remove.
        rename_keys: Old name -> new name.
        rename_tensors: Old name -> new name.
        tokenizer: The tokenizer to replace that of the file with.
        allow_loss: Codes of losses of that tokenizer that may happen although they change ids.
        force: Replace a file that exists.

    Returns:
        The file that was written.

    Raises:
        UsageError: There is no such key or tensor, a value does not fit its type, or the new header
            does not fit the place of the old one.
        FormatError: The file is damaged.
        LossError: The tokenizer loses ids as a GGUF.
        ResourceError: The disk is full.
    """
    from mtkit.gguf.draft import Draft
    from mtkit.gguf.in_place import InPlace, write_ggufs

    path = os.path.expanduser(os.fspath(src))
    target = None if dst is None else os.path.expanduser(os.fspath(dst))

    def drafted(file: GgufFile) -> Draft:
        draft = Draft.of(file)
        if tokenizer is not None:
            from mtkit.conversion.vocabulary_of_model import replace_vocabulary
            from mtkit.tokenizer.load import load
            from mtkit.tokenizer.tokenizer import Tokenizer

            given = tokenizer if isinstance(tokenizer, Tokenizer) else load(tokenizer)
            replace_vocabulary(draft, file, given, tuple(allow_loss))
        for old, new in (rename_keys or {}).items():
            draft.rename_key(old, new)
        for old, new in (rename_tensors or {}).items():
            draft.rename_tensor(old, new)
        for name in unset:
            draft.unset(name)
        for name, value in (keys or {}).items():
            draft.set(_key(name, value, file.metadata))
        return draft

    if target is None:
        with InPlace(path) as place:
            file = open_gguf(path)
            place.write(file, drafted(file))
        return open_gguf(path)
    write_ggufs({target: drafted(open_whole(path)).chunks()}, force=force)
    return open_gguf(target)


def _key(name: str, value: Value, metadata: Metadata) -> Key:
    """Return a key with the type that the file has for it, or that its value has."""
    from mtkit.gguf.typed_values import typed

    kind = metadata.type_name(name) if name in metadata else _kind(name, value)
    text = value if isinstance(value, str) else json.dumps(value)
    return typed(name, f"{kind}:{text}", metadata)


def _kind(name: str, value: Value) -> str:
    if isinstance(value, str):
        return "string"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "u32" if value >= 0 else "i32"
    if isinstance(value, float):
        return "f32"
    kinds = {_kind(name, one) for one in value}
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
    force: bool = False,
    progress: Callable[[float], object] | None = None,
) -> GgufFile:
    """Quantize a model with llama.cpp's quantizer, in a process of its own.

    Args:
        src: The GGUF.
        dst: The new file.
        kind: The name of the mix, such as "Q4_K_M".
        pure: Every matrix is of the mix's own type.
        imatrix: An importance matrix, as GGUF.
        threads: How many compute; 0: one for each core.
        allow_requantize: Take a model that is quantized already.
        force: Replace a file that exists.
        progress: Is told the share that is done.

    Returns:
        The file that was written.

    Raises:
        MissingExtra: llama-cpp-python is not installed.
        UsageError: The mix is not known, or a file is there already.
        FormatError: The file is damaged.
        UnsupportedError: It is quantized already, or llama.cpp cannot quantize it so.
    """
    from mtkit.llm.quantization import file_type
    from mtkit.llm.quantization import quantize as run
    from mtkit.llm.tensor_kinds import TensorKinds

    path, target = (os.path.expanduser(os.fspath(one)) for one in (src, dst))
    run(
        path,
        target,
        file_type(kind),
        pure=pure,
        kinds=TensorKinds((), "", ""),
        imatrix=None if imatrix is None else os.fspath(imatrix),
        threads=threads,
        allow_requantize=allow_requantize,
        force=force,
        progress=progress or (lambda _: None),
    )
    return open_gguf(target)
