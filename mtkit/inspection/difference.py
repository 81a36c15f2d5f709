"""What differs between two models: metadata, tensors, chat template; nothing here prints.

A side is a GGUF file, or something else seen as one (``conversion.folder_report.folder_side``):
metadata, and tensors whose data comes piece by piece, so that memory does not grow with them.
Values of tensors are compared byte for byte, on request also as numbers after dequantization by
ggml's own package: errors, and the row where they are largest. Where one side is no GGUF file, a
tensor of it is the same as the other's if conversion would give the other's bytes. A difference is
given in words, and as a JSON document.
"""

from __future__ import annotations

from math import inf, isfinite, sqrt

from mtkit.base.escape import printable
from mtkit.base.record import Record
from mtkit.errors import format_count
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.byte_order import little_pieces
from mtkit.gguf.types import TENSOR_TYPES
from mtkit.gguf.value_counts import NONE, Specials, count_specials
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
        """Give its data in the type that it has, little-endian."""
        return None if kind != self.type else self._pieces(_PIECE_BYTES)

    def _pieces(self, size: int) -> Iterator[Buffer]:
        return little_pieces(self._file, self._tensor, size)

    def values(self) -> Iterator[Any] | None:
        """Give its elements as float64; None where the type cannot be dequantized."""
        kind = self._tensor.type
        if dequantize_values(bytes(kind.block_bytes), kind) is None:
            return None
        step = max(STEP // kind.block, 1) * kind.block_bytes
        return (dequantize_values(piece, kind) for piece in self._pieces(step))


def side_of(file: GgufFile) -> Side:
    """Return a GGUF file as a side."""
    tensors = {name: FileTensor(file, tensor) for name, tensor in file.names.items()}
    return Side(file.name, file.metadata, tensors)


class TensorErrors(Record):
    """How far two tensors are apart as numbers; the first is the one that is measured against.

    Attributes:
        cosine: Cosine of the angle between them; 1.0 for equal directions.
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
        """The same for the worst row."""
        return quotient(self.worst_rmse, self.deviation)


def quotient(part: float, whole: float) -> float:
    """Return a quotient; of two zeros 0."""
    return part / whole if whole else inf * part if part else 0.0


def measure_errors(tensor: SideTensor, other: SideTensor) -> TensorErrors | None:
    """Measure two tensors of equal shape; None where a type cannot be dequantized."""
    import numpy as np

    left, right = tensor.values(), other.values()
    row = tensor.shape[0] if tensor.shape else 1
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

    parts: list[Any] = []
    room = STEP
    for array in arrays:
        at = 0
        while at < len(array):
            part = array[at : at + room]
            parts.append(part)
            at, room = at + len(part), room - len(part)
            if not room:
                yield np.concatenate(parts, dtype=np.float64)
                parts, room = [], STEP
    if parts:
        yield np.concatenate(parts, dtype=np.float64)


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
        specials: For each side how many values (or scales) are NaN or infinite, where any is.
    """

    name: str
    change: Change
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    types: tuple[str, str]
    errors: TensorErrors | None = None
    specials: tuple[Specials, Specials] | None = None


class Totals(Record):
    """All tensors of both sides, as far as they could be measured.

    Attributes:
        n_bytes: Bytes of all tensors, for each side.
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
        special: Tensors with NaN or infinities, if ``values`` was set, also where both sides have
            them.
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
    special: tuple[TensorChange, ...] = ()

    def __repr__(self) -> str:
        keys, tensors = (
            format_count(len(self.keys), "key"),
            f"{len(self.tensors)} of {self.n_tensors}",
        )
        return f"<Difference: {keys} and {tensors} tensors differ>"

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import bar, figure, heading, note, table

        errors = {change.name: change.errors for change in self.measured if change.errors}
        shares = {name: error.relative for name, error in errors.items()}
        keys = ((change.key, *change.values) for change in self.keys)
        parts: list[object] = [heading(repr(self)[1:-1])]
        parts += [table(("key", "A", "B"), keys)] if self.keys else []
        if shares:  # the worst first
            tensors = sorted(self.tensors, key=lambda change: -shares.get(change.name, 2.0))
            bars = {name: bar(share, format_percent(share)) for name, share in shares.items()}
            rows = ((t.name, *t.types, bars.get(t.name, "not measured")) for t in tensors)
            parts.append(table(("tensor", "type of A", "of B", "relative RMSE"), rows))
        elif self.tensors:
            head = ("tensor", "type of A", "of B", "shape of A", "of B")
            parts.append(table(head, ((t.name, *t.types, *t.shapes) for t in self.tensors)))
        for change in self.special:
            parts.append(note(f"{change.name}: NaN or infinite values"))
        return figure(*parts)

    @property
    def equal(self) -> bool:
        """Whether nothing differs, and all values that were looked at are numbers."""
        return not self.keys and not self.tensors and not self.special

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
            and all(change.types[0] != change.types[1] for change in self.tensors)
        )

    @property
    def foreign(self) -> tuple[TensorChange, ...]:
        """Measured tensors too different to come from the other model."""
        return tuple(
            change
            for change in self.measured
            if change.errors and not change.specials and not change.errors.relative < FOREIGN
        )


def find_difference(
    left: Side | GgufFile,
    right: Side | GgufFile,
    *,
    values: bool = False,
    progress: Callable[[int], object] = lambda _: None,
) -> Difference:
    """Compare two models."""
    a, b = (side if isinstance(side, Side) else side_of(side) for side in (left, right))
    keys = (*a.metadata, *(key for key in b.metadata if key not in a.metadata))
    changed = list(filter(None, (_key_change(a, b, key) for key in keys)))
    naming: list[KeyChange] = []
    if not (a.is_file and b.is_file):
        naming = [change for change in changed if _only_names(change.key)]
        changed = [change for change in changed if not _only_names(change.key)]
    tensors: list[TensorChange] = []
    measured: list[TensorChange] = []
    special: list[TensorChange] = []
    names = (*a.tensors, *(name for name in b.tensors if name not in a.tensors))
    for name in names:
        before, after = a.tensors.get(name), b.tensors.get(name)
        change = _tensor_change(name, before, after, values=values)
        if change is not None and change.change != "same":
            tensors.append(change)
        if change is not None and change.errors is not None:
            measured.append(change)
        if change is not None and change.specials is not None:
            special.append(change)
        there = before or after
        progress(_element_count(there) if there else 0)
    shapes = [{name: tensor.shape for name, tensor in side.tensors.items()} for side in (a, b)]
    return Difference(
        tuple(changed),
        tuple(tensors),
        len(a.tensors),
        shapes[0] == shapes[1],
        tuple(naming),
        tuple(measured),
        _sums(a, b, measured, tensors) if values else None,
        is_made=a.is_file != b.is_file and not changed and not tensors and not special,
        special=tuple(special),
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
    unknown = {change.name for change in changed if change.errors is None}
    unknown |= {change.name for change in measured if change.specials}
    elements = sum(
        _element_count(tensor) for name, tensor in a.tensors.items() if name not in unknown
    )
    errors = [change.errors for change in measured if change.errors and not change.specials]
    squares = sum(error.rmse**2 * error.count for error in errors)
    shares = sum(error.relative**2 * error.count for error in errors)
    sizes = [sum(tensor.n_bytes for tensor in side.tensors.values()) for side in (a, b)]
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
    pairs = zip(_elements(before), _elements(after), strict=False)
    for place, pair in enumerate(pairs):
        if pair[0] != pair[1]:
            different += 1
            if len(first) < _FIRST:
                first.append((place, *pair))
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
    name: str, left: SideTensor | None, right: SideTensor | None, *, values: bool
) -> TensorChange | None:
    if left is None or right is None:
        there = left or right
        assert there is not None
        shapes = (there.shape, ()) if left else ((), there.shape)
        types = (there.type, "") if left else ("", there.type)
        return TensorChange(name, "removed" if left else "added", shapes, types)
    is_same = left.shape == right.shape and _same_data(left, right)
    if is_same and not values:
        return None
    errors, specials = None, None
    if is_same and left.type == right.type:
        specials = _stored_specials(right)
        if specials is None:
            return None
    elif values and left.shape == right.shape:
        errors = measure_errors(left, right)
        if errors is not None and not isfinite(errors.rmse):
            specials = _value_specials(left), _value_specials(right)
            specials = specials if specials != (NONE, NONE) else None
    change: Change = "same" if is_same else "changed"
    both = (left.shape, right.shape), (left.type, right.type)
    return TensorChange(name, change, *both, errors, specials)


def _stored_specials(tensor: SideTensor) -> tuple[Specials, Specials] | None:
    """Count NaN and infinities of a tensor that is the same on both sides; None without any."""
    import numpy as np

    block = next((t.block_bytes for t in TENSOR_TYPES.values() if t.name == tensor.type), 0)
    nan = infinite = 0
    for piece in (block and tensor.data_as(tensor.type)) or ():
        raw = np.frombuffer(piece, np.uint8)
        specials = count_specials(raw, tensor.type, block)
        nan, infinite = nan + specials.nan, infinite + specials.infinite
    specials = Specials(nan, infinite)
    return (specials, specials) if specials != NONE else None


def _value_specials(tensor: SideTensor) -> Specials:
    import numpy as np

    nan = infinite = 0
    for values in tensor.values() or ():
        nan += int(np.isnan(values).sum())
        infinite += int(np.isinf(values).sum())
    return Specials(nan, infinite)


def _same_data(first: SideTensor, second: SideTensor) -> bool:
    """Tell whether both have the same bytes in the type of one of them."""
    for kind in dict.fromkeys((second.type, first.type)):
        left, right = first.data_as(kind), second.data_as(kind)
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


def difference_verdict(difference: Difference) -> str:
    """Return in a few words what the two models are to each other."""
    if difference.special:
        many = format_count(len(difference.special), "tensor")
        verb = "has" if len(difference.special) == 1 else "have"
        return f"{many} {verb} values that are NaN or infinite"
    if difference.is_made:
        return "the file is what conversion of the folder gives"
    if difference.equal:
        return "no difference"
    if difference.only_metadata:
        return "only the metadata differs; all tensors are the same"
    if difference.foreign:
        many = f"{len(difference.foreign)} of {len(difference.measured)}"
        return f"{many} tensors are not made of the other's weights"
    if (
        difference.same_names
        and difference.sums is not None
        and len(difference.measured) >= len(difference.tensors)
    ):
        return f"the same weights, less exact by {format_percent(difference.sums.relative)}"
    if difference.is_quantization:
        return "the same tensors in other types: one can be a quantization of the other"
    if not difference.tensors:
        return "the metadata differs"
    return "tensors differ"


def format_percent(part: float) -> str:
    """Return a share with two digits that count: 12%, 1.2%, 0.012%."""
    return f"{float(f'{part * 100:.2g}'):g}%" if isfinite(part) else "–"


def key_texts(change: KeyChange) -> tuple[str, str]:
    """Return the value before and after: of arrays only what differs, of types both."""
    if change.elements:
        pairs = [
            (f"[{place}] {format_whole(before)}", f"[{place}] {format_whole(after)}")
            for place, before, after in change.elements
        ]
        more = f" … {change.different} differ" if change.different > len(pairs) else ""
        return tuple(", ".join(side) + more for side in zip(*pairs, strict=True))  # type: ignore[return-value]
    sizes = [value for value in change.values if hasattr(value, "element")]
    if change.different and len(sizes) == 2:
        return f"{len(sizes[0])} elements", f"{len(sizes[1])} elements"
    texts = [
        format_short(value, kind) if kind else ""
        for value, kind in zip(change.values, change.types, strict=True)
    ]
    if all(change.types) and change.types[0] != change.types[1]:
        texts = [f"{kind}: {text}" for kind, text in zip(change.types, texts, strict=True)]
    return texts[0], texts[1]


def special_texts(change: TensorChange) -> Iterator[str]:
    """Yield what is NaN or infinite in a tensor, for each side that has any."""
    if change.specials is None:
        return
    left, right = change.specials
    sides = (("both", left),) if left == right else (("A", left), ("B", right))
    for side, specials in sides:
        counts = (
            f"{specials.nan} not a number (NaN)" if specials.nan else "",
            f"{specials.infinite} infinite" if specials.infinite else "",
        )
        if any(counts):
            yield f"in {side}: {', '.join(filter(None, counts))}"


def tensor_texts(change: TensorChange) -> tuple[str, str]:
    """Return type and shape before and after."""
    return tuple(  # type: ignore[return-value]
        f"{kind} {' × '.join(map(str, shape))}".strip() if kind else ""
        for kind, shape in zip(change.types, change.shapes, strict=True)
    )


def difference_document(difference: Difference) -> dict[str, object]:
    """Return a difference as a JSON document, schema ``mtkit.diff/1``."""
    keys, naming = (
        [
            {"key": printable(key.key), "change": key.change, "types": list(key.types),
             "before": key_texts(key)[0], "after": key_texts(key)[1], "different": key.different}
            for key in changes
        ]
        for changes in (difference.keys, difference.naming)
    )  # fmt: skip
    tensors, converted = (
        [
            {"name": printable(change.name), "change": change.change,
             "shapes": [list(shape) for shape in change.shapes], "types": list(change.types),
             "errors": change.errors and _errors_document(change.errors)}
            for change in changes
        ]
        for changes in (
            difference.tensors,
            [change for change in difference.measured if change.change == "same"],
        )
    )  # fmt: skip
    return {
        "schema": "mtkit.diff/1",
        "equal": difference.equal,
        "only_metadata": difference.only_metadata,
        "is_quantization": difference.is_quantization,
        "is_conversion": difference.is_made,
        "metadata": keys,
        "naming": naming,
        "tensors": tensors,
        "converted": converted,
        "special": [
            {
                "name": printable(change.name),
                "nan": [side.nan for side in change.specials or ()],
                "infinite": [side.infinite for side in change.specials or ()],
            }
            for change in difference.special
        ],
        "sums": difference.sums
        and {
            "elements": difference.sums.elements,
            "bytes": list(difference.sums.n_bytes),
            "rmse": json_number(difference.sums.rmse),
            "relative": json_number(difference.sums.relative),
            "foreign": len(difference.foreign),
        },
    }


def _errors_document(errors: TensorErrors) -> dict[str, object]:
    numbers = {
        "largest": errors.largest, "rmse": errors.rmse, "cosine": errors.cosine,
        "deviation": errors.deviation, "relative": errors.relative,
        "worst_row": errors.worst_row, "worst_relative": errors.worst_relative,
    }  # fmt: skip
    return {name: json_number(number) for name, number in numbers.items()}
