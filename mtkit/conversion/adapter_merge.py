"""LoRA adapters merged into a model: W + s B A, summed in float32 and rounded once.

s is the scale of the command line times alpha / rank. Into a GGUF, merged matrices keep their type,
and quantized ones become F16; into a folder, every tensor keeps its type and place. Weights are
streamed: besides A and B, a few rows are in memory, or one matrix that a conversion rearranges.

Source: llama.cpp, tools/export-lora/export-lora.cpp (``merge_tensor``, ``get_out_tensor_type``);
PEFT, tuners/lora/layer.py (``get_delta_weight``), which rounds after each of several adapters.
"""

from __future__ import annotations

import os
from functools import partial

from mtkit.architectures.tensor_match import recognize
from mtkit.base.binary import Source, pieces
from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record, replace
from mtkit.checkpoints import adapter_folder, model_folder
from mtkit.checkpoints.folder_files import INDEX, is_weights
from mtkit.checkpoints.weight_forms import form_of
from mtkit.conversion.adapter import match_adapter, plan_adapter
from mtkit.conversion.model import plan_gguf, prepare_gguf
from mtkit.conversion.model_tensors import TYPES, new_tensors
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError, format_count
from mtkit.gguf.adapters import parse_adapter, read_adapters
from mtkit.gguf.draft import Draft, refuse_unfinished
from mtkit.gguf.shards import SPLIT_KEYS, open_whole
from mtkit.gguf.values import F16, F32, convert_data, decode_values, encode_values
from mtkit.gguf.writer import Key, LazyData, NewTensor
from mtkit.sources import hub

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.architectures.tensor_match import Match
    from mtkit.base.binary import Buffer
    from mtkit.checkpoints.adapter_folder import AdapterFolder
    from mtkit.checkpoints.folder_files import StoredTensor
    from mtkit.checkpoints.model_folder import ModelFolder
    from mtkit.conversion.adapter import AdapterPlan
    from mtkit.gguf import GgufFile
    from mtkit.gguf.types import TensorType

    Rows = Callable[[int, int], Any]
    """What is added to the rows from one to another: float32 of shape (rows, columns)."""
    Addends = dict[str, list["Addend"]]
    """Name of a tensor -> what each adapter adds to it."""


_FILE_TYPE, _MOSTLY_F16 = "general.file_type", 1
_BLOCK = 1 << 18
"""Values that are summed at once."""
_EMBEDDING = "token_embd.weight"
_HEAD = "lm_head.weight"
_OTHER_BASE = "check that this is its base model"
_IN_PYTHON = "in Python: peft.PeftModel.from_pretrained(…).merge_and_unload()"
_LEFT_OUT = (".gguf", ".pth", ".pt", ".h5", ".msgpack", ".onnx", ".ckpt", ".npz", ".part")
"""Ends of names of files that hold weights of the base as well, in other forms."""


class Addend(Record):
    """What an adapter adds to a matrix, or to a stack of matrices.

    Attributes:
        scale: The factor of the product.
        load: Returns B of shape (…, rows, rank) and A of shape (…, rank, columns); or the whole
            product and None.
        replaces: The product takes the place of the matrix.
        numbers: With ``replaces``, of the only rows of the matrix whose place it takes.
        magnitude: Of DoRA: the lengths that the rows of the sum get.
        owner: Path of the adapter.
    """

    scale: float
    load: Callable[[], tuple[Any, Any]]
    replaces: bool = False
    numbers: tuple[int, ...] | None = None
    magnitude: Callable[[], Any] | None = None
    owner: str = ""

    def change(self) -> Callable[[Any, int, int], None]:
        """Return the function that changes rows, which it gets with their numbers."""
        import numpy as np

        rows = self.rows()
        lengths = None if self.magnitude is None else self.magnitude().reshape(-1)

        def apply(sums: Any, first: int, stop: int) -> None:
            if self.numbers is not None:
                for place, number in enumerate(self.numbers):
                    if first <= number < stop:
                        sums[number - first] = rows(place, place + 1)[0]
                return
            if self.replaces:
                sums[:] = rows(first, stop)
                return
            sums += rows(first, stop)
            if lengths is not None:
                norms = np.linalg.norm(sums, axis=1)
                sums *= (lengths[first:stop] / norms)[:, None]

        return apply

    def rows(self) -> Rows:
        """Return the function that gives rows, counted through the whole stack."""
        import numpy as np

        b, a = self.load()
        height, factor = b.shape[-2], np.float32(self.scale)
        b = b.reshape(-1, *b.shape[-2:])
        a = None if a is None else a.reshape(-1, *a.shape[-2:])

        def between(first: int, stop: int) -> Any:
            parts = []
            while first < stop:
                number, row = divmod(first, height)
                count = min(stop - first, height - row)
                part = b[number, row : row + count]
                parts.append(part if a is None else part @ a[number])
                first += count
            return np.concatenate(parts) * factor

        return between


