"""A HuggingFace model folder as one GGUF that llama.cpp runs.

config.json gives the metadata, safetensors the weights, the tokenizer goes the way of every
conversion: what would be lost is named or refused, and what was written is compared on the built-in
texts before the file appears. Weights are streamed from the mapped files.
"""

from __future__ import annotations

import os
from math import prod

from mtkit.architectures import architectures, of_class
from mtkit.architectures.common_keys import SENTENCE_POOLING
from mtkit.architectures.config import Config
from mtkit.architectures.dims import Dims
from mtkit.architectures.keys import TOKENIZER
from mtkit.architectures.matching import of_folder
from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record, replace
from mtkit.checkpoints import model_folder, sentence_pooling
from mtkit.conversion import layer_numbers, model_keys
from mtkit.conversion.convert import Conversion, Model
from mtkit.conversion.model_tensors import (
    FILE_TYPES,
    PACKED_FILE_TYPES,
    TYPES,
    new_tensors,
    usual_type,
)
from mtkit.conversion.model_vocabulary import model_vocabulary
from mtkit.conversion.targets import make_folder
from mtkit.errors import MtkitError, UnsupportedError
from mtkit.gguf.draft import Draft
from mtkit.gguf.file import DEFAULT_ALIGNMENT
from mtkit.gguf.in_place import write_ggufs
from mtkit.gguf.shard_files import cut, numbered
from mtkit.gguf.values import DTYPES, F32, stored
from mtkit.gguf.writer import Key, NewTensor
from mtkit.sources import hub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from mtkit.architectures import Architecture
    from mtkit.architectures.in_layers import Match
    from mtkit.checkpoints.model_folder import ModelFolder, Stored
    from mtkit.conversion.model_vocabulary import ModelVocabulary
    from mtkit.formats.contract import WriteOptions

NAME = "general.name"


class Plan(Record):
    """How a folder becomes a GGUF.

    Attributes:
        folder: The folder.
        architecture: Of the model.
        config: With what transformers takes where it is silent.
        keys: What its metadata say, its tokenizer aside.
        generated: Tensors that config.json gives.
        matches: Where the others come from.
        type: Of its matrices: f32, f16, bf16 or q8_0.
        vocab: Number of ids.
    """

    folder: ModelFolder
    architecture: Architecture
    config: Config
    keys: tuple[Key, ...]
    generated: tuple[NewTensor, ...]
    matches: tuple[Match, ...]
    type: str
    vocab: int

    def tensors(self, done: Callable[[int], object] = lambda _: None) -> list[NewTensor]:
        """Return the tensors of the GGUF; ``done`` is told each number of bytes that was made."""
        wanted = TYPES[self.type]
        return [*self.generated, *new_tensors(self.matches, self.folder.tensors, wanted, done)]


def plan_of(path: str, kind: str = "auto") -> Plan:
    """Look at a folder: what becomes of everything in it; no weight is read.

    Args:
        path: The folder.
        kind: Type of matrices: f32, f16, bf16, q8_0, or auto for the one that they have.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or config.json and weights contradict each other.
        UnsupportedError: mtkit does not convert such a model.
    """
    folder = model_folder.read(path, [key for key, one in architectures().items() if one.packed])
    source = os.path.join(path, model_folder.CONFIG)
    try:
        architecture = of_class(folder.architecture)
        is_packed = model_folder.quantization(folder.config) == model_folder.MXFP4
        if is_packed:
            architecture = replace(architecture, rows=architecture.packed)
        pooling = sentence_pooling.of_folder(path)
        config = Config({**folder.config, SENTENCE_POOLING: pooling}, source)
        config = config.with_defaults(architecture.defaults(config))
        shapes = {
            name: one.weight.shape
            for name, one in folder.tensors.items()
            if architecture.skips is None or not architecture.skips(name, config)
        }
        if kind == "auto":
            kind = usual_type(
                (one.weight.type, one.weight.shape) for one in folder.tensors.values()
            )
        types = PACKED_FILE_TYPES if is_packed else FILE_TYPES
        keys = tuple(model_keys.of_model(architecture, config, types[kind]))
        vocab = config.count("vocab_size")
        dims = dims_of(architecture, keys, vocab)
        matches = tuple(of_folder(architecture, dims, shapes))
        # Sizes are those of tensors that are there: what is computed from them is not too large.
        generated = tuple(_generated(architecture, config, dims))
        for match in matches:
            known = ("U8",) if match.row.change.stores else DTYPES
            _refuse_types((folder.tensors[name] for name in match.folder), known)
        keys = (*layer_numbers.keys(architecture, dims, folder.tensors), *keys)
        _refuse_nonzero(architecture, folder)
    except MtkitError as error:
        raise error.located(source) from None
    return Plan(folder, architecture, config, keys, generated, matches, kind, vocab)


class Prepared(Record):
    """A GGUF that is to be written.

    Attributes:
        plan: How the folder becomes it.
        draft: What it holds; tensors are made as they are written.
        vocabulary: Its tokenizer, which is proved.
    """

    plan: Plan
    draft: Draft
    vocabulary: ModelVocabulary

    def conversion(self, paths: Sequence[str]) -> Conversion:
        """Return what was done, once the files are there."""
        tensors = self.draft.tensors.values()
        parameters = sum(prod(one.shape) for one in tensors)
        return Conversion(
            paths[0],
            tuple(paths),
            "gguf",
            self.vocabulary.losses,
            self.vocabulary.assumptions,
            self.vocabulary.verified,
            (("total", sum(map(os.path.getsize, paths))),),
            Model(self.plan.architecture.name, self.plan.type.upper(), len(tensors), parameters),
        )


