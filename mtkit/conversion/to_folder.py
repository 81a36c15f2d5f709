"""A GGUF as a HuggingFace model folder: config.json, safetensors, tokenizer files.

Values go back as they came: what was rearranged is put in its old order, what was computed is
computed back. Quantized matrices become the numbers that they stand for.
"""

from __future__ import annotations

from math import prod

from mtkit.architectures.matching import refuse_faults
from mtkit.architectures.recognition import recognized
from mtkit.base.record import Record
from mtkit.checkpoints.safetensors_writer import NewWeight
from mtkit.conversion import layer_numbers
from mtkit.conversion.model_tensors import TYPES, Values, array_of, check_type, made_of, type_of
from mtkit.errors import FormatError, MtkitError, UsageError
from mtkit.gguf.values import BF16, F32, decoded, encoded
from mtkit.inspection.kinds import NO_MODEL, content

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.dims import Dims
    from mtkit.architectures.in_layers import Match
    from mtkit.gguf.file import GgufFile
    from mtkit.gguf.types import TensorType

_MOST_BYTES = 1 << 24
"""Of a tensor that is looked at before it is written: a file of F32 has large ones, too."""
_DTYPES = {"bf16": "bfloat16", "f16": "float16", "f32": "float32"}


class FolderPlan(Record):
    """How a GGUF becomes a folder.

    Attributes:
        file: The GGUF.
        architecture: Of the model.
        dims: Its sizes.
        matches: Where the tensors go.
        type: Of what is written: f32, f16 or bf16.
    """

    file: GgufFile
    architecture: Architecture
    dims: Dims
    matches: tuple[Match, ...]
    type: str


def plan_folder(file: GgufFile, kind: str = "auto") -> FolderPlan:
    """Look at a GGUF: what becomes of everything in it; no weight is read.

    Args:
        file: The GGUF.
        kind: f32, f16 or bf16; auto: as its matrices, bf16 for those that are quantized.

    Raises:
        UsageError: The file holds no model, or ``kind`` is none of these.
        UnsupportedError: mtkit does not convert such a model.
        FormatError: Metadata and tensors contradict each other.
    """
    check_type(kind, tuple(_DTYPES))
    what = NO_MODEL.get(content(file.metadata, file.tensors).kind)
    if what is not None:
        raise UsageError(what, source=file.name)
    shapes = {tensor.name: tuple(reversed(tensor.shape)) for tensor in file.tensors}
    try:
        found = recognized(file.metadata, shapes)
        refuse_faults(found.matched, found.architecture, "the metadata says")
    except MtkitError as error:
        raise error.located(file.name) from None
    return FolderPlan(
        file, found.architecture, found.dims, found.matched.matches, _kind(file, kind)
    )


def _kind(file: GgufFile, kind: str) -> str:
    if kind != "auto":
        return kind
    # Those that are F32 in every file tell nothing.
    names = [
        tensor.type.name.lower()
        for tensor in file.tensors
        if type_of(tensor.name, tuple(reversed(tensor.shape)), BF16) is not F32
    ]
    return next((name for name in names if name in _DTYPES), "bf16")


def config_of(plan: FolderPlan) -> dict[str, Any]:
    """Return config.json.

    Raises:
        FormatError: A key has a value of another type than its field, or the metadata do not say
            what the file needs.
    """
    architecture, metadata = plan.architecture, plan.file.metadata
    found: dict[str, Any] = {
        "architectures": [architecture.classes[0]],
        "model_type": architecture.model_type,
    }
    for row in {row.name: row for row in architecture.keys}.values():  # as ``keys_of`` has it
        value = plan.dims.keys.get(row.name)
        if value is not None:
            if row.back and not _is(value, row.type):
                what = f"is not of the type {row.type}"
                raise FormatError(what, source=plan.file.name, field=row.name)
            _merge(found, row.fields(_short(value)))
    for role in ("bos", "eos", "pad"):
        name = "padding" if role == "pad" else role
        number = metadata.get(f"tokenizer.ggml.{name}_token_id")
        if number is not None:
            found[f"{role}_token_id"] = number
    names = plan.file.names
    found["tie_word_embeddings"] = "output.weight" not in names
    found["vocab_size"] = plan.dims["vocab"]
    if architecture.config is not None:
        _merge(found, architecture.config(plan.dims, lambda name: _values(plan.file, name)))
    return {**found, "dtype": _DTYPES[plan.type]}


