"""What differs between two GGUF files: metadata, tensors, chat template; nothing here prints.

Values of tensors are compared byte for byte, on request also as numbers after dequantisation by
ggml's own package.
"""

from __future__ import annotations

from mtkit.base.binary import pieces
from mtkit.base.record import Record
from mtkit.gguf.arrays import GgufArray
from mtkit.inspection.statistics import numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, Literal

    from mtkit.gguf.file import GgufFile, Tensor

    Change = Literal["added", "removed", "changed"]

TEMPLATE = "tokenizer.chat_template"
_FIRST = 3
"""Elements of two arrays that are told apart one by one."""
_PIECE_BYTES = 1 << 22


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


class Errors(Record):
    """How far two tensors are apart as numbers.

    Attributes:
        largest: The largest absolute difference.
        rmse: Root of the mean squared difference.
        cosine: Of the angle between them; 1.0 for equal directions.
    """

    largest: float
    rmse: float
    cosine: float


class TensorChange(Record):
    """A tensor that is not the same.

    Attributes:
        name: Its name.
        change: In which file it is.
        shapes: Before and after.
        types: Names of the types before and after.
        errors: Where values were asked for and the shapes are equal.
    """

    name: str
    change: Change
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    types: tuple[str, str]
    errors: Errors | None = None


class Difference(Record):
    """What differs between file A and file B.

    Attributes:
        keys: In the order of A, then what only B has.
        tensors: Likewise.
        n_tensors: Tensors of A.
        same_names: Whether both have tensors of the same names and shapes.
    """

    keys: tuple[KeyChange, ...]
    tensors: tuple[TensorChange, ...]
    n_tensors: int
    same_names: bool

    @property
    def equal(self) -> bool:
        """Whether nothing differs."""
        return not self.keys and not self.tensors

    @property
    def only_metadata(self) -> bool:
        """Whether all tensors are the same, bytes included, and keys are not."""
        return bool(self.keys) and not self.tensors and self.n_tensors > 0

    @property
    def is_quantisation(self) -> bool:
        """Whether one can be a quantisation of the other: only types of tensors differ."""
        return (
            self.same_names
            and bool(self.tensors)
            and all(one.types[0] != one.types[1] for one in self.tensors)
        )


def difference(a: GgufFile, b: GgufFile, *, values: bool = False) -> Difference:
    """Compare two files.

    Args:
        a: The one before.
        b: The one after.
        values: Dequantise tensors that differ and measure how far they are apart.
    """
    keys = (*a.metadata, *(key for key in b.metadata if key not in a.metadata))
    changed = (_key(a, b, key) for key in keys)
    names = (*a.names, *(name for name in b.names if name not in a.names))
    tensors = (_tensor(a, b, name, values=values) for name in names)
    shapes = [{name: one.shape for name, one in file.names.items()} for file in (a, b)]
    return Difference(
        tuple(filter(None, changed)),
        tuple(filter(None, tensors)),
        len(a.tensors),
        shapes[0] == shapes[1],
    )


def _key(a: GgufFile, b: GgufFile, key: str) -> KeyChange | None:
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


def _tensor(a: GgufFile, b: GgufFile, name: str, *, values: bool) -> TensorChange | None:
    one, other = a.names.get(name), b.names.get(name)
    if one is None or other is None:
        there = one or other
        assert there is not None
        shapes = (there.shape, ()) if one else ((), there.shape)
        types = (there.type.name, "") if one else ("", there.type.name)
        return TensorChange(name, "removed" if one else "added", shapes, types)
    if one.shape == other.shape and one.type == other.type and _same_data(a, one, b, other):
        return None
    errors = _errors(a, one, b, other) if values and one.shape == other.shape else None
    types = one.type.name, other.type.name
    return TensorChange(name, "changed", (one.shape, other.shape), types, errors)


def _same_data(a: GgufFile, one: Tensor, b: GgufFile, other: Tensor) -> bool:
    left, right = a.tensor_data(one), b.tensor_data(other)
    both = zip(pieces(left, _PIECE_BYTES), pieces(right, _PIECE_BYTES), strict=True)
    return len(left) == len(right) and all(bytes(one) == bytes(other) for one, other in both)


def _errors(a: GgufFile, one: Tensor, b: GgufFile, other: Tensor) -> Errors | None:
    """Return how far two tensors are apart; None where a type cannot be dequantised."""
    import numpy as np

    left, right = (
        numbers(file.tensor_data(tensor), tensor.type, file.byte_order)
        for file, tensor in ((a, one), (b, other))
    )
    if left is None or right is None or left.shape != right.shape or not left.size:
        return None
    with np.errstate(all="ignore"):
        apart = left - right
        sizes = float(np.sqrt(np.dot(left, left) * np.dot(right, right)))
        cosine = float(np.dot(left, right)) / sizes if sizes else float(not apart.any())
        return Errors(float(np.abs(apart).max()), float(np.sqrt(np.mean(apart * apart))), cosine)
