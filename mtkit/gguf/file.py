"""A GGUF file as read: header, metadata, tensor table.

Names and strings are ``str``; bytes that are not valid UTF-8 are surrogate escapes in it, so
``text.encode("utf-8", "surrogateescape")`` gives back what the file holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mtkit.gguf.types import TensorType, ValueType


class Entry(Record):
    """One key of the metadata.

    Attributes:
        key: Its name.
        type: Type of the value.
        value: int, float, bool, str or ``GgufArray``.
        offset: Of the entry, in bytes from the start of the file.
    """

    key: str
    type: ValueType
    value: Any
    offset: int


class Tensor(Record):
    """One row of the tensor table.

    Attributes:
        name: Its name.
        shape: Elements along each axis, fastest axis first (numpy has them the other way round).
        type: Type of the elements.
        offset: Of the data, in bytes from ``GgufFile.data_offset``.
        n_elements: Product of the shape.
        n_bytes: Size of the data.
    """

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    n_elements: int
    n_bytes: int


class Finding(Record):
    """Something against the letter of the format that readers accept all the same."""

    field: str
    what: str
    offset: int

    def __str__(self) -> str:
        return f"{self.field} at offset {self.offset}: {self.what}"


class Metadata(Mapping[str, "Any"]):
    """Key -> value in file order; ``entries`` has the types and offsets as well."""

    def __init__(self, entries: Mapping[str, Entry]) -> None:
        self.entries = entries

    def __getitem__(self, key: str) -> Any:
        return self.entries[key].value

    def __iter__(self) -> Iterator[str]:
        return iter(self.entries)

    def __len__(self) -> int:
        return len(self.entries)

    def __repr__(self) -> str:
        return f"Metadata({len(self)} keys)"

    def type_name(self, key: str) -> str:
        """Return the type of a value as shown: ``u32``, ``string``, ``f32[]``.

        Raises:
            KeyError: There is no such key.
        """
        entry = self.entries[key]
        return f"{entry.value.element.name}[]" if entry.type.name == "array" else entry.type.name


class GgufFile:
    """A GGUF file; the mapping stays open as long as the object lives.

    Attributes:
        name: Path, or "-" for standard input.
        data: The whole file.
        version: 1, 2 or 3.
        byte_order: "little" or "big".
        alignment: Of the data section and of every tensor in it.
        data_offset: Where the data section begins, in bytes from the start of the file; in a file
            without tensors it may lie behind its end.
        metadata: Key -> value.
        tensors: In file order.
        trailing_bytes: Bytes behind the last tensor and its padding.
        warnings: What is against the letter of the format.
    """

    def __init__(
        self,
        *,
        name: str,
        data: memoryview,
        version: int,
        byte_order: str,
        alignment: int,
        data_offset: int,
        metadata: Metadata,
        tensors: tuple[Tensor, ...],
        trailing_bytes: int,
        warnings: tuple[Finding, ...],
    ) -> None:
        self.name = name
        self.data = data
        self.version = version
        self.byte_order = byte_order
        self.alignment = alignment
        self.data_offset = data_offset
        self.metadata = metadata
        self.tensors = tensors
        self.trailing_bytes = trailing_bytes
        self.warnings = warnings

    def tensor_data(self, tensor: Tensor) -> memoryview:
        """Return the bytes of a tensor, in the file's byte order, without copying."""
        start = self.data_offset + tensor.offset
        return self.data[start : start + tensor.n_bytes]

    def __repr__(self) -> str:
        return (
            f"GgufFile({self.name!r}, version {self.version}, {len(self.metadata)} keys, "
            f"{len(self.tensors)} tensors)"
        )