def _is(value: Any, kind: str) -> bool:
    """Tell whether a value of metadata is of a type; all numbers are of one."""
    if kind.endswith("[]"):
        return isinstance(value, list) and all(_is(one, kind[:-2]) for one in value)
    types: dict[str, Any] = {"string": str, "bool": (bool, int)}
    return isinstance(value, types.get(kind, (int, float)))


def _values(file: GgufFile, name: str) -> Any:
    """Return a tensor as float32 of one axis; None where there is none."""
    import numpy as np

    one = file.names.get(name)
    if one is None:
        return None
    return decoded(np.frombuffer(file.tensor_data(one), np.uint8), one.type.name)


def _merge(target: dict[str, Any], more: Mapping[str, Any]) -> None:
    for name, value in more.items():
        if isinstance(value, dict) and isinstance(target.get(name), dict):
            target[name].update(value)
        else:
            target[name] = value


def _short(value: Any) -> Any:
    """Return a number of 32 bits with the fewest digits that give it."""
    import numpy as np

    if isinstance(value, list):
        return [_short(one) for one in value]
    return float(str(np.float32(value))) if type(value) is float else value


def new_weights(
    plan: FolderPlan, done: Callable[[int], object] = lambda _: None
) -> Iterator[NewWeight]:
    """Yield the tensors of the folder; ``done`` is told each number of bytes that was made.

    Raises:
        FormatError: A key that has numbers of tensors is missing, or has another number of them.
    """
    wanted = TYPES[plan.type]
    yield from layer_numbers.weights(plan.architecture, plan.dims, plan.file.metadata, plan.type)
    for match in plan.matches:
        found = (plan.file.names[name] for name in match.gguf)
        sources = [
            Values(plan.file.tensor_data(one), one.type.name, tuple(reversed(one.shape)))
            for one in found
        ]
        change, count = match.row.change, len(match.folder)
        for number, (name, shape) in enumerate(zip(match.folder, match.folder_shapes, strict=True)):
            mine = sources
            if change.keeps_order and count > 1:  # those of experts, one behind the other
                (whole,) = sources
                size = len(whole.data) // count
                part = whole.data[number * size : (number + 1) * size]
                mine = [Values(part, whole.type, shape)]
            exact = wanted if wanted is F32 else _exact(mine, match, number, wanted)
            pieces = made_of(mine, change, match.back, number, exact, done)
            yield NewWeight(name, exact.name, shape, prod(shape) * exact.block_bytes, pieces)


def _exact(sources: list[Values], match: Match, number: int, wanted: TensorType) -> TensorType:
    """Return the type in which a tensor is written: F32 where a shorter one would round.

    A GGUF has norms and the like in F32, whatever they were before.
    """
    import numpy as np

    small = sum(len(one.data) for one in sources) <= _MOST_BYTES
    if not small or any(one.type != "F32" for one in sources):
        return wanted
    arrays = [array_of(one, floating=True) for one in sources]
    array = arrays[0] if match.row.change.keeps_order else match.back(arrays)[number]
    flat = np.ascontiguousarray(array).reshape(-1)
    rounded = decoded(encoded(flat, wanted), wanted.name)
    change = match.row.change
    if change.computes:
        # What was computed may round on its way back: it is what gives the same numbers again.
        again = change.forward([rounded.reshape(array.shape)], match.gguf_shapes, match.dims)[0]
        same = _near(again, arrays[number], change.slack)
    else:
        same = np.array_equal(rounded, flat, equal_nan=True)
    return wanted if same else F32


def _near(one: Any, other: Any, slack: int) -> bool:
    import numpy as np

    if not slack:
        return np.array_equal(one, other, equal_nan=True)
    return bool((np.abs(one - other) <= slack * np.spacing(np.abs(other))).all())
