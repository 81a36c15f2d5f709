"""The tensors of a folder as those of a GGUF: the type of each, and its data while it is written.

What is the same in both files stays a view of the mapped file, which the system copies; besides a
few megabytes, at most one rearranged tensor is in memory.

Some numbers are tensors in a folder, one a layer, and an array of the metadata in a GGUF
(``layer_number_keys``).
"""

from __future__ import annotations

import re
from functools import partial
from math import prod

from mtkit.architectures.config import MXFP4 as METHOD_MXFP4
from mtkit.architectures.config import quantization
from mtkit.architectures.table import ANY_LAYER
from mtkit.base.binary import give_back
from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import ComputedTensor, PackedTensor
from mtkit.checkpoints.quantized import FLOATS_8
from mtkit.checkpoints.safetensors import NewWeight
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.types import BY_NAME
from mtkit.gguf.value_counts import ValueCounts
from mtkit.gguf.values import (
    BF16,
    DTYPES,
    F16,
    F32,
    I32,
    I64,
    MXFP4,
    NVFP4,
    Q8_0,
    convert_data,
    decode_values,
    encode_values,
)
from mtkit.gguf.writer import Key, LazyData, NewTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.changes import Change, Shape
    from mtkit.architectures.metadata import Dims
    from mtkit.architectures.tensor_match import Match
    from mtkit.base.binary import Buffer
    from mtkit.checkpoints.folder_files import StoredTensor
    from mtkit.conversion.value_losses import ValueLosses
    from mtkit.gguf.file import Metadata
    from mtkit.gguf.types import TensorType


TYPES = {"f32": F32, "f16": F16, "bf16": BF16, "q8_0": Q8_0}
"""Types that mtkit writes itself, by the name of ``--type``."""
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7, "bf16": 32}
"""Name -> ``general.file_type``."""
PACKED_FILE_TYPES = {**FILE_TYPES, "f32": 38, "f16": 38, "bf16": 38}
"""Likewise, of a model with weights that stay in 4 bits (``MOSTLY_MXFP4_MOE``)."""
KEPT_FILE_TYPES = {**FILE_TYPES, "f32": 39, "f16": 39, "bf16": 39}
"""Likewise, with matrices of NVFP4 (``MOSTLY_NVFP4``)."""
MXFP4_FILE_TYPES = dict.fromkeys(FILE_TYPES, 38)
"""Likewise, with matrices of MXFP4 among others that another program quantized."""
PACKED = {"MXFP4": MXFP4, "NVFP4": NVFP4}
"""Types that come from a folder as they are, by name."""
KEPT_EXACT = frozenset(
    (
        "ffn_gate_inp", "ffn_gate_inp_shexp", "position_embd", "token_types", "ssm_conv1d",
        "shortconv.conv", "time_mix_first", "time_mix_w1", "time_mix_w2", "time_mix_decay_w1",
        "time_mix_decay_w2", "time_mix_lerp_fused", "posnet.norm1", "posnet.norm2",
        "altup_correct_coef", "altup_predict_coef", "ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v",
        "indexer.proj", "v.position_embd", "a.position_embd",
    )
)  # fmt: skip
"""Tensors that are F32 in every file, by the name behind the number of the layer.

Source: llama.cpp, conversion/base.py (``prepare_tensors``)."""


_OF_PATCHES = re.compile(r"\.patch_(embd|merger)\.weight")
"""Matrices of a projector that are F16 where others are, else F32; source: the same file."""


def tensor_type(
    name: str, shape: Shape, target: TensorType, *, narrows: bool = False
) -> TensorType:
    """Return the type that a tensor gets; ``narrows`` as in ``Change``."""
    if len(shape) > 1 and _OF_PATCHES.search(name):
        return F16 if target == F16 else F32
    if len(shape) <= 1 or not name.endswith(".weight") or name.endswith("_norm.weight"):
        return F32
    kind = name.removesuffix(".weight")
    if kind.startswith("blk."):
        kind = kind.split(".", 2)[2]
    if kind in KEPT_EXACT and not narrows:
        return F32
    # A row that is no multiple of the block cannot be quantized.
    return F16 if shape[-1] % target.block else target


def file_types(config: Mapping[str, Any], tensors: Mapping[str, StoredTensor]) -> Mapping[str, int]:
    """Return name of a type → ``general.file_type`` of a model."""
    packed = {t.weight.type for t in tensors.values() if isinstance(t, PackedTensor)}
    if packed:
        return MXFP4_FILE_TYPES if MXFP4.name in packed else KEPT_FILE_TYPES
    return PACKED_FILE_TYPES if quantization(config) == METHOD_MXFP4 else FILE_TYPES


def check_type(kind: str, types: Collection[str] = tuple(TYPES)) -> None:
    """Refuse a type of matrices that mtkit does not write itself."""
    if kind not in ("auto", *types):
        hint = f"one of auto, {', '.join(types)}; mtkit.quantize has the others"
        raise UsageError(f"is {shown(kind)}", field="kind", hint=hint)