class MergedFile(Record):
    """A file of the merged model.

    Attributes:
        name: In the folder that is written; empty where one file is.
    """

    name: str
    tensors: int
    n_bytes: int
    chunks: Iterable[Buffer]


class Merge(Record):
    """A merged model, to be written.

    Attributes:
        merged: Number of tensors that adapters change.
        notes: What is other than in the base, besides these.
    """

    files: tuple[MergedFile, ...]
    merged: int
    notes: tuple[str, ...]


def merge_into_gguf(
    base: str, adapters: Sequence[str], kind: str = "", allow_loss: Collection[str] = ()
) -> Merge:
    """Merge adapters into a GGUF, or into what a model folder becomes as one.

    Args:
        base: GGUF, of a set the first, or model folder.
        adapters: Each FILE, or FILE=SCALE: a GGUF or a folder as PEFT saves it.
        kind: Type of the merged matrices, f32, f16, bf16 or q8_0; empty: their own, and F16 where
            that is quantized.
        allow_loss: Codes of losses of a folder's tokenizer to accept even if ids change.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or a sum is too large for its type.
        UnsupportedError: An adapter does not fit the base, or is not plain LoRA.
    """
    if kind and kind not in TYPES:
        raise UsageError(f"--type {shown(kind)}: merged matrices are one of {', '.join(TYPES)}")
    if os.path.isdir(base):
        return _merge_converted(base, adapters, kind, allow_loss)
    file = open_whole(base)
    refuse_unfinished(file)
    draft = Draft.of(file)
    draft.keys = {name: key for name, key in draft.keys.items() if name not in SPLIT_KEYS}
    architecture = file.metadata.get("general.architecture")
    addends = _gather(
        adapters, architecture, file.tensors, partial(_plan_for_gguf, file), base
    )  # fmt: skip
    widened: dict[str, int] = {}
    for name, changes in addends.items():
        tensor = file.names[name]
        target = _target_type(tensor.type, kind, len(tensor.shape))
        if target is not tensor.type:
            widened[tensor.type.name] = widened.get(tensor.type.name, 0) + 1
        read = partial(convert_data, file.tensor_data(tensor), tensor.type.name, F32)
        draft.tensors[name] = _merged(draft.tensors[name], target, changes, read)
    notes = [
        f"{format_count(count, 'merged tensor')} of type {old}: written as "
        f"{kind.upper() or F16.name}"
        for old, count in widened.items()
    ]
    if widened:
        draft.set(Key(_FILE_TYPE, "u32", _MOSTLY_F16))
    return _whole(draft, addends, notes)


def _merge_converted(
    base: str, adapters: Sequence[str], kind: str, allow_loss: Collection[str]
) -> Merge:
    # A type that is named is never widened in a second try, which a merge does not have.
    prepared = prepare_gguf(base, kind or plan_gguf(base).type, allow_loss=allow_loss)
    plan, draft = prepared.plan, prepared.draft
    by_name = {name: match for match in plan.matches for name in match.gguf}
    tensors = tuple(draft.tensors.values())
    addends = _gather(
        adapters, plan.architecture.name, tensors, lambda path: plan_adapter(path, base), base
    )  # fmt: skip
    for name, changes in addends.items():
        tensor, match = draft.tensors[name], by_name[name]
        sources = new_tensors((match,), plan.folder.tensors, F32)
        whole = next(source for source in sources if source.name == name)
        draft.tensors[name] = _merged(tensor, tensor.type, changes, whole.pieces)
    vocabulary = prepared.vocabulary
    losses = (f"{loss.field}: {loss.effect}" for loss in vocabulary.losses)
    return _whole(draft, addends, [*losses, *vocabulary.assumptions])


def _whole(draft: Draft, addends: Addends, notes: Iterable[str]) -> Merge:
    size = sum(tensor.n_bytes for tensor in draft.tensors.values())
    file = MergedFile("", len(draft.tensors), size, draft.chunks())
    return Merge((file,), len(addends), tuple(notes))


