"""A GGUF as a HuggingFace model folder: config.json, safetensors, tokenizer files; all or none.

What a conversion rearranged is put back in its old order, what it computed is computed back;
quantized matrices are dequantized. The tokenizer's files are written and verified as in every
conversion; weights are streamed from the mapped file.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from fnmatch import fnmatchcase
from math import prod

from mtkit.architectures.decoder_rows import POOLING, POOLINGS, SUPPRESS, SUPPRESSED
from mtkit.architectures.tensor_match import recognize, refuse_faults
from mtkit.base.escape import shown
from mtkit.base.files import temporary_folder
from mtkit.base.process import ProgressCount
from mtkit.base.record import Record
from mtkit.checkpoints import safetensors
from mtkit.checkpoints.folder_files import GENERATION, INDEX, MODEL_CONFIG, WEIGHTS
from mtkit.checkpoints.safetensors import NewWeight
from mtkit.conversion import model_tensors
from mtkit.conversion.model_keys import sampling_fields
from mtkit.conversion.model_tensors import (
    TYPES,
    Values,
    check_type,
    make_data,
    tensor_type,
    values_array,
)
from mtkit.conversion.tokenizer import Conversion, Model, write_tokenizer
from mtkit.conversion.value_losses import CODE, ValueLosses
from mtkit.conversion.verification import verify
from mtkit.errors import FormatError, LossError, MtkitError, UsageError, format_first
from mtkit.gguf.byte_order import write_little
from mtkit.gguf.draft import refuse_forks, refuse_unfinished
from mtkit.gguf.shards import open_whole
from mtkit.gguf.values import BF16, F32, I32, I64, decode_values, encode_values
from mtkit.inspection.kinds import NO_MODEL, find_content
from mtkit.tokenizer.load import load

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.tensor_match import Match
    from mtkit.base.binary import Buffer
    from mtkit.formats.contract import Loss, WriteOptions
    from mtkit.gguf.file import GgufFile
    from mtkit.gguf.types import TensorType


_MOST_COMPARED_BYTES = 1 << 24
"""Of a tensor that is tried in a shorter type; those of a file of F32 can be large."""
_DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


class FolderPlan(Record):
    """How a GGUF becomes a folder.

    Attributes:
        type: Of the tensors written: f32, f16 or bf16.
    """

    file: GgufFile
    architecture: Architecture
    dims: Dims
    matches: tuple[Match, ...]
    type: str


def plan_folder(file: GgufFile, kind: str = "auto") -> FolderPlan:
    """Plan the conversion of a GGUF; no weight is read.

    Args:
        kind: f32, f16 or bf16; auto: as its matrices, bf16 for those that are quantized.
    """
    check_type(kind, tuple(_DTYPES))
    what = NO_MODEL.get(find_content(file.metadata, file.tensors).kind)
    if what is not None:
        raise UsageError(what, source=file.name)
    refuse_forks(file.tensors, file.name)
    shapes = {tensor.name: tuple(reversed(tensor.shape)) for tensor in file.tensors}
    try:
        recognition = recognize(file.metadata, shapes)
        refuse_faults(recognition.tensors, recognition.architecture, "the metadata says")
    except MtkitError as error:
        raise error.located(file.name) from None
    return FolderPlan(
        file,
        recognition.architecture,
        recognition.dims,
        recognition.tensors.matches,
        _weight_type(file, kind),
    )


def _weight_type(file: GgufFile, kind: str) -> str:
    if kind != "auto":
        return kind
    # Tensors that are F32 in every file say nothing of the type of the model; a matrix may be, too.
    names = Counter(
        tensor.type.name.lower()
        for tensor in file.tensors
        if tensor_type(tensor.name, tuple(reversed(tensor.shape)), BF16) is not F32
    )
    return next((name for name, _ in names.most_common() if name in _DTYPES), "bf16")


def config_of(plan: FolderPlan) -> dict[str, Any]:
    """Return config.json."""
    architecture, metadata = plan.architecture, plan.file.metadata
    config: dict[str, Any] = {
        "architectures": [architecture.classes[0]],
        "model_type": architecture.model_type,
    }
    # Of two rows of one name the last counts, as in keys_of.
    for row in {row.name: row for row in architecture.keys}.values():
        value = plan.dims.keys.get(row.name)
        if value is not None:
            if row.back and not _is_of_type(value, row.type):
                what = f"is not of the type {row.type}"
                raise FormatError(what, source=plan.file.name, field=row.name)
            _merge_config(config, row.fields(_shortest_number(value)))
    for role in ("bos", "eos", "pad"):
        name = "padding" if role == "pad" else role
        number = metadata.get(f"tokenizer.ggml.{name}_token_id")
        if number is not None:
            config[f"{role}_token_id"] = number
    names = plan.file.names
    config["tie_word_embeddings"] = "output.weight" not in names
    config["vocab_size"] = plan.dims["vocab"]
    if architecture.config is not None:
        _merge_config(
            config, architecture.config(plan.dims, lambda name: _tensor_values(plan.file, name))
        )
    return {**config, "dtype": _DTYPES[plan.type]}


def _is_of_type(value: Any, kind: str) -> bool:
    """Tell whether a value of metadata has a type; all types of numbers count as one."""
    if kind.endswith("[]"):
        return isinstance(value, list) and all(_is_of_type(element, kind[:-2]) for element in value)
    if kind == "u32" and isinstance(value, list):  # a number of each layer
        return all(_is_of_type(element, kind) for element in value)
    types: dict[str, Any] = {"string": str, "bool": (bool, int)}
    return isinstance(value, types.get(kind, (int, float)))


def _tensor_values(file: GgufFile, name: str) -> Any:
    """Return a tensor as float32 of one axis; None where there is none."""
    import numpy as np

    tensor = file.names.get(name)
    if tensor is None:
        return None
    return decode_values(np.frombuffer(file.tensor_data(tensor), np.uint8), tensor.type.name)


def _merge_config(target: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(target.get(name), dict):
            target[name].update(value)
        else:
            target[name] = value


def _shortest_number(value: Any) -> Any:
    """Return a 32-bit float as the number with the fewest digits that rounds to it."""
    import numpy as np

    if isinstance(value, list):
        return [_shortest_number(number) for number in value]
    return float(str(np.float32(value))) if type(value) is float else value


def new_weights(
    plan: FolderPlan,
    progress: Callable[[int], object] = lambda _: None,
    losses: ValueLosses | None = None,
) -> Iterator[NewWeight]:
    """Yield the tensors of the folder; ``progress`` gets the size of each piece written."""
    target = TYPES[plan.type]
    yield from model_tensors.layer_number_weights(
        plan.architecture, plan.dims, plan.file.metadata, plan.type
    )
    for match in plan.matches:
        tensors = (plan.file.names[name] for name in match.gguf)
        sources = [
            Values(plan.file.tensor_data(tensor), tensor.type.name, tuple(reversed(tensor.shape)))
            for tensor in tensors
        ]
        change, count = match.row.change, len(match.folder)
        for number, (name, shape) in enumerate(zip(match.folder, match.folder_shapes, strict=True)):
            parts = sources
            if change.keeps_order and count > 1:  # experts are stacked in the GGUF
                (stack,) = sources
                size = len(stack.data) // count
                data = stack.data[number * size : (number + 1) * size]
                parts = [Values(data, stack.type, shape)]
            exact = target if target is F32 else _exact_type(parts, match, number, target)
            is_kept = match.row.keeps and len(shape) > 1 and parts[0].type == "F32"
            exact = F32 if is_kept else exact
            exact = I64 if change.stores == I32.name else exact
            record = (losses, name, shape[-1] if shape else 1) if losses else None
            pieces = make_data(parts, change, match.back, number, exact, progress, record)
            yield NewWeight(name, exact.name, shape, prod(shape) * exact.block_bytes, pieces)


def _exact_type(sources: list[Values], match: Match, number: int, target: TensorType) -> TensorType:
    """Return the type in which a tensor is written: F32 where a shorter one would round.

    A GGUF has norms and the like in F32, whatever they were before.
    """
    import numpy as np

    small = sum(len(source.data) for source in sources) <= _MOST_COMPARED_BYTES
    if not small or any(source.type != "F32" for source in sources):
        return target
    arrays = [values_array(source, floating=True) for source in sources]
    array = arrays[0] if match.row.change.keeps_order else match.back(arrays)[number]
    flat = np.ascontiguousarray(array).reshape(-1)
    rounded = decode_values(encode_values(flat, target), target.name)
    change = match.row.change
    if change.computes:
        # Computing back may round: what counts is that computing forward gives the same again.
        again = change.forward([rounded.reshape(array.shape)], match.gguf_shapes, match.dims)[0]
        same = _is_near(again, arrays[number], change.slack)
    else:
        same = np.array_equal(rounded, flat, equal_nan=True)
    return target if same else F32


def _is_near(left: Any, right: Any, slack: int) -> bool:
    import numpy as np

    if not slack:
        return np.array_equal(left, right, equal_nan=True)
    return bool((np.abs(left - right) <= slack * np.spacing(np.abs(right))).all())


FOLDER_FORMAT = "hf-model"
"""Its name in ``--to``."""
MOST_FILE_BYTES = 5 * 10**9
"""Tensors in one file, as in ``save_pretrained`` of transformers 4."""


_KEPT = (
    "tokenizer.*", "split.*", "general.architecture", "general.type", "general.file_type",
    "general.quantization_version", "general.alignment", "general.size_label", "general.sampling.*",
    f"*.{POOLING.name}",
)  # fmt: skip
"""Keys that are read, come from the tensors, or of which a loss of their own speaks."""
_MOST_NAMED = 8


def convert_to_folder(
    src: str | os.PathLike[str],
    dst: str | os.PathLike[str],
    *,
    kind: str = "auto",
    max_bytes: int = MOST_FILE_BYTES,
    allow_loss: Collection[str] = (),
    options: WriteOptions | None = None,
    force: bool = False,
    dry_run: bool = False,
    progress: Callable[[int, int], object] | None = None,
) -> Conversion:
    """Convert a GGUF to a model folder.

    Args:
        src: The GGUF, a single file.
        dst: The folder to create.
        kind: f32, f16 or bf16; auto: as in the GGUF, bf16 for quantized matrices.
        max_bytes: Maximum bytes of tensors per safetensors file.
        allow_loss: Codes of losses to accept even if ids or values change.
        options: Options for writing the tokenizer.
        force: Replace existing files.
        dry_run: Do all but the writing.
        progress: Called with the bytes written and the total.

    Raises:
        UsageError: The file is not a model, or only a shard; or an output file already exists.
        FormatError: Metadata and tensors contradict each other.
        UnsupportedError: mtkit cannot convert the model.
        LossError: Ordinary text would get different ids, and that is not allowed.
        AnswerNo: The converted tokenizer does not give the same ids; nothing was written.
        ResourceError: The disk is full.
    """
    from mtkit.base.files import folder_for, write_files
    from mtkit.formats import hf
    from mtkit.formats.contract import WriteOptions

    path, folder = os.fspath(src), os.fspath(dst)
    file = open_whole(path)
    refuse_unfinished(file)
    if file.byte_order == "big":
        above = os.path.dirname(os.path.abspath(folder))
        with temporary_folder(above=above if os.path.isdir(above) else None) as little:
            try:
                return convert_to_folder(
                    write_little(file, little), dst, kind=kind, max_bytes=max_bytes,
                    allow_loss=allow_loss, options=options, force=force, progress=progress,
                )  # fmt: skip
            except MtkitError as error:
                error.source = path if error.source.startswith(little) else error.source
                raise
    plan = plan_folder(file, kind)
    count = ProgressCount(progress)
    losses = ValueLosses(allowed=CODE in allow_loss)
    weights = list(new_weights(plan, count, losses))
    count.total = sum(weight.n_bytes for weight in weights)
    tokenizer, assumptions, written = write_tokenizer(
        load(path), hf, options or WriteOptions(), allow_loss
    )
    verified = verify(tokenizer, hf, written, allow_loss)
    config = config_of(plan)
    texts = {**written.files, MODEL_CONFIG: _json_bytes(config)}
    ends = json.loads(texts.get(GENERATION, b"{}"))
    texts[GENERATION] = _json_bytes({**_generation_fields(config, file.metadata), **ends})
    files: dict[str, bytes | Iterator[Buffer]] = {**texts, **_weight_files(weights, max_bytes)}
    size = sum(weight.n_bytes for weight in weights) + sum(map(len, texts.values()))
    if not dry_run:
        try:
            with folder_for(folder):
                paths = {os.path.join(folder, name): files[name] for name in files}
                write_files(paths, force=force)
        except LossError as error:
            raise error.located(path) from None
        size = sum(os.path.getsize(os.path.join(folder, name)) for name in files)
    if progress is not None:
        progress(count.total, count.total)
    names = [os.path.join(folder, name) for name in files]
    return Conversion(
        path=os.path.join(folder, ""),
        paths=tuple(names),
        format_name=FOLDER_FORMAT,
        losses=(*losses.losses.values(), *_lost_keys(plan), *written.losses),
        assumptions=assumptions,
        verified=verified,
        sizes=(("total", size),),
        model=Model.of(plan.architecture.name, plan.type, weights, _notes(plan)),
        is_written=not dry_run,
    )


def _weight_files(
    weights: Sequence[NewWeight], max_bytes: int
) -> dict[str, bytes | Iterator[Buffer]]:
    """Return the files of weights by name, with an index where they are several."""
    groups: list[list[NewWeight]] = [[]]
    used = 0
    for weight in weights:
        if groups[-1] and used + weight.n_bytes > max_bytes:
            groups.append([])
            used = 0
        groups[-1].append(weight)
        used += weight.n_bytes
    if len(groups) == 1:
        return {WEIGHTS: safetensors.file_chunks(weights)}
    count = len(groups)
    names = [f"model-{number:05d}-of-{count:05d}.safetensors" for number in range(1, count + 1)]
    shards = dict(zip(names, groups, strict=True))
    weight_map = {weight.name: name for name, group in shards.items() for weight in group}
    total = sum(weight.n_bytes for weight in weights)
    index = {"metadata": {"total_size": total}, "weight_map": weight_map}
    files = {name: safetensors.file_chunks(group) for name, group in shards.items()}
    return {**files, INDEX: _json_bytes(index)}


def _json_bytes(document: Mapping[str, Any]) -> bytes:
    try:
        text = json.dumps(document, indent=2, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise FormatError("holds a number that is not finite", field="metadata") from None
    return f"{text}\n".encode("utf-8", "backslashreplace")


def _generation_fields(config: Mapping[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
    names = ("bos_token_id", "eos_token_id", "pad_token_id")
    fields = {name: config[name] for name in names if name in config}
    sampling = sampling_fields(metadata)
    fields.update({name: _shortest_number(value) for name, value in sampling.items()})
    suppressed = metadata.get(SUPPRESS.name)
    return fields if suppressed is None else {**fields, SUPPRESSED: list(suppressed)}


def _lost_keys(plan: FolderPlan) -> Iterator[Loss]:
    """Yield the keys that no file of a written folder has."""
    from mtkit.formats.contract import Loss

    key = f"{plan.architecture.name}.{POOLING.name}"
    number = plan.file.metadata.get(key)
    mode = next((name for name, value in POOLINGS.items() if value == number), None)
    if mode is not None:
        effect = f"sentence-transformers does not know that vectors are pooled by {mode}"
        yield Loss("metadata", key, effect)
    known = {f"{plan.architecture.name}.{row.name}" for row in plan.architecture.keys}
    names = [
        name
        for name in plan.file.metadata
        if name not in known and not any(fnmatchcase(name, pattern) for pattern in _KEPT)
    ]
    if names:
        effect = f"no file of the folder has {format_first([*map(shown, names)], _MOST_NAMED)}"
        yield Loss("metadata", "keys", effect)


def _notes(plan: FolderPlan) -> Iterator[str]:
    quantized = sorted({tensor.type.name for tensor in plan.file.tensors if tensor.type.block > 1})
    if quantized:
        yield f"{', '.join(quantized)} dequantized"