def usual_type(shapes: Iterable[tuple[str, Sequence[int]]]) -> str:
    """Return what ``auto`` stands for: the type of the first matrix in BF16 or F16, else F16.

    Args:
        shapes: Type, as safetensors names it, and shape of each tensor.
    """
    first = (kind for kind, shape in shapes if len(shape) >= 2 and kind in ("BF16", "F16"))
    return next(first, "F16").lower()


class Values(Record):
    """The numbers of a tensor in their mapped file.

    Attributes:
        computed: The tensor, where they are computed from others; then ``data`` is empty.
    """

    data: memoryview
    type: str
    shape: Shape
    computed: ComputedTensor | None = None

    @classmethod
    def of(cls, tensor: StoredTensor) -> Values:
        """Return the values of a tensor of a folder."""
        computed = tensor if isinstance(tensor, ComputedTensor) else None
        data = tensor.data if computed is None else memoryview(b"")
        return cls(data, tensor.weight.type, tensor.weight.shape, computed)

    def blocks(self) -> Iterable[memoryview]:
        """Return its data, in pieces of whole rows where it is computed."""
        return self.computed.blocks() if self.computed else (self.data,)


def new_tensors(
    matches: Iterable[Match],
    tensors: Mapping[str, StoredTensor],
    target: TensorType,
    progress: Callable[[int], object] = lambda _: None,
    losses: ValueLosses | None = None,
) -> Iterator[NewTensor]:
    """Yield the tensors of a GGUF that those of a folder become."""
    wide = losses.wide or () if losses else ()
    for match in matches:
        sources = [Values.of(tensors[name]) for name in match.folder]
        for number, (name, shape) in enumerate(zip(match.gguf, match.gguf_shapes, strict=True)):
            stores = match.row.change.stores
            narrows = match.row.change.narrows
            kind = tensor_type(name, shape, target, narrows=narrows)
            kind = {**PACKED, "I32": I32}[stores] if stores else kind
            kind = F32 if match.row.exact else BF16 if name in wide else kind
            if len(shape) > 1 and (match.row.half or match.row.patches):
                kind = F16 if match.row.half or target == F16 else F32
            if match.row.keeps and not stores and len(shape) > 1:
                kind = _kept_type(tensors[match.folder[0]], name, shape, kind)
            kind = PACKED.get(sources[0].type, kind)  # its bits are those of the folder
            record = (losses, name, shape[-1] if shape else 1) if losses else None
            pieces = make_data(
                sources, match.row.change, match.forward, number, kind, progress, record
            )
            size = prod(shape) // kind.block * kind.block_bytes
            yield NewTensor(name, tuple(reversed(shape)), kind, LazyData(size, pieces))
            yield from _scale_tensors(name, [tensors[source] for source in match.folder])


def _kept_type(stored: StoredTensor, name: str, shape: Shape, otherwise: TensorType) -> TensorType:
    """Return the type that a matrix keeps; Q8_0 for FP8.

    Source: llama.cpp, conversion/deepseek.py (``DeepseekV4Model.tensor_force_quant``).
    """
    if name.endswith("_norm.weight"):
        return F32
    if isinstance(stored, ComputedTensor):
        is_float8 = stored.parts[0].weight.type in FLOATS_8
        return (F16 if shape[-1] % Q8_0.block else Q8_0) if is_float8 else otherwise
    return {"BF16": BF16, "F32": F32}.get(stored.weight.type, otherwise)


def _scale_tensors(name: str, sources: Iterable[StoredTensor]) -> Iterator[NewTensor]:
    """Yield the scales of a matrix of NVFP4, or of its experts, where they are not 1.

    Source: llama.cpp, conversion/base.py (``_write_scale_tensor``, ``_write_scales_tensor``).
    """
    import numpy as np

    packed = [source for source in sources if isinstance(source, PackedTensor)]
    for end in packed[0].scales if packed else ():
        factors = np.array([source.scales[end] for source in packed], np.float32)
        close = 1e-6 if len(packed) == 1 else 1.1e-5
        if not (np.abs(factors.astype(np.float64) - 1) <= close).all():
            data = encode_values(factors, F32)
            yield NewTensor(name.removesuffix(".weight") + end, (len(factors),), F32, data)


def precision_keys(matches: Iterable[Match], tensors: Mapping[str, StoredTensor]) -> Iterator[Key]:
    """Yield the keys that name matrices whose inputs llama.cpp shall not quantize to 4 bits."""
    names = [
        name
        for match in matches
        if any(getattr(tensors[source], "weights_only", False) for source in match.folder)
        for name in match.gguf
    ]
    if names:
        yield Key("general.tensor_extra.name", "string[]", sorted(names))
        yield Key("general.tensor_extra.prec_a4", "bool[]", [False] * len(names))