def _plan_for_gguf(file: GgufFile, path: str) -> AdapterPlan:
    shapes = {tensor.name: tuple(reversed(tensor.shape)) for tensor in file.tensors}
    try:
        base = recognize(file.metadata, shapes)
    except MtkitError as error:
        raise error.located(file.name) from None
    is_tied = "output.weight" not in shapes
    return match_adapter(
        adapter_folder.read(path), base.architecture, base.dims, is_tied=is_tied
    )  # fmt: skip


def _target_type(own: TensorType, kind: str, rank: int) -> TensorType:
    if kind and rank > 1:
        return TYPES[kind]
    return F16 if own.block > 1 else own


def _merged(
    tensor: NewTensor,
    kind: TensorType,
    addends: Sequence[Addend],
    read: Callable[[], Iterator[Buffer]],
) -> NewTensor:
    """Return a tensor with what is added to it.

    Args:
        read: Gives its values as the bytes of float32.
    """
    columns = tensor.shape[0]
    if columns % kind.block or kind not in TYPES.values():
        what = f"cannot be written as {kind.name}"
        raise UnsupportedError(what, field=quoted(tensor.name), hint="--type f16 writes it as F16")
    count = 1
    for size in tensor.shape:
        count *= size
    size = count // kind.block * kind.block_bytes
    data = partial(_sums, tensor.name, read, columns, addends, kind)
    return replace(tensor, type=kind, data=LazyData(size, data))


def _sums(
    name: str,
    read: Callable[[], Iterator[Buffer]],
    columns: int,
    addends: Sequence[Addend],
    kind: TensorType,
) -> Iterator[Buffer]:
    """Yield the bytes of a matrix with what is added to it."""
    import numpy as np

    changes = [addend.change() for addend in addends]
    first = 0
    for block in _row_blocks(read(), columns):
        sums, stop = block.astype(np.float32), first + len(block)
        for change in changes:
            change(sums, first, stop)
        encoded = encode_values(sums, kind)
        if not np.isfinite(decode_values(encoded, kind.name)).all():
            is_finite = np.isfinite(sums).all()
            what = f"is too large for {kind.name}" if is_finite else "has NaN or infinite values"
            hint = "--type bf16 holds it" if is_finite and kind is F16 else "check the adapter"
            raise FormatError(f"{what} once merged", field=f"tensor {quoted(name)}", hint=hint)
        yield memoryview(encoded)
        first = stop


