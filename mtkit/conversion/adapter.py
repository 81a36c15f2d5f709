"""A LoRA adapter of PEFT as a GGUF that llama.cpp adds to a model.

Names and order of rows are those of the base model's conversion: a change that moves the rows of a
matrix moves those of B. A GGUF has one alpha: a layer with another has it in its B. Norms that were
trained whole are written as llama.cpp's converter does, though llama.cpp passes over them.
Source: llama.cpp, convert_lora_to_gguf.py; src/llama-adapter.cpp.
"""

from __future__ import annotations

import os
from functools import partial
from math import prod

from mtkit.architectures import describe_config
from mtkit.architectures.changes import Transposed
from mtkit.architectures.tensor_match import match_names
from mtkit.base.binary import expand_home
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.checkpoints import adapter_folder, folder_files
from mtkit.checkpoints.adapter_folder import is_norm
from mtkit.conversion import model_keys
from mtkit.conversion.model import gguf_target
from mtkit.conversion.model_tensors import FILE_TYPES, TYPES, array_bytes, check_type
from mtkit.conversion.tokenizer import Conversion, Model, check_targets, make_folder
from mtkit.conversion.value_losses import CODE, ValueLosses
from mtkit.errors import (
    FormatError,
    LossError,
    MtkitError,
    UnsupportedError,
    UsageError,
    format_count,
    wording,
)
from mtkit.gguf.in_place import write_ggufs
from mtkit.gguf.value_counts import ValueCounts
from mtkit.gguf.values import DTYPES, F16, F32, convert_data
from mtkit.gguf.writer import Key, LazyData, NewTensor, gguf_chunks
from mtkit.sources import hub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.tensor_match import Match
    from mtkit.base.binary import Buffer
    from mtkit.checkpoints.adapter_folder import AdapterFolder, Pair
    from mtkit.gguf.types import TensorType


_OTHER_BASE = "check that this is its base model"


class AdapterPlan(Record):
    """How an adapter becomes a GGUF.

    Attributes:
        norms: The rows of tensors that were trained whole.
        type: Of its matrices: f32, f16, bf16 or q8_0.
    """

    folder: AdapterFolder
    base: str
    architecture: Architecture
    matches: tuple[Match, ...]
    norms: tuple[Match, ...]
    type: str

    def tensors(self, losses: ValueLosses | None = None) -> list[NewTensor]:
        """Return the tensors of the GGUF; what their type loses is said as they are written."""
        make = partial(_tensor, kind=TYPES[self.type], losses=losses)
        pairs = (tensor for match in self.matches for tensor in _tensors(self.folder, match, make))
        exact = partial(_tensor, kind=F32, losses=losses)
        norms = (tensor for match in self.norms for tensor in _norms(self.folder, match, exact))
        return [*norms, *pairs]

    def notes(self) -> Iterator[str]:
        """Yield what a user has to know."""
        folder = self.folder
        yield from adapter_folder.notes(folder.path, folder.config)
        own = sum(pair.alpha != folder.alpha for pair in folder.pairs.values())
        if own:
            yield f"{format_count(own, 'layer')} with a scale of their own: it is in their lora_b"
        if self.norms:
            yield (
                f"{format_count(len(self.norms), 'norm')}: written as llama.cpp's converter does, "
                "but llama.cpp passes over norms in an adapter; mtkit merge takes them"
            )
        for name in folder.whole:
            if not adapter_folder.is_norm(name):
                yield f"tensor {quoted(name)}: left out, it is the base model's own"

    def keys(self, name: str = "") -> list[Key]:
        """Return the metadata of the GGUF."""
        changed = [
            NewTensor(name, tuple(reversed(shape)), F32, b"")
            for match in self.matches
            for name, shape in zip(match.gguf, match.gguf_shapes, strict=True)
        ]
        about = model_keys.name_keys(self.folder.path, changed, name or None, is_adapter=True)
        return [
            Key("general.architecture", "string", self.architecture.name),
            Key("general.type", "string", "adapter"),
            Key("adapter.type", "string", "lora"),
            *(key for key in about if key.name != "general.type"),
            Key("adapter.lora.alpha", "f32", self.folder.alpha),
            Key("general.quantization_version", "u32", model_keys.QUANTIZATION_VERSION),
        ]


