"""What differs between two models: metadata, tensors, chat template; nothing here prints.

A side is a GGUF file, or something else seen as one (``conversion.folder_side``): metadata, and
tensors whose data comes piece by piece, so that memory does not grow with them. Values of tensors
are compared byte for byte, on request also as numbers after dequantization by ggml's own package:
errors, and the row where they are largest. Where one side is no GGUF file, a tensor of it is the
same as the other's if conversion would give the other's bytes. A difference is given in words, and
as a JSON document.
"""

from __future__ import annotations

from math import inf, sqrt

from mtkit.base.binary import pieces
from mtkit.base.escape import printable
from mtkit.base.record import Record
from mtkit.errors import format_count
from mtkit.gguf.arrays import GgufArray
from mtkit.inspection.document import format_short, format_whole, json_number
from mtkit.inspection.statistics import dequantize_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from typing import Any, Literal, Protocol

    from mtkit.base.binary import Buffer
    from mtkit.gguf.file import GgufFile, Metadata, Tensor

    class SideTensor(Protocol):
        """A tensor of a side."""

        name: str
        shape: tuple[int, ...]
        """Fastest axis first."""
        type: str
        """Of its elements, as GGUF or safetensors names it."""
        n_bytes: int

        def data_as(self, kind: str) -> Iterator[Buffer] | None:
            """Give its data in a type, piece by piece; None where it cannot be had exactly so."""

        def values(self) -> Iterator[Any] | None:
            """Give its elements, arrays of floats of one axis; None where they are not known."""

    Change = Literal["added", "removed", "changed", "same"]


STEP = 1 << 18
"""Elements at a time: 2 MB as float64, which fits an L2 cache."""
_PIECE_BYTES = 1 << 22


class Side(Record):
    """A model that is compared with another.

    Attributes:
        metadata: Key -> value, with types.
        tensors: Name -> tensor.
        is_file: Whether it is a GGUF file; else its names are those that conversion would give.
    """

    name: str
    metadata: Metadata
    tensors: Mapping[str, SideTensor]
    is_file: bool = True


