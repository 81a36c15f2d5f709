"""How far two tensors are apart as numbers: errors, and the row where they are largest.

Both come piece by piece, so that memory does not grow with them.
"""

from __future__ import annotations

from math import inf, sqrt

from mtkit.base.record import Record
from mtkit.inspection.sides import STEP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    from mtkit.inspection.sides import SideTensor


class Errors(Record):
    """How far two tensors are apart as numbers; the first is the one that is measured against.

    Attributes:
        largest: The largest absolute difference.
        rmse: Root of the mean squared difference.
        cosine: Of the angle between them; 1.0 for equal directions.
        deviation: Standard deviation of the first.
        worst_row: Row with the largest error, counted from 0; -1: there is no error.
        worst_rmse: Root of the mean squared difference in that row.
        count: Elements.
    """

    largest: float
    rmse: float
    cosine: float
    deviation: float
    worst_row: int
    worst_rmse: float
    count: int

    @property
    def relative(self) -> float:
        """The error as a share of the first tensor's deviation; 1.0 is as wrong as its mean."""
        return share(self.rmse, self.deviation)

    @property
    def worst_relative(self) -> float:
        """The same of the worst row."""
        return share(self.worst_rmse, self.deviation)


def share(part: float, whole: float) -> float:
    """Return a quotient; of two zeros 0."""
    return part / whole if whole else inf * part if part else 0.0


def errors_of(one: SideTensor, other: SideTensor) -> Errors | None:
    """Measure two tensors of equal shape; None where a type cannot be dequantized."""
    import numpy as np

    left, right = one.values(), other.values()
    row = one.shape[0] if one.shape else 1
    if left is None or right is None or not row:
        return None
    count, at, worst, carried = 0, -1, 0.0, 0.0
    total = squares = products = others = apart = largest = 0.0
    with np.errstate(all="ignore"):
        for x, y in zip(_steps(left), _steps(right), strict=True):
            error = x - y
            largest = float(np.maximum(largest, np.abs(error).max()))
            error *= error
            apart += float(error.sum())
            total, squares = total + float(x.sum()), squares + float(x @ x)
            products, others = products + float(x @ y), others + float(y @ y)
            # Sums of rows: the first may have begun in an earlier piece, the last may go on.
            starts = np.arange(-count % row, len(error), row)
            rows = np.add.reduceat(error, starts) if len(starts) else error[:0]
            head = float(error[: starts[0]].sum()) if len(starts) else float(error.sum())
            ends = [carried + head, *rows.tolist()]
            first = count // row if count % row else count // row - 1
            count += len(error)
            carried = ends[-1] if count % row else 0.0
            whole = ends[:-1] if count % row else ends
            if whole:
                place = int(np.argmax(whole))
                if whole[place] > worst:
                    at, worst = first + place, whole[place]
    if not count:
        return None
    size = sqrt(squares * others) if squares * others >= 0 else float("nan")
    cosine = products / size if size else float(not apart)
    variance = max(squares / count - (total / count) ** 2, 0.0)
    rmse, worst_rmse = sqrt(apart / count), sqrt(worst / row)
    return Errors(largest, rmse, cosine, sqrt(variance), at, worst_rmse, count)


def _steps(arrays: Iterable[Any]) -> Iterator[Any]:
    """Yield the same elements as float64, ``STEP`` at a time."""
    import numpy as np

    held: list[Any] = []
    room = STEP
    for array in arrays:
        at = 0
        while at < len(array):
            part = array[at : at + room]
            held.append(part)
            at, room = at + len(part), room - len(part)
            if not room:
                yield np.concatenate(held, dtype=np.float64)
                held, room = [], STEP
    if held:
        yield np.concatenate(held, dtype=np.float64)
