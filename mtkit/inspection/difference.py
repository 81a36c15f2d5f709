"""What differs between two models: metadata, tensors, chat template; nothing here prints.

Values of tensors are compared byte for byte, on request also as numbers after dequantization by
ggml's own package. Where one side is no GGUF file, a tensor of it is the same as the other's if
conversion would give the other's bytes.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import counted
from mtkit.gguf.arrays import GgufArray
from mtkit.inspection.errors_of import Errors, errors_of, share
from mtkit.inspection.sides import Side, side_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Literal

    from mtkit.base.binary import Buffer
    from mtkit.gguf.file import GgufFile
    from mtkit.inspection.sides import SideTensor

    Change = Literal["added", "removed", "changed", "same"]

ARCHITECTURE, ALIGNMENT = "general.architecture", "general.alignment"
NAMING = ("general.", "quantize.")
"""Keys that begin like this say what a model is called and how it was made."""
FOREIGN = 0.9
"""Weights whose error is this share of their deviation have nothing in common with the others;
types of two bits stay below a half."""
TEMPLATE = "tokenizer.chat_template"
_PIECE_BYTES = 1 << 22
_FIRST = 3
"""Elements of two arrays that are told apart one by one."""


class KeyChange(Record):
    """A key that is not the same.

    Attributes:
        key: Its name.
        change: In which file it is.
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
        name: Its name.
        change: In which file it is; "same": conversion gives it, and only its type differs.
        shapes: Before and after.
        types: Names of the types before and after.
        errors: Where values were asked for and the shapes are equal.
    """

    name: str
    change: Change
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    types: tuple[str, str]
    errors: Errors | None = None


class Totals(Record):
    """All tensors of both sides, as far as they could be measured.

    Attributes:
        elements: Of those that were measured.
        rmse: Root of the mean squared difference.
        relative: The same, as a share of the deviation of each tensor.
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
        keys, tensors = counted(len(self.keys), "key"), f"{len(self.tensors)} of {self.n_tensors}"
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


def difference(
    one: Side | GgufFile,
    other: Side | GgufFile,
    *,
    values: bool = False,
    done: Callable[[int], object] = lambda _: None,
) -> Difference:
    """Compare two models.

    Args:
        one: The model before.
        other: The model after.
        values: Dequantize the tensors and measure their errors.
        done: Called with the number of elements of each tensor compared.
    """
    a, b = (side if isinstance(side, Side) else side_of(side) for side in (one, other))
    keys = (*a.metadata, *(key for key in b.metadata if key not in a.metadata))
    changed = list(filter(None, (_key(a, b, key) for key in keys)))
    naming: list[KeyChange] = []
    if not (a.is_file and b.is_file):
        naming = [one for one in changed if _only_names(one.key)]
        changed = [one for one in changed if not _only_names(one.key)]
    found: list[TensorChange] = []
    measured: list[TensorChange] = []
    names = (*a.tensors, *(name for name in b.tensors if name not in a.tensors))
    for name in names:
        left, right = a.tensors.get(name), b.tensors.get(name)
        change = _tensor(name, left, right, values=values)
        if change is not None and change.change != "same":
            found.append(change)
        if change is not None and change.errors is not None:
            measured.append(change)
        there = left or right
        done(_count(there) if there else 0)
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


def _count(tensor: SideTensor) -> int:
    from math import prod

    return prod(tensor.shape)


def _sums(
    a: Side, b: Side, measured: Iterable[TensorChange], changed: Iterable[TensorChange]
) -> Totals:
    """Sum up errors; a tensor that is the same counts with none."""
    unknown = {one.name for one in changed if one.errors is None}
    elements = sum(_count(one) for name, one in a.tensors.items() if name not in unknown)
    errors = [one.errors for one in measured if one.errors]
    squares = sum(one.rmse**2 * one.count for one in errors)
    shares = sum(one.relative**2 * one.count for one in errors)
    sizes = [sum(one.n_bytes for one in side.tensors.values()) for side in (a, b)]
    return Totals(
        elements,
        share(squares, elements) ** 0.5,
        share(shares, elements) ** 0.5,
        (sizes[0], sizes[1]),
    )


def _key(a: Side, b: Side, key: str) -> KeyChange | None:
    there, here = (key in file.metadata for file in (a, b))
    types = tuple(file.metadata.type_name(key) if key in file.metadata else "" for file in (a, b))
    before, after = a.metadata.get(key), b.metadata.get(key)
    kinds, both = (types[0], types[1]), (before, after)
    if not (there and here):
        return KeyChange(key, "removed" if there else "added", kinds, both)
    if types[0] == types[1] and isinstance(before, GgufArray) and isinstance(after, GgufArray):
        return _array(key, kinds, before, after)
    same = types[0] == types[1] and repr(before) == repr(after)  # NaN is NaN, -0.0 not 0.0
    return None if same else KeyChange(key, "changed", kinds, both)


def _array(
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


def _tensor(
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
    errors = errors_of(one, other) if values and one.shape == other.shape else None
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