class FileTensor:
    """A tensor of a GGUF file."""

    def __init__(self, file: GgufFile, tensor: Tensor) -> None:
        self._file, self._tensor = file, tensor
        self.name, self.shape, self.n_bytes = tensor.name, tensor.shape, tensor.n_bytes
        self.type = tensor.type.name

    def data_as(self, kind: str) -> Iterator[Buffer] | None:
        """Give its data in the type that it has."""
        if kind != self.type:
            return None
        return pieces(self._file.tensor_data(self._tensor), _PIECE_BYTES)

    def values(self) -> Iterator[Any] | None:
        """Give its elements as float64; None where the type cannot be dequantized."""
        kind, order = self._tensor.type, self._file.byte_order
        if dequantize_values(bytes(kind.block_bytes), kind, order) is None:
            return None
        step = max(STEP // kind.block, 1) * kind.block_bytes
        data = self._file.tensor_data(self._tensor)
        return (dequantize_values(piece, kind, order) for piece in pieces(data, step))


def side_of(file: GgufFile) -> Side:
    """Return a GGUF file as a side."""
    tensors = {name: FileTensor(file, one) for name, one in file.names.items()}
    return Side(file.name, file.metadata, tensors)


class TensorErrors(Record):
    """How far two tensors are apart as numbers; the first is the one that is measured against.

    Attributes:
        cosine: Of the angle between them; 1.0 for equal directions.
        worst_row: Row with the largest error, counted from 0; -1: there is no error.
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
        return quotient(self.rmse, self.deviation)

    @property
    def worst_relative(self) -> float:
        """The same of the worst row."""
        return quotient(self.worst_rmse, self.deviation)


def quotient(part: float, whole: float) -> float:
    """Return a quotient; of two zeros 0."""
    return part / whole if whole else inf * part if part else 0.0


def measure_errors(one: SideTensor, other: SideTensor) -> TensorErrors | None:
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
    return TensorErrors(largest, rmse, cosine, sqrt(variance), at, worst_rmse, count)


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


ARCHITECTURE, ALIGNMENT = "general.architecture", "general.alignment"
NAMING = ("general.", "quantize.")
"""Keys that begin like this say what a model is called and how it was made."""
FOREIGN = 0.9
"""Weights whose error is this share of their deviation have nothing in common with the others;
types of two bits stay below a half."""
TEMPLATE = "tokenizer.chat_template"
_FIRST = 3
"""Elements of two arrays that are told apart one by one."""


class KeyChange(Record):
    """A key that is not the same.

    Attributes:
        types: Its type before and after, as shown; empty where it is not.
        values: Before and after; None where it is not.
        elements: Of two arrays of one type: (place, before, after) of the first that differ.
        different: How many elements differ, those that one array has more included.
    """

    key: str
    change: Change
    types: tuple[str, str]
    values: tuple[Any, Any]
    elements: tuple[tuple[int, Any, Any], ...] = ()
    different: int = 0


class TensorChange(Record):
    """A tensor that is not the same.

    Attributes:
        change: In which file it is; "same": conversion gives it, and only its type differs.
        errors: Where values were asked for and the shapes are equal.
    """

    name: str
    change: Change
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    types: tuple[str, str]
    errors: TensorErrors | None = None


class Totals(Record):
    """All tensors of both sides, as far as they could be measured.

    Attributes:
        n_bytes: Of all tensors of each side.
    """

    elements: int
    rmse: float
    relative: float
    n_bytes: tuple[int, int]


class Difference(Record):
    """Differences between two models, A and B.

    Attributes:
        keys: Changed keys, in A's order, then those that only B has.
        tensors: Changed tensors, in the same order.
        n_tensors: Number of tensors in A.
        same_names: Whether both have tensors of the same names and shapes.
        naming: If one side is a folder: changed keys that only describe the model, such as
            general.name; otherwise, they are in ``keys``.
        measured: Tensors of equal shape with their errors, if ``values`` was set; identical ones
            are left out.
        sums: Errors of all tensors; None if ``values`` was not set.
        is_made: Whether one side is a folder and the other is the GGUF that it converts to,
            except for ``naming``.
    """

    keys: tuple[KeyChange, ...]
    tensors: tuple[TensorChange, ...]
    n_tensors: int
    same_names: bool
    naming: tuple[KeyChange, ...] = ()
    measured: tuple[TensorChange, ...] = ()
    sums: Totals | None = None
    is_made: bool = False

    def __repr__(self) -> str:
        keys, tensors = (
            format_count(len(self.keys), "key"),
            f"{len(self.tensors)} of {self.n_tensors}",
        )
        return f"<Difference: {keys} and {tensors} tensors differ>"

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.keys and not self.tensors

    @property
    def only_metadata(self) -> bool:
        """Whether all tensors are the same, bytes included, but keys differ."""
        return bool(self.keys) and not self.tensors and self.n_tensors > 0

    @property
    def is_quantization(self) -> bool:
        """Whether one can be a quantization of the other: only types of tensors differ."""
        return (
            self.same_names
            and bool(self.tensors)
            and all(one.types[0] != one.types[1] for one in self.tensors)
        )

    @property
    def foreign(self) -> tuple[TensorChange, ...]:
        """Measured tensors too different to come from the other model."""
        return tuple(
            one for one in self.measured if one.errors and not one.errors.relative < FOREIGN
        )


def find_difference(
    one: Side | GgufFile,
    other: Side | GgufFile,
    *,
    values: bool = False,
    done: Callable[[int], object] = lambda _: None,
) -> Difference:
    """Compare two models.

    Args:
        done: Called with the number of elements of each tensor compared.
    """
    a, b = (side if isinstance(side, Side) else side_of(side) for side in (one, other))
    keys = (*a.metadata, *(key for key in b.metadata if key not in a.metadata))
    changed = list(filter(None, (_key_change(a, b, key) for key in keys)))
    naming: list[KeyChange] = []
    if not (a.is_file and b.is_file):
        naming = [one for one in changed if _only_names(one.key)]
        changed = [one for one in changed if not _only_names(one.key)]
    found: list[TensorChange] = []
    measured: list[TensorChange] = []
    names = (*a.tensors, *(name for name in b.tensors if name not in a.tensors))
    for name in names:
        left, right = a.tensors.get(name), b.tensors.get(name)
        change = _tensor_change(name, left, right, values=values)
        if change is not None and change.change != "same":
            found.append(change)
        if change is not None and change.errors is not None:
            measured.append(change)
        there = left or right
        done(_element_count(there) if there else 0)
    shapes = [{name: one.shape for name, one in side.tensors.items()} for side in (a, b)]
    return Difference(
        tuple(changed),
        tuple(found),
        len(a.tensors),
        shapes[0] == shapes[1],
        tuple(naming),
        tuple(measured),
        _sums(a, b, measured, found) if values else None,
        is_made=a.is_file != b.is_file and not changed and not found,
    )


def _only_names(key: str) -> bool:
    return key.startswith(NAMING) and key not in (ARCHITECTURE, ALIGNMENT)


def _element_count(tensor: SideTensor) -> int:
    from math import prod

    return prod(tensor.shape)


def _sums(
    a: Side, b: Side, measured: Iterable[TensorChange], changed: Iterable[TensorChange]
) -> Totals:
    """Sum up errors; a tensor that is the same counts with none."""
    unknown = {one.name for one in changed if one.errors is None}
    elements = sum(_element_count(one) for name, one in a.tensors.items() if name not in unknown)
    errors = [one.errors for one in measured if one.errors]
    squares = sum(one.rmse**2 * one.count for one in errors)
    shares = sum(one.relative**2 * one.count for one in errors)
    sizes = [sum(one.n_bytes for one in side.tensors.values()) for side in (a, b)]
    return Totals(
        elements,
        quotient(squares, elements) ** 0.5,
        quotient(shares, elements) ** 0.5,
        (sizes[0], sizes[1]),
    )


def _key_change(a: Side, b: Side, key: str) -> KeyChange | None:
    there, here = (key in file.metadata for file in (a, b))
    types = tuple(file.metadata.type_name(key) if key in file.metadata else "" for file in (a, b))
    before, after = a.metadata.get(key), b.metadata.get(key)
    kinds, both = (types[0], types[1]), (before, after)
    if not (there and here):
        return KeyChange(key, "removed" if there else "added", kinds, both)
    if types[0] == types[1] and isinstance(before, GgufArray) and isinstance(after, GgufArray):
        return _array_change(key, kinds, before, after)
    same = types[0] == types[1] and repr(before) == repr(after)  # NaN is NaN, -0.0 not 0.0
    return None if same else KeyChange(key, "changed", kinds, both)


def _array_change(
    key: str, types: tuple[str, str], before: GgufArray, after: GgufArray
) -> KeyChange | None:
    if len(before) == len(after) and _bytes_of(before) == _bytes_of(after):
        return None
    first: list[tuple[int, Any, Any]] = []
    different = abs(len(before) - len(after))
    for place, (one, other) in enumerate(zip(_elements(before), _elements(after), strict=False)):
        if one != other:
            different += 1
            if len(first) < _FIRST:
                first.append((place, one, other))
    if not different:
        return None
    return KeyChange(key, "changed", types, (before, after), tuple(first), different)


def _bytes_of(values: GgufArray) -> bytes | None:
    """Return an array's bytes as the file has them; None of nested ones, which are walked."""
    if values.element.name == "array":
        return None
    return values.raw_bytes()


def _elements(values: GgufArray) -> Iterator[Any]:
    if values.element.name == "array":
        return (list(_elements(child)) for child in values.children())
    return iter(values)


def _tensor_change(
    name: str, one: SideTensor | None, other: SideTensor | None, *, values: bool
) -> TensorChange | None:
    if one is None or other is None:
        there = one or other
        assert there is not None
        shapes = (there.shape, ()) if one else ((), there.shape)
        types = (there.type, "") if one else ("", there.type)
        return TensorChange(name, "removed" if one else "added", shapes, types)
    is_same = one.shape == other.shape and _same_data(one, other)
    if is_same and (one.type == other.type or not values):
        return None
    errors = measure_errors(one, other) if values and one.shape == other.shape else None
    change: Change = "same" if is_same else "changed"
    return TensorChange(name, change, (one.shape, other.shape), (one.type, other.type), errors)


def _same_data(one: SideTensor, other: SideTensor) -> bool:
    """Tell whether both have the same bytes in the type of one of them."""
    for kind in dict.fromkeys((other.type, one.type)):
        left, right = one.data_as(kind), other.data_as(kind)
        if left is not None and right is not None:
            return same_bytes(left, right)
    return False


def same_bytes(left: Iterable[Buffer], right: Iterable[Buffer]) -> bool:
    """Compare bytes that come in pieces of any size."""
    mine, theirs = iter(left), iter(right)
    a = b = memoryview(b"")
    while True:
        if not a:
            a = next((memoryview(piece).cast("B") for piece in mine if len(piece)), a)
        if not b:
            b = next((memoryview(piece).cast("B") for piece in theirs if len(piece)), b)
        size = min(len(a), len(b), _PIECE_BYTES)
        if not size:
            return len(a) == len(b)
        if bytes(a[:size]) != bytes(b[:size]):
            return False
        a, b = a[size:], b[size:]


def difference_verdict(done: Difference) -> str:
    """Return in a few words what the two models are to each other."""
    if done.is_made:
        return "the file is what conversion of the folder gives"
    if done.equal:
        return "no difference"
    if done.only_metadata:
        return "only the metadata differs; all tensors are the same"
    if done.foreign:
        many = f"{len(done.foreign)} of {len(done.measured)}"
        return f"{many} tensors are not made of the other's weights"
    if done.same_names and done.sums is not None and len(done.measured) >= len(done.tensors):
        return f"the same weights, less exact by {format_percent(done.sums.relative)}"
    if done.is_quantization:
        return "the same tensors in other types: one can be a quantization of the other"
    if not done.tensors:
        return "the metadata differs"
    return "tensors differ"


def format_percent(part: float) -> str:
    """Return a share with two digits that count: 12%, 1.2%, 0.012%."""
    from math import isfinite

    return f"{float(f'{part * 100:.2g}'):g}%" if isfinite(part) else "–"


def key_texts(change: KeyChange) -> tuple[str, str]:
    """Return the value before and after: of arrays only what differs, of types both."""
    if change.elements:
        pairs = [
            (f"[{place}] {format_whole(before)}", f"[{place}] {format_whole(after)}")
            for place, before, after in change.elements
        ]
        more = f" … {change.different} differ" if change.different > len(pairs) else ""
        return tuple(", ".join(texts) + more for texts in zip(*pairs, strict=True))  # type: ignore[return-value]
    sizes = [value for value in change.values if hasattr(value, "element")]
    if change.different and len(sizes) == 2:
        return f"{len(sizes[0])} elements", f"{len(sizes[1])} elements"
    shown = [
        format_short(value, kind) if kind else ""
        for value, kind in zip(change.values, change.types, strict=True)
    ]
    if all(change.types) and change.types[0] != change.types[1]:
        shown = [f"{kind}: {text}" for kind, text in zip(change.types, shown, strict=True)]
    return shown[0], shown[1]


def tensor_texts(change: TensorChange) -> tuple[str, str]:
    """Return type and shape before and after."""
    return tuple(  # type: ignore[return-value]
        f"{kind} {' × '.join(map(str, shape))}".strip() if kind else ""
        for kind, shape in zip(change.types, change.shapes, strict=True)
    )


def difference_document(done: Difference) -> dict[str, object]:
    """Return a difference as a JSON document, schema ``mtkit.diff/1``."""
    keys, naming = (
        [
            {"key": printable(key.key), "change": key.change, "types": list(key.types),
             "before": key_texts(key)[0], "after": key_texts(key)[1], "different": key.different}
            for key in found
        ]
        for found in (done.keys, done.naming)
    )  # fmt: skip
    tensors, converted = (
        [
            {"name": printable(one.name), "change": one.change,
             "shapes": [list(shape) for shape in one.shapes], "types": list(one.types),
             "errors": one.errors and _errors_document(one.errors)}
            for one in found
        ]
        for found in (done.tensors, [one for one in done.measured if one.change == "same"])
    )  # fmt: skip
    return {
        "schema": "mtkit.diff/1",
        "equal": done.equal,
        "only_metadata": done.only_metadata,
        "is_quantization": done.is_quantization,
        "is_conversion": done.is_made,
        "metadata": keys,
        "naming": naming,
        "tensors": tensors,
        "converted": converted,
        "sums": done.sums
        and {
            "elements": done.sums.elements,
            "bytes": list(done.sums.n_bytes),
            "rmse": json_number(done.sums.rmse),
            "relative": json_number(done.sums.relative),
            "foreign": len(done.foreign),
        },
    }


def _errors_document(found: TensorErrors) -> dict[str, object]:
    numbers = {
        "largest": found.largest, "rmse": found.rmse, "cosine": found.cosine,
        "deviation": found.deviation, "relative": found.relative,
        "worst_row": found.worst_row, "worst_relative": found.worst_relative,
    }  # fmt: skip
    return {name: json_number(number) for name, number in numbers.items()}