def convert_adapter(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str] | None = None,
    *,
    base: str | os.PathLike[str] | None = None,
    kind: str = "auto",
    name: str = "",
    about: Sequence[Key] = (),
    allow_loss: Collection[str] = (),
    force: bool = False,
    dry_run: bool = False,
) -> Conversion:
    """Convert a LoRA adapter to a GGUF.

    Args:
        dst: File or folder to write; None: a file in ``src``.
        name: Of the adapter; empty: as its folder says.
        about: Further keys of ``general``, in place of what the folder says.
        allow_loss: Codes of losses to accept: values.
        dry_run: Do all but the writing.
    """
    path = os.fspath(src)
    plan = plan_adapter(path, None if base is None else os.fspath(base), kind)
    target = gguf_target(path, plan.type, dst)
    losses = ValueLosses(allowed=CODE in allow_loss)
    tensors = plan.tensors(losses)
    keys = {key.name: key for key in (*plan.keys(name), *about)}
    if name:  # the command line comes before a file of metadata
        keys[model_keys.NAME_KEY] = Key(model_keys.NAME_KEY, "string", name)
    size = sum(tensor.n_bytes for tensor in tensors)
    if not dry_run:
        try:
            with make_folder(dst, target):
                write_ggufs({target: gguf_chunks(keys.values(), tensors)}, force=force)
        except LossError as error:
            raise error.located(path) from None
        size = os.path.getsize(target)
    else:
        check_targets(dst, [target], force=force)
    return Conversion(
        path=target,
        paths=(target,),
        format_name="gguf",
        losses=tuple(losses.losses.values()),
        assumptions=(),
        verified=(),
        sizes=(("total", size),),
        model=Model.of(plan.architecture.name, plan.type, tensors, plan.notes()),
        is_written=not dry_run,
    )


def plan_adapter(path: str, base: str | None = None, kind: str = "auto") -> AdapterPlan:
    """Plan the conversion of an adapter; no weight is read.

    Args:
        base: Folder of its base model, or ORG/NAME in the local HuggingFace cache; config.json
            alone is read there. None: as the adapter says.
        kind: Type of its matrices: f32, f16, bf16, q8_0; auto: f32, which rounds nothing.
    """
    check_type(kind)
    folder = adapter_folder.read(path)
    base = _base(folder, base)
    source = os.path.join(base, folder_files.MODEL_CONFIG)
    architecture, config = describe_config(folder_files.read_json(source), source)
    try:
        keys = model_keys.architecture_keys(architecture, config, FILE_TYPES["f32"])
        vocab = config.count("vocab_size")
        dims = architecture.sizes({key.name: key.value for key in keys}, vocab)
        is_tied = config.flag("tie_word_embeddings") is True
    except MtkitError as error:
        raise error.located(source) from None
    kind = "f32" if kind == "auto" else kind
    return match_adapter(folder, architecture, dims, kind, base=base, is_tied=is_tied)


def match_adapter(
    folder: AdapterFolder,
    architecture: Architecture,
    dims: Dims,
    kind: str = "f32",
    *,
    base: str = "",
    is_tied: bool,
) -> AdapterPlan:
    """Plan the tensors of an adapter for a model whose sizes are known."""
    try:
        matches = tuple(match_names(architecture, dims, folder.pairs))
        for match in matches:
            _check(folder, match, is_tied=is_tied)
        norms = tuple(match_names(architecture, dims, list(filter(is_norm, folder.whole))))
        for match in norms:
            _check_norm(folder, match)
    except MtkitError as error:
        raise error.located(os.path.join(folder.path, adapter_folder.WEIGHTS)) from None
    return AdapterPlan(folder, base, architecture, matches, norms, kind)


def _base(folder: AdapterFolder, option: str | None) -> str:
    name = option or folder.base
    if name is None:
        what = "does not say what its base model is"
        hint = wording("add --base FOLDER", "add base=FOLDER")
        raise UsageError(what, source=folder.path, hint=hint)
    name = expand_home(name)
    path = name if os.path.isdir(name) else hub.find(name)
    if path is not None:
        return path
    if option is not None:
        raise UsageError("is neither a folder nor in the local HuggingFace cache", source=option)
    what = f"its base model {quoted(name)} is neither a folder nor in the local HuggingFace cache"
    raise UsageError(
        what,
        source=folder.path,
        hint=f"add {wording('--base', 'base')} with a folder that has its config.json",
    )


def _check(folder: AdapterFolder, match: Match, *, is_tied: bool) -> None:
    """Check that a GGUF can hold what is added to the tensors of a row."""
    name, change = match.folder[0], match.row.change
    is_linear = all(len(shape) == 2 for shape in match.folder_shapes)
    is_known = change.keeps_order and not change.computes and _is_whole(match)
    is_known = is_known or change.moves_rows or isinstance(change, Transposed)
    is_embedding = match.gguf[0] == "token_embd.weight"
    is_known = is_known and all(folder.pairs[n].embeds == is_embedding for n in match.folder)
    if not is_linear or not is_known:
        raise UnsupportedError("adapts a layer that mtkit cannot convert", field=quoted(name))
    if match.gguf[0] == "output.weight" and is_tied:
        what = "adapts the output, which is the embedding in this model"
        raise UnsupportedError(what, field=quoted(name), hint="llama.cpp adds nothing to it")
    ranks = set()
    for name, shape in zip(match.folder, match.folder_shapes, strict=True):
        pair = folder.pairs[name]
        rows, columns = reversed(shape) if isinstance(change, Transposed) else shape
        pair_shape = [pair.b.weight.shape[0], pair.a.weight.shape[1]]
        if pair.embeds:
            pair_shape.reverse()
        if pair_shape != [rows, columns]:
            what = f"adds a matrix of {pair_shape}, but the base model has {[rows, columns]}"
            raise FormatError(what, field=quoted(name), hint=_OTHER_BASE)
        ranks.add(pair.a.weight.shape[0])
        for stored in (pair.a, pair.b):
            if stored.weight.type not in DTYPES:
                what = f"has the type {stored.weight.type}, which mtkit does not convert"
                raise UnsupportedError(what, field=quoted(stored.weight.name))
    if len(ranks) > 1:
        what = f"of one rank each, they have {', '.join(map(str, sorted(ranks)))}"
        raise UnsupportedError(f"experts have to be {what}", field=quoted(match.gguf[0]))