def prepare(
    path: str,
    kind: str = "auto",
    *,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Prepared:
    """Do all of a conversion but the writing; arguments and errors are ``convert_model``'s."""
    from mtkit.formats.contract import WriteOptions

    plan, options, done = plan_of(path, kind), options or WriteOptions(), [0]
    if plan.architecture.adds_eos and options.add_eos is None:
        options = replace(options, add_eos=True)

    def told(size: int) -> None:
        done[0] += size
        if progress is not None:
            progress(done[0], total)

    tensors = plan.tensors(told)
    total = sum(one.n_bytes for one in tensors)
    about = model_keys.about(path, tensors, options.name or None)
    name = next(str(key.value) for key in about if key.name == NAME)
    vocabulary = model_vocabulary(
        path, plan.config, plan.vocab, replace(options, name=name), allow_loss
    )
    # llama.cpp takes rules of some tokenizers from the name: the writer may have added to it.
    name = vocabulary.name or name
    named = [Key(NAME, "string", name) if key.name == NAME else key for key in about]
    architecture = Key("general.architecture", "string", plan.architecture.name)
    keys = [architecture, *named, *plan.keys, *vocabulary.keys]
    return Prepared(plan, Draft(keys, tensors), vocabulary)


def convert_model(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str] | None = None,
    *,
    kind: str = "auto",
    max_bytes: int | None = None,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion:
    """Convert a HuggingFace model folder to a GGUF.

    Args:
        src: The folder.
        dst: Where to write: a file, or a folder; None for a file in ``src``.
        kind: Type of matrices: f32, f16, bf16, q8_0, or auto for the one that they have.
        max_bytes: Of tensors in a file, where several are to be written; None for one file.
        allow_loss: Codes of losses of the tokenizer that may happen although they change ids.
        options: Choices of the tokenizer's writer.
        force: Replace files that exist.
        progress: Is told how many bytes of how many are written.

    Raises:
        UsageError: A file is missing, or one to be written is there already.
        FormatError: A file is damaged, or config.json and weights contradict each other.
        UnsupportedError: mtkit does not convert such a model, or llama.cpp has no such tokenizer.
        LossError: Ordinary text would get other ids and that is not allowed.
        AnswerNo: The tokenizer written does not give the same ids; nothing is left on the disk.
        ResourceError: The disk is full.
    """
    path = os.fspath(src)
    made = prepare(path, kind, allow_loss=allow_loss, options=options, progress=progress)
    target = target_of(path, made.plan.type, dst)
    drafts, names = [made.draft], [target]
    if max_bytes is not None:
        drafts = cut(made.draft, DEFAULT_ALIGNMENT, max_bytes=max_bytes)
        names = numbered(target, len(drafts))
    make_folder(dst, target)
    # A set is looked for by its first file.
    files = {name: one.chunks() for name, one in reversed([*zip(names, drafts, strict=True)])}
    write_ggufs(files, force=force)
    if progress is not None:
        progress(1, 1)
    return made.conversion(names)


def target_of(path: str, kind: str, dst: str | os.PathLike[str] | None) -> str:
    """Return the path of the GGUF of a folder: as ``dst`` says, else named like it, in it."""
    stem = os.path.basename(os.path.abspath(path))
    folder = path
    if hub.holds(path):
        stem, folder = hub.name_of(path), ""
    name = f"{stem}-{kind.upper()}.gguf"
    if dst is None:
        return os.path.join(folder, name)
    target = os.fspath(dst)
    if target.endswith(("/", os.sep)) or os.path.isdir(target):
        return os.path.join(target, name)
    return target


def dims_of(architecture: Architecture, keys: Collection[Key], vocab: int) -> Dims:
    """Return the sizes of a model."""
    start = f"{architecture.name}."
    found = {
        key.name.removeprefix(start): key.value
        for key in keys
        if key.name.startswith((start, TOKENIZER))
    }
    return Dims({**found, "vocab": vocab}, architecture.dims)


def _refuse_types(tensors: Iterable[Stored], known: Collection[str]) -> None:
    """Refuse numbers that only the program which wrote them understands.

    Raises:
        UnsupportedError: There are some.
    """
    for one in tensors:
        if one.weight.type not in known:
            what = f"has the type {shown(one.weight.type)}, which mtkit does not convert"
            hint = "take the model in BF16, F16 or F32"
            field = f"tensor {quoted(one.weight.name)}"
            raise UnsupportedError(what, source=one.path, field=field, hint=hint)


def _refuse_nonzero(architecture: Architecture, folder: ModelFolder) -> None:
    import numpy as np

    for name, one in folder.tensors.items():
        if name.endswith(architecture.zeros) and np.frombuffer(one.data, np.uint8).any():
            what = f"is not zero, and llama.cpp has no such tensor in a {architecture.name} model"
            raise UnsupportedError(what, field=f"tensor {quoted(name)}")


def _generated(architecture: Architecture, config: Config, dims: Dims) -> Iterator[NewTensor]:
    for one in architecture.generated:
        values = one.values(config, dims)
        if values is not None:
            shape = tuple(reversed(dims.shape(one.axes)))
            yield NewTensor(one.name, shape, F32, stored(values, F32))