def _row_blocks(data: Iterable[Buffer], columns: int) -> Iterator[Any]:
    """Yield float32 values, which come in pieces of any length, as blocks of whole rows."""
    import numpy as np

    step = max(1, _BLOCK // columns) * columns
    rest = np.empty(0, np.float32)
    for part in data:
        for piece in pieces(memoryview(part).cast("B"), step * 4):
            values = np.frombuffer(piece, "<f4")
            if len(rest):
                values = np.concatenate((rest, values))
            end = len(values) - len(values) % columns
            if end:
                yield values[:end].reshape(-1, columns)
            rest = values[end:].copy()


def _gather(
    adapters: Sequence[str],
    architecture: object,
    tensors: Sequence[Any],
    plan: Callable[[str], AdapterPlan],
    base: str,
) -> Addends:
    """Return what adapters add to the tensors of a GGUF.

    Args:
        plan: Returns the plan of an adapter that is a folder.
    """
    names = {tensor.name for tensor in tensors}
    addends: Addends = {}
    for text in adapters:
        path, scale = parse_adapter(text)
        folder = _adapter_folder(path)
        if folder is not None:
            planned = plan(folder)
            halves = {tensor.name: tensor for tensor in planned.tensors()}
            more = _planned_addends(halves, planned.folder.alpha, scale)
        else:
            (adapter,) = read_adapters([text], architecture, tensors)
            more = _stored_addends(adapter.file, scale)
        for name, addend in more:
            if name not in names:
                what = f"adapts {quoted(name)}, which {base} does not have"
                raise UnsupportedError(what, source=path, hint=_OTHER_BASE)
            _put(addends, name, addend)
    return addends


def _put(addends: Addends, name: str, addend: Addend) -> None:
    """Take what an adapter does to a tensor; what depends on the order of adapters is refused."""
    others = addends.setdefault(name, [])
    sums = [other for other in others if not other.replaces]
    foreign = any(other.replaces and other.owner != addend.owner for other in others)
    is_dora = any(other.magnitude is not None for other in (addend, *sums))
    if foreign or (addend.replaces and others) or (sums and is_dora):
        what = "is trained whole, or by DoRA, in one of several adapters"
        raise UnsupportedError(what, field=quoted(name), hint="merge one adapter at a time")
    others.append(addend)


def _adapter_folder(path: str) -> str | None:
    """Return the folder of an adapter; None: it is a file."""
    if os.path.isfile(path):
        return None
    folder = path if os.path.isdir(path) else hub.find(path)
    if folder is None:
        raise UsageError("is neither a file nor a folder", source=path, field="--lora")
    if not adapter_folder.sniff(folder):
        what = f"is a folder without {adapter_folder.CONFIG}, so it is no adapter"
        raise UsageError(what, source=path, field="--lora")
    return folder


def _planned_addends(
    halves: Mapping[str, NewTensor], alpha: float, scale: float
) -> Iterator[tuple[str, Addend]]:
    for label, b in halves.items():
        name, end = label[: -len(_ENDS[1])], label[-len(_ENDS[1]) :]
        if end not in _ENDS:
            _refuse_scale(scale, label)
            yield label, Addend(1.0, partial(_load_norm, b), replaces=True)
        elif end == _ENDS[1]:
            load = partial(_load_planned, halves[name + _ENDS[0]], b)
            yield name, Addend(scale * alpha / b.shape[0], load)


_ENDS = (".lora_a", ".lora_b")


def _load_norm(norm: NewTensor) -> tuple[Any, Any]:
    import numpy as np

    return np.frombuffer(b"".join(norm.pieces()), "<f4").reshape(1, -1), None


def _refuse_scale(scale: float, name: str) -> None:
    if scale != 1:
        what = "is not a sum, so that it has no scale"
        raise UnsupportedError(what, field=quoted(name), hint="merge it without =SCALE")


def _load_planned(a: NewTensor, b: NewTensor) -> tuple[Any, Any]:
    import numpy as np

    arrays = [
        np.frombuffer(b"".join(half.pieces()), "<f4").reshape(half.shape[::-1]) for half in (b, a)
    ]
    return arrays[0], arrays[1]


def _stored_addends(file: GgufFile, scale: float) -> Iterator[tuple[str, Addend]]:
    """Yield what a GGUF adds; an alpha of 0, or none, is a scale of 1 in llama.cpp."""
    alpha = file.metadata.get("adapter.lora.alpha", 0.0)
    for tensor in file.tensors:
        name, end = tensor.name[: -len(_ENDS[1])], tensor.name[-len(_ENDS[1]) :]
        if end == _ENDS[1]:
            factor = alpha / tensor.shape[0] if alpha else 1.0
            yield name, Addend(scale * factor, partial(_load_stored, file, name))


def _load_stored(file: GgufFile, name: str) -> tuple[Any, Any]:
    import numpy as np

    arrays = []
    for end in reversed(_ENDS):
        tensor = file.names[name + end]
        data = np.frombuffer(file.tensor_data(tensor), np.uint8)
        arrays.append(decode_values(data, tensor.type.name).reshape(tensor.shape[::-1]))
    b, a = arrays
    if name == _EMBEDDING:  # there A has a row for each token
        return a, b.T
    return b, a


def merge_into_folder(base: str, adapters: Sequence[str]) -> Merge:
    """Merge adapters into a model folder; arguments and errors are those of ``merge_into_gguf``.

    All files of the folder are written again, but for weights in other forms.
    """
    folder = model_folder.read(base)
    tensors = folder.tensors
    addends: Addends = {}
    for text in adapters:
        path, scale = parse_adapter(text)
        source = _adapter_folder(path)
        if source is not None:
            more = _folder_addends(folder, adapter_folder.read(source, is_merged=True), scale)
        else:
            more = _turned_addends(base, text, scale)
        try:
            for name, addend in more:
                _put(addends, name, replace(addend, owner=path))
        except MtkitError as error:
            raise error.located(path) from None
    for name in addends:
        if tensors[name].weight.type not in _FLOATS:
            kind = shown(tensors[name].weight.type)
            what = f"has the type {kind}; merging needs F32, F16 or BF16"
            raise UnsupportedError(what, source=base, field=f"tensor {quoted(name)}")
    other = next((stored for stored in tensors.values() if not stored.is_plain), None)
    if other is not None:
        what = "holds no plain safetensors; merging needs them"
        hint = "convert the folder to GGUF and merge into that"
        raise UnsupportedError(what, source=other.path, hint=hint)
    files, left_out = _folder_files(base, tensors, addends)
    notes = [f"left out: {', '.join(map(shown, left_out))}"] if left_out else []
    return Merge(tuple(files), len(addends), tuple(notes))


_FLOATS = {kind.name: kind for name, kind in TYPES.items() if kind.block == 1}


def _folder_addends(
    base: ModelFolder, adapter: AdapterFolder, scale: float
) -> Iterator[tuple[str, Addend]]:
    """Yield what an adapter as PEFT saves it adds to the tensors of a folder."""
    tensors = base.tensors
    flips = adapter.config.get("fan_in_fan_out") is True
    for name, stored in adapter.whole.items():
        real, shape = _tensor_of(tensors, name), stored.weight.shape
        _refuse_scale(scale, real)
        _refuse_tied(base, real)
        if shape != tensors[real].weight.shape:
            what = f"is {list(shape)}, but {list(tensors[real].weight.shape)} in the base model"
            hint = "in Python: merge_and_unload() of PEFT, for a model with other rows"
            raise UnsupportedError(what, field=quoted(real), hint=hint)
        yield real, Addend(1.0, partial(_load_whole, stored), replaces=True)
    for name, (stored, numbers) in adapter.rows.items():
        real = _tensor_of(tensors, name)
        shape = tensors[real].weight.shape
        _refuse_scale(scale, real)
        _refuse_copy(base, real)
        if stored.weight.shape[1:] != shape[1:] or max(numbers) >= shape[0]:
            row = f"row {max(numbers)} of {[*stored.weight.shape[1:]]}"
            what = f"trains {row}, but the base model has {list(shape)}"
            raise UnsupportedError(what, field=quoted(real), hint=_OTHER_BASE)
        load = partial(_load_whole, stored)
        yield real, Addend(1.0, load, replaces=True, numbers=numbers)
    for name, pair in adapter.pairs.items():
        real = _tensor_of(tensors, name)
        _refuse_copy(base, real)
        rows, columns = pair.b.weight.shape[0], pair.a.weight.shape[1]
        shapes = [(rows, columns), (columns, rows)]
        shape = tensors[real].weight.shape
        if shape not in shapes:
            what = f"adds a matrix of {list(shapes[0])}, but the base model has {list(shape)}"
            raise UnsupportedError(what, field=quoted(real), hint=_OTHER_BASE)
        is_turned = flips if rows == columns else shape == shapes[1]
        is_turned = is_turned or pair.embeds
        lengths = None
        if pair.magnitude is not None:
            _refuse_scale(scale, real)
            if is_turned or pair.magnitude.weight.shape not in ((rows,), (rows, 1), (1, rows)):
                what = "is trained by DoRA and stored turned, or an embedding"
                raise UnsupportedError(what, field=quoted(real), hint=_IN_PYTHON)
            lengths = pair.magnitude.floats
        load = partial(_load_pair, pair.b, pair.a, is_turned=is_turned)
        yield real, Addend(scale * pair.scale, load, magnitude=lengths)
        if pair.bias is not None:
            bias = _tensor_of(tensors, f"{name.removesuffix('.weight')}.bias")
            yield bias, Addend(scale * pair.scale, partial(_load_whole, pair.bias))


def _tensor_of(tensors: Mapping[str, StoredTensor], name: str) -> str:
    # A model that is saved without its head has no prefix in front of its names.
    names = [name, f"model.{name}", name.removeprefix("model."), f"transformer.{name}"]
    real = next((label for label in names if label in tensors), None)
    if real is None:
        what = f"adapts {quoted(name)}, which the base model does not have"
        raise UnsupportedError(what, hint=_OTHER_BASE)
    return real


def _refuse_tied(base: ModelFolder, name: str) -> None:
    """Refuse one of the embedding and the head where a model has one matrix for both."""
    is_either = name.endswith(("embed_tokens.weight", "wte.weight", "lm_head.weight"))
    if is_either and base.config.get("tie_word_embeddings") is True:
        what = "is trained whole, but the model has one matrix for embedding and head"
        raise UnsupportedError(what, field=quoted(name), hint=_IN_PYTHON)


def _refuse_copy(base: ModelFolder, name: str) -> None:
    """Refuse an embedding of which a copy is the head: only one of the two would change."""
    is_tied = base.config.get("tie_word_embeddings") is True
    if is_tied and name.endswith(("embed_tokens.weight", "wte.weight")) and _HEAD in base.tensors:
        what = f"is adapted, but {quoted(_HEAD)} is stored as its copy"
        raise UnsupportedError(what, field=quoted(name), hint=_IN_PYTHON)


def _load_whole(stored: StoredTensor) -> tuple[Any, Any]:
    array = stored.floats()
    return array.reshape(-1, array.shape[-1]), None


def _load_pair(b: StoredTensor, a: StoredTensor, *, is_turned: bool) -> tuple[Any, Any]:
    left, right = b.floats(), a.floats()
    return (right.T, left.T) if is_turned else (left, right)


def _turned_addends(base: str, text: str, scale: float) -> Iterator[tuple[str, Addend]]:
    """Yield what an adapter as GGUF adds to the tensors of a folder, in the folder's order."""
    plan = plan_gguf(base)
    (adapter,) = read_adapters([text], plan.architecture.name, plan.tensors())
    halves = dict(_stored_addends(adapter.file, scale))
    for match in plan.matches:
        changes = {name: halves[name] for name in match.gguf if name in halves}
        if changes and (match.row.change.computes or match.row.change.stores):
            what = "adapts a layer that mtkit cannot convert"
            raise UnsupportedError(what, field=quoted(match.gguf[0]))
        for number, name in enumerate(match.folder if changes else ()):
            yield name, Addend(1.0, partial(_load_turned, match, changes, number))


def _load_turned(match: Match, changes: Mapping[str, Addend], number: int) -> tuple[Any, Any]:
    """Return what is added to one tensor of a folder."""
    import numpy as np

    if match.row.change.keeps_order and len(match.folder) > 1:  # experts are stacked in the GGUF
        (addend,) = changes.values()
        b, a = addend.load()
        return b[number] * np.float32(addend.scale), a[number]
    arrays = []
    for name, shape in zip(match.gguf, match.gguf_shapes, strict=True):
        array = np.zeros(shape, np.float32)
        if name in changes:
            flat = array.reshape(-1, shape[-1])
            flat[:] = changes[name].rows()(0, len(flat))
        arrays.append(array)
    if not match.row.change.keeps_order:
        arrays = match.back(arrays)
    return arrays[number].reshape(match.folder_shapes[number]), None


def _folder_files(
    base: str, tensors: Mapping[str, StoredTensor], addends: Addends
) -> tuple[list[MergedFile], list[str]]:
    """Return the files of a merged folder, and the names of those that it leaves out."""
    weights: dict[str, list[StoredTensor]] = {}
    for stored in tensors.values():
        weights.setdefault(os.path.relpath(stored.path, base), []).append(stored)
    files: list[MergedFile] = []
    left_out = []
    for folder, subfolders, names in os.walk(base):
        subfolders[:] = sorted(name for name in subfolders if not name.startswith("."))
        for name in sorted(names):
            path = os.path.join(folder, name)
            place = os.path.relpath(path, base)
            if place in weights or not os.path.isfile(path):
                continue
            if name.endswith(_LEFT_OUT) or (folder == base and _is_of_weights(name, weights)):
                left_out.append(place)
                continue
            data = Source.open(path).data
            files.append(MergedFile(place, 0, len(data), (memoryview(data),)))
    for place, group in weights.items():
        size = sum(tensor.weight.n_bytes for tensor in group)
        chunks = _weight_chunks(os.path.join(base, place), group, addends)
        files.append(MergedFile(place, len(group), size, chunks))
    return files, left_out


def _is_of_weights(name: str, weights: Collection[str]) -> bool:
    """Tell whether a file has weights in another form, or is an index of others."""
    is_unused_index = name == INDEX and len(weights) == 1
    return is_unused_index or form_of(name) is not None or is_weights(name)


def _weight_chunks(path: str, stored: Sequence[StoredTensor], addends: Addends) -> Iterator[Buffer]:
    """Yield the bytes of a file of weights, merged tensors in the place of the old ones."""
    data = memoryview(Source.open(path).data)
    start = len(data) - max(s.weight.offset + s.weight.n_bytes for s in stored)
    yield data[:start]
    for tensor in sorted(stored, key=lambda tensor: tensor.weight.offset):
        weight = tensor.weight
        if weight.name not in addends:
            yield tensor.data
            continue
        read = partial(convert_data, tensor.data, weight.type, F32)
        yield from _sums(
            weight.name, read, weight.shape[-1], addends[weight.name], _FLOATS[weight.type]
        )