def _check_norm(folder: AdapterFolder, match: Match) -> None:
    stored = [folder.whole[name] for name in match.folder]
    shapes = tuple(tensor.weight.shape for tensor in stored)
    if shapes != match.folder_shapes or len(shapes[0]) != 1:
        what = f"has the shape {list(shapes[0])}, the base model {list(match.folder_shapes[0])}"
        raise FormatError(what, field=quoted(match.folder[0]), hint=_OTHER_BASE)
    for tensor in stored:
        if tensor.weight.type not in DTYPES:
            what = f"has the type {tensor.weight.type}, which mtkit does not convert"
            raise UnsupportedError(what, field=quoted(tensor.weight.name))


def _is_whole(match: Match) -> bool:
    """Tell whether tensors are the same in the GGUF, or stacked there one behind the other."""
    if len(match.gguf) > 1:
        return False
    part_shape = match.gguf_shapes[0] if len(match.folder) == 1 else match.gguf_shapes[0][1:]
    return all(shape == part_shape for shape in match.folder_shapes)


def _norms(folder: AdapterFolder, match: Match, make: Callable[..., NewTensor]) -> Iterator[Any]:
    for number, (name, shape) in enumerate(zip(match.gguf, match.gguf_shapes, strict=True)):

        def arrays(number: int = number) -> list[Any]:
            stored = [folder.whole[n].floats() for n in match.folder]
            return stored if match.row.change.keeps_order else [match.forward(stored)[number]]

        yield make(name, shape, arrays)


def _tensors(
    folder: AdapterFolder, match: Match, make: Callable[..., NewTensor]
) -> Iterator[NewTensor]:
    pairs = [folder.pairs[name] for name in match.folder]
    rank = pairs[0].a.weight.shape[0]

    def scaled(pair: Pair) -> Any:
        import numpy as np

        array = pair.b.floats()
        is_usual = pair.alpha == folder.alpha
        return array if is_usual else array * np.float32(pair.alpha / folder.alpha)

    if pairs[0].embeds:
        # llama.cpp looks up rows of A, so that it is transposed.
        name, ((tokens, width),) = match.gguf[0], match.gguf_shapes
        yield make(f"{name}.lora_a", (tokens, rank), lambda: [pairs[0].a.floats().T])
        yield make(f"{name}.lora_b", (width, rank), lambda: [scaled(pairs[0])])
        return
    shapes = [(*shape[:-1], rank) for shape in match.gguf_shapes]
    for number, (name, shape) in enumerate(zip(match.gguf, shapes, strict=True)):

        def rows(number: int = number) -> Any:
            arrays = [scaled(pair) for pair in pairs]
            # A transposed matrix (Conv1D) has an untransposed pair: only moved rows move in B.
            if match.row.change.moves_rows:
                arrays = [match.row.change.forward(arrays, shapes, match.dims)[number]]
            return arrays

        inner = (*shape[:-2], rank, match.gguf_shapes[number][-1])
        yield make(f"{name}.lora_a", inner, lambda: [pair.a.floats() for pair in pairs])
        yield make(f"{name}.lora_b", shape, rows)


def _tensor(
    name: str,
    shape: tuple[int, ...],
    arrays: Callable[[], list[Any]],
    kind: TensorType,
    losses: ValueLosses | None,
) -> NewTensor:
    # A row that is no multiple of the block is F16, as in ``model_tensors``.
    kind = F16 if shape[-1] % kind.block else kind

    def data() -> Iterator[Buffer]:
        counts = ValueCounts(kind, shape[-1])
        for array in arrays():
            yield from convert_data(array_bytes(array), F32.name, kind, counts)
        if losses:
            losses.end(name, counts)

    if losses:
        losses.tensors += 1
    size = prod(shape) // kind.block * kind.block_bytes
    return NewTensor(name, tuple(reversed(shape)), kind, LazyData(size, data))
