"""The values of one tensor as numbers: range, mean, spread, zeros and a histogram.

Dequantized by ggml's own package piece by piece, so that memory does not grow with the tensor; the
histogram takes a second walk, when the range is known.
"""

from __future__ import annotations

from mtkit.base.escape import either, shown
from mtkit.base.record import Record
from mtkit.errors import UnsupportedError, UsageError
from mtkit.gguf.byte_order import little_pieces
from mtkit.gguf.draft import refuse_forks
from mtkit.gguf.values import import_quants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import Any

    from mtkit.gguf import GgufFile, Tensor
    from mtkit.gguf.types import TensorType

BINS = 16
_PIECE = 1 << 20
"""Elements that are numbers at a time."""
_PLAIN = {"F32": "f4", "F16": "f2", "F64": "f8", "I8": "i1", "I16": "i2", "I32": "i4", "I64": "i8"}


class Statistics(Record):
    """What the values of a tensor are.

    Attributes:
        finite: Those that are finite; all below but the counts is of these.
        least: The smallest; None where none is finite.
        deviation: Their standard deviation (of the whole, not of a sample).
        histogram: (from, to, count) of equal steps; the last includes its end.
    """

    count: int
    finite: int
    zeros: int
    nan: int
    infinite: int
    least: float | None
    greatest: float | None
    mean: float | None
    deviation: float | None
    histogram: tuple[tuple[float, float, int], ...]


def dequantize_values(raw: Any, tensor_type: TensorType) -> Any:
    """Return elements as float64 of shape (n_elements,); None where the type is not known.

    Args:
        raw: Whole blocks, little-endian.
    """
    import numpy as np

    data = np.frombuffer(raw, np.uint8)
    if tensor_type.name in _PLAIN:
        return data.view("<" + _PLAIN[tensor_type.name]).astype(np.float64)
    if not tensor_type.block_bytes:
        return None
    if tensor_type.name == "BF16":
        return (data.view("<u2").astype("<u4") << 16).view("<f4").astype(np.float64)
    quants = import_quants()
    try:
        kind = quants.GGMLQuantizationType[tensor_type.name]
        blocks = data.reshape(-1, tensor_type.block_bytes)
        return quants.dequantize(blocks, kind).reshape(-1).astype(np.float64)
    except (KeyError, NotImplementedError):
        return None


def find_tensor(files: Sequence[GgufFile], name: str) -> tuple[GgufFile, Tensor]:
    """Return a tensor and the file that has it."""
    for file in files:
        if name in file.names:
            return file, file.names[name]
    from difflib import get_close_matches

    names = [other for file in files for other in file.names]
    near = [other for other in names if name and name in other][:3]
    near = near or get_close_matches(name, names, 3, 0.5)
    hint = f"is it {either([*map(shown, near)])}?" if near else "--tensors lists the tensors"
    raise UsageError("no such tensor", field=shown(name), hint=hint)


def tensor_statistics(file: GgufFile, tensor: Tensor) -> Statistics:
    """Walk over the values of a tensor."""
    import numpy as np

    count = zeros = nan = infinite = finite = 0
    mean = squares = 0.0
    least, greatest = float("inf"), float("-inf")
    with np.errstate(all="ignore"):
        for values in _pieces(file, tensor):
            count += len(values)
            nan += int(np.isnan(values).sum())
            infinite += int(np.isinf(values).sum())
            zeros += int((values == 0).sum())
            real = values[np.isfinite(values)]
            if not len(real):
                continue
            least, greatest = min(least, float(real.min())), max(greatest, float(real.max()))
            # Means and squares of pieces are joined as Chan, Golub and LeVeque do: no cancellation.
            own, apart = float(real.mean()), len(real) / (finite + len(real))
            squares += float(((real - own) ** 2).sum()) + (own - mean) ** 2 * finite * apart
            mean += (own - mean) * apart
            finite += len(real)
        bins = _histogram(file, tensor, least, greatest) if finite else ()
    if not finite:
        return Statistics(count, 0, zeros, nan, infinite, None, None, None, None, ())
    deviation = (squares / finite) ** 0.5
    return Statistics(count, finite, zeros, nan, infinite, least, greatest, mean, deviation, bins)


def _histogram(
    file: GgufFile, tensor: Tensor, least: float, greatest: float
) -> tuple[tuple[float, float, int], ...]:
    import numpy as np

    if least == greatest or greatest - least == float("inf"):
        edges = np.array([least, greatest])
    else:
        edges = np.linspace(least, greatest, BINS + 1)
    counts = np.zeros(len(edges) - 1, np.int64)
    for values in _pieces(file, tensor):
        real = values[np.isfinite(values)]
        places = np.searchsorted(edges, real, "right") - 1
        counts += np.bincount(np.clip(places, 0, len(counts) - 1), minlength=len(counts))
    lows, highs = edges[:-1].tolist(), edges[1:].tolist()
    return tuple(zip(lows, highs, counts.tolist(), strict=True))


def _pieces(file: GgufFile, tensor: Tensor) -> Iterator[Any]:
    block = tensor.type
    refuse_forks([tensor], file.name)
    step = max(_PIECE // block.block, 1) * block.block_bytes
    for piece in little_pieces(file, tensor, step):
        values = dequantize_values(piece, block)
        if values is None:
            raise _unknown_type_error(file, tensor)
        yield values


def _unknown_type_error(file: GgufFile, tensor: Tensor) -> UnsupportedError:
    what = f"{tensor.type.name} cannot be dequantized"
    return UnsupportedError(what, source=file.name, field=tensor.label)