def refuse_computed(match: Match, tensors: Mapping[str, StoredTensor]) -> None:
    """Refuse a matrix of NVFP4 of which a GGUF needs other numbers, or in columns rearranged."""
    change = match.row.change
    packed = [name for name in match.folder if isinstance(tensors[name], PackedTensor)]
    moves = change.keeps_order or change.moves_rows
    if packed and (len(packed) < len(match.folder) or not moves or match.row.exact):
        raise UnsupportedError(
            "is NVFP4, and llama.cpp needs it rearranged, which that type does not allow",
            source=tensors[packed[0]].path,
            field=f"tensor {quoted(packed[0])}",
            hint="use the model in BF16, F16 or F32",
        )


def make_data(
    sources: Sequence[Values],
    change: Change,
    transform: Callable[[list[Any]], list[Any]],
    number: int,
    kind: TensorType,
    progress: Callable[[int], object] = lambda _: None,
    record: tuple[ValueLosses, str, int] | None = None,
) -> Callable[[], Iterator[Buffer]]:
    """Return a function that yields the data of one of the tensors that others become.

    Args:
        record: Where to say what is lost, with the name of the tensor and the length of its rows.
    """

    def parts(counts: ValueCounts | None) -> Iterator[Buffer]:
        if change.keeps_order:
            for source in sources:
                for block in source.blocks():
                    yield from convert_data(block, source.type, kind, counts)
            return
        arrays = [values_array(source, floating=change.computes) for source in sources]
        dtype = "F32" if arrays[0].dtype == "<f4" else change.stores or sources[0].type
        dtype = kind.name if kind in (I32, I64) else dtype
        data = array_bytes(transform(arrays)[number])
        del arrays  # at most one rearranged tensor is in memory
        yield from convert_data(data, dtype, kind, counts)
        for source in sources:
            give_back(source.data)

    def data_pieces() -> Iterator[Buffer]:
        counts = ValueCounts(kind, record[2]) if record else None
        for piece in parts(counts):
            yield piece
            progress(memoryview(piece).nbytes)
        if record and counts:
            record[0].end(record[1], counts)

    return data_pieces


def values_array(tensor: Values, *, floating: bool) -> Any:
    """Return a tensor as an array of its type's bits; of float32 if ``floating``."""
    import numpy as np

    data = tensor.computed.data if tensor.computed else tensor.data
    if tensor.type in PACKED and not floating:
        return np.frombuffer(data, np.uint8).reshape(*tensor.shape[:-1], -1)
    if tensor.type not in DTYPES or floating:
        return decode_values(np.frombuffer(data, np.uint8), tensor.type).reshape(tensor.shape)
    return np.frombuffer(data, DTYPES[tensor.type]).reshape(tensor.shape)


def array_bytes(array: Any) -> memoryview:
    """Return the bytes of an array."""
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def layer_number_keys(
    architecture: Architecture, dims: Dims, tensors: Mapping[str, StoredTensor]
) -> Iterator[Key]:
    """Yield keys of a GGUF that a folder has as tensors of one number, which are all there."""
    for row in architecture.layer_numbers:
        values = []
        is_single = ANY_LAYER not in row.folder
        for layer in range(1 if is_single else dims.key("block_count")):
            name = row.folder.replace(ANY_LAYER, str(layer))
            stored = tensors[name]
            value = stored.floats()
            if value.size != 1:
                shape = list(stored.weight.shape)
                raise FormatError(f"has the shape {shape}, not one number", field=f"tensor {name}")
            values.append(float(value.reshape(-1)[0]))
        yield Key(row.key, "f32", *values) if is_single else Key(row.key, "f32[]", values)


def layer_number_weights(
    architecture: Architecture, dims: Dims, metadata: Metadata, kind: str
) -> Iterator[NewWeight]:
    """Yield tensors of one number that a GGUF has as keys.

    Args:
        kind: Type of matrices: f32, f16 or bf16; a number that it would round is F32.
    """
    import numpy as np

    for row in architecture.layer_numbers:
        array = metadata.get(row.key)
        numbers = [array] if isinstance(array, float) else []
        if isinstance(array, GgufArray) and array.element is BY_NAME["f32"]:
            numbers = list(array.numbers())
        if len(numbers) != (dims.key("block_count") if ANY_LAYER in row.folder else 1):
            raise FormatError("is not a number, or one of each layer", field=row.key)
        values = np.array(numbers, np.float32)
        weight_type = TYPES[kind]
        rounded = decode_values(encode_values(values, weight_type), weight_type.name)
        if not np.array_equal(rounded, values, equal_nan=True):
            weight_type = F32
        for layer, value in enumerate(values):
            data = bytes(encode_values(value.reshape(1), weight_type))
            name = row.folder.replace(ANY_LAYER, str(layer))
            shape = dims.shape(row.axes)
            yield NewWeight(name, weight_type.name, shape, len(data), partial(iter, (data,)))
