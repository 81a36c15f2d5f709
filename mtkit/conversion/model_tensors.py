"""The tensors of a folder as those of a GGUF: in which type each is, and made as it is written.

What is the same in both files stays a view of the mapped file, which the system copies. At most one
tensor that is rearranged is in memory, and a few megabytes.
"""

from __future__ import annotations

from math import prod

from mtkit.base.binary import give_back
from mtkit.base.escape import shown
from mtkit.base.record import Record
from mtkit.errors import UsageError
from mtkit.gguf.values import BF16, DTYPES, F16, F32, MXFP4, Q8_0, converted, decoded
from mtkit.gguf.writer import Made, NewTensor

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from mtkit.architectures.changes import Change, Shape
    from mtkit.architectures.in_layers import Match
    from mtkit.base.binary import Buffer
    from mtkit.checkpoints.folder_files import Stored
    from mtkit.gguf.types import TensorType

TYPES = {"f32": F32, "f16": F16, "bf16": BF16, "q8_0": Q8_0}
"""Types that mtkit writes itself, by the name of ``--type``."""
FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7, "bf16": 32}
"""Name -> ``general.file_type``."""
PACKED_FILE_TYPES = {**FILE_TYPES, "f32": 38, "f16": 38, "bf16": 38}
"""Likewise, of a model with weights that stay in 4 bits (``MOSTLY_MXFP4_MOE``)."""
PACKED = {"MXFP4": MXFP4}
"""Types that come from a folder as they are, by name."""
KEPT_EXACT = frozenset(
    (
        "ffn_gate_inp", "ffn_gate_inp_shexp", "position_embd", "token_types", "ssm_conv1d",
        "shortconv.conv", "time_mix_first", "time_mix_w1", "time_mix_w2", "time_mix_decay_w1",
        "time_mix_decay_w2", "time_mix_lerp_fused", "posnet.norm1", "posnet.norm2",
        "altup_correct_coef", "altup_predict_coef", "ssm_conv1d_q", "ssm_conv1d_k", "ssm_conv1d_v",
        "indexer.proj",
    )
)  # fmt: skip
"""Tensors that are F32 whatever the others are, by the name behind the number of the layer.

Source: llama.cpp, conversion/base.py (``prepare_tensors``)."""


def type_of(name: str, shape: Shape, wanted: TensorType) -> TensorType:
    """Return the type that a tensor gets.

    Args:
        name: In the GGUF.
        shape: Slowest axis first.
        wanted: Type of the file's matrices.
    """
    if len(shape) <= 1 or not name.endswith(".weight") or name.endswith("_norm.weight"):
        return F32
    kind = name.removesuffix(".weight")
    if kind.startswith("blk."):
        kind = kind.split(".", 2)[2]
    if kind in KEPT_EXACT:
        return F32
    # A row that no block fits stays whole.
    return F16 if shape[-1] % wanted.block else wanted


def check_type(kind: str, types: Collection[str] = tuple(TYPES)) -> None:
    """Refuse a type of matrices that mtkit does not write itself.

    Raises:
        UsageError: It is none of ``types``, nor auto.
    """
    if kind not in ("auto", *types):
        raise UsageError(f"is {shown(kind)}", field="kind", hint=f"one of auto, {', '.join(types)}")


def usual_type(shapes: Iterable[tuple[str, Sequence[int]]]) -> str:
    """Return what ``auto`` stands for: the type of the first matrix, F16 where it has another one.

    Args:
        shapes: Of each tensor its type, as safetensors names it, and its shape.
    """
    first = (kind for kind, shape in shapes if len(shape) >= 2 and kind in ("BF16", "F16"))
    return next(first, "F16").lower()


class Values(Record):
    """The numbers of a tensor where they are.

    Attributes:
        data: Little-endian; a view of a mapped file.
        type: As safetensors or GGUF names it.
        shape: Slowest axis first.
    """

    data: memoryview
    type: str
    shape: Shape

    @classmethod
    def of(cls, one: Stored) -> Values:
        """Return those of a tensor of a folder."""
        return cls(one.data, one.weight.type, one.weight.shape)


def new_tensors(
    matches: Iterable[Match],
    tensors: Mapping[str, Stored],
    wanted: TensorType,
    done: Callable[[int], object] = lambda _: None,
) -> Iterator[NewTensor]:
    """Yield the tensors of a GGUF that those of a folder become.

    Args:
        matches: Where they come from.
        tensors: Of the folder, by name.
        wanted: Type of matrices.
        done: Is told each number of bytes that was made.
    """
    for match in matches:
        sources = [Values.of(tensors[name]) for name in match.folder]
        for number, (name, shape) in enumerate(zip(match.gguf, match.gguf_shapes, strict=True)):
            stores = match.row.change.stores
            kind = PACKED[stores] if stores else type_of(name, shape, wanted)
            pieces = made_of(sources, match.row.change, match.forward, number, kind, done)
            size = prod(shape) // kind.block * kind.block_bytes
            yield NewTensor(name, tuple(reversed(shape)), kind, Made(size, pieces))


def made_of(
    sources: Sequence[Values],
    change: Change,
    turned: Callable[[list[Any]], list[Any]],
    number: int,
    kind: TensorType,
    done: Callable[[int], object],
) -> Callable[[], Iterator[Buffer]]:
    """Return what makes the data of one of the tensors that others become.

    Args:
        sources: Those others.
        change: What becomes of them.
        turned: The change in one direction: from their arrays to the new ones.
        number: Which of the new ones.
        kind: Its type.
        done: Is told each number of bytes that was made.
    """

    def parts() -> Iterator[Buffer]:
        if change.keeps_order:
            for one in sources:
                yield from converted(one.data, one.type, kind)
            return
        arrays = [array_of(one, floating=change.computes) for one in sources]
        dtype = "F32" if arrays[0].dtype == "<f4" else change.stores or sources[0].type
        data = bytes_of(turned(arrays)[number])
        del arrays
        yield from converted(data, dtype, kind)
        for one in sources:
            give_back(one.data)

    def made() -> Iterator[Buffer]:
        for piece in parts():
            yield piece
            done(memoryview(piece).nbytes)

    return made


def array_of(one: Values, *, floating: bool) -> Any:
    """Return a tensor as an array: the bits of its type, float32 where asked for or quantized."""
    import numpy as np

    if one.type not in DTYPES or floating:
        return decoded(np.frombuffer(one.data, np.uint8), one.type).reshape(one.shape)
    return np.frombuffer(one.data, DTYPES[one.type]).reshape(one.shape)


def bytes_of(array: Any) -> memoryview:
    """Return the bytes of an array."""
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data
