"""A GGUF file as read: header, metadata, tensor table.

Names and strings are ``str``; bytes that are not valid UTF-8 are surrogate escapes in it, so
``text.encode("utf-8", "surrogateescape")`` gives back what the file holds.
"""

from __future__ import annotations

from collections.abc import Mapping

from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any, SupportsIndex, overload

    from mtkit.base.rules import Finding
    from mtkit.gguf.types import TensorType, ValueType

DEFAULT_ALIGNMENT = 32
_SHOWN = 3


class Header(Record):
    """What stands before the metadata.

    Attributes:
        tensor_count: As the file says.
        metadata_kv_count: As the file says.
        width: Bytes of a length or a count.
        end: Where the metadata begins, in bytes from the start of the file.
    """

    tensor_count: int
    metadata_kv_count: int
    width: int
    end: int

    def place(self, field: str) -> tuple[str, int]:
        """Return how messages name a field, and its offset."""
        counts = 1 if field == "metadata_kv_count" else 2
        return field, self.end - counts * self.width


class Entry(Record):
    """One key of the metadata.

    Attributes:
        key: Its name.
        type: Type of the value.
        value: int, float, bool, str or ``GgufArray``.
        offset: Of the entry, in bytes from the start of the file.
        value_offset: Of its value, after the type.
    """

    key: str
    type: ValueType
    value: Any
    offset: int
    value_offset: int

    def place(self, field: str) -> tuple[str, int]:
        """Return how messages name the entry, and the offset of a field."""
        offsets = {"key": self.offset, "type": self.value_offset - 4, "value": self.value_offset}
        return shown(self.key) or "key", offsets[field]


class Tensor(Record):
    """One row of the tensor table.

    Attributes:
        name: Its name.
        shape: Elements along each axis, fastest axis first (numpy has them the other way round).
        type: Type of the elements.
        offset: Of the data, in bytes from ``GgufFile.data_offset``.
        n_elements: Product of the shape.
        n_bytes: Size of the data.
        places: Offsets of the row, its shape and its type, in bytes from the start of the file.
    """

    name: str
    shape: tuple[int, ...]
    type: TensorType
    offset: int
    n_elements: int
    n_bytes: int
    places: tuple[int, int, int]

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"tensor {quoted(self.name)}"

    @property
    def block(self) -> int | None:
        """The number in ``blk.7.…``; None where the name has none, or one of ten digits or more."""
        parts = self.name.split(".", 2)
        digits = parts[1] if parts[0] == "blk" and len(parts) > 1 else ""
        # int() is slow for thousands of digits and refuses more.
        return int(digits) if digits.isascii() and digits.isdigit() and len(digits) < 10 else None

    def place(self, field: str) -> tuple[str, int]:
        """Return how messages name it, and the offset of a field, or of the row."""
        return self.label, self.places[{"shape": 1, "type": 2}.get(field, 0)]

    def __repr__(self) -> str:
        return f"<Tensor {self.name!r}: {self.type.name}, {self.shape}, {self.n_bytes} bytes>"


class Tensors(tuple[Tensor, ...]):
    """The rows of a tensor table, by number in file order, or by name."""

    __slots__ = ()

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, key: SupportsIndex | str, /) -> Tensor: ...
        @overload
        def __getitem__(self, key: slice, /) -> tuple[Tensor, ...]: ...
        def __getitem__(self, key: Any, /) -> Any: ...

    else:

        def __getitem__(self, key: Any, /) -> Any:
            return self._named(key) if isinstance(key, str) else super().__getitem__(key)

    def __contains__(self, key: object) -> bool:
        return any(key in (one, one.name) for one in self)

    def __repr__(self) -> str:
        shown = ", ".join(repr(one.name) for one in self[:_SHOWN])
        more = ", …" if len(self) > _SHOWN else ""
        return f"<Tensors: {len(self)} by number or name, {shown}{more}>"

    def _named(self, name: str) -> Tensor:
        for one in self:
            if one.name == name:
                return one
        from difflib import get_close_matches

        near = get_close_matches(name, [one.name for one in self], 1)
        raise KeyError(f"{name}; did you mean {near[0]}?" if near else name)


class Section(Record):
    """The data section, and the padding before it.

    Attributes:
        table_end: End of the tensor table, in bytes from the start of the file.
        start: Where the data begins.
        size: Bytes of the whole file.
        alignment: Of every tensor.
        shared: Offset of a row of the table -> earlier tensor that its data overlaps.
        padding: The bytes between table and data, as far as they are looked at.
        trailing_bytes: Bytes after the last tensor and its padding.
    """

    table_end: int
    start: int
    size: int
    alignment: int
    shared: Mapping[int, Tensor]
    padding: bytes
    trailing_bytes: int

    def place(self, field: str) -> tuple[str, int]:
        """Return how messages name a part, and its offset."""
        trailing = field == "trailing_bytes"
        offset = self.size - self.trailing_bytes if trailing else self.table_end
        return field.replace("_", " "), offset


class Metadata(Mapping[str, "Any"]):
    """Key -> value in file order; ``entries`` has the types and offsets as well."""

    def __init__(self, entries: dict[str, Entry]) -> None:
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
        version: 1, 2 or 3; 0 if the file is not a GGUF.
        byte_order: "little" or "big".
        alignment: Alignment of the data section and of its tensors.
        metadata_end: End of the last key, in bytes from the start of the file.
        data_offset: Start of the data section, in bytes from the start of the file; it can be past
            the end if there are no tensors.
        metadata: Key -> value; if a key occurs more than once, the first one counts.
        tensors: The tensors in file order; can be indexed by number or name.
        names: Name -> tensor; if a name occurs more than once, the first one counts.
        trailing_bytes: Bytes after the last tensor and its padding.
        findings: Broken rules: warnings, and also errors if reading was not strict.
        is_whole: Whether header, metadata and tensor table could be read completely; if
            not, nothing after the first unreadable place was checked.
    """

    def __init__(self, name: str, data: memoryview) -> None:
        self.name = name
        self.data = data
        self.version = 0
        self.byte_order = "little"
        self.alignment = DEFAULT_ALIGNMENT
        self.metadata_end = 0
        self.data_offset = 0
        self.metadata = Metadata({})
        self.tensors = Tensors()
        self.names: dict[str, Tensor] = {}
        self.trailing_bytes = 0
        self.findings: tuple[Finding, ...] = ()
        self.is_whole = False

    @property
    def table_end(self) -> int:
        """End of the tensor table, in bytes from the start of the file."""
        # Type (u32) and offset (u64) are the last fields of a row.
        return self.tensors[-1].places[2] + 12 if self.tensors else self.metadata_end

    def tensor_data(self, tensor: Tensor | str) -> memoryview:
        """Return the bytes of a tensor, in the file's byte order, without copying.

        Raises:
            KeyError: There is no tensor of that name.
        """
        if isinstance(tensor, str):
            tensor = self.tensors[tensor]
        start = self.data_offset + tensor.offset
        return self.data[start : start + tensor.n_bytes]

    def key_bytes(self) -> Iterator[tuple[str, memoryview]]:
        """Yield each key with its bytes in the file: name, type and value."""
        entries = list(self.metadata.entries.values())
        ends = [*(entry.offset for entry in entries), self.metadata_end][1:]
        for entry, end in zip(entries, ends, strict=True):
            yield entry.key, self.data[entry.offset : end]

    def __repr__(self) -> str:
        return (
            f"GgufFile({self.name!r}, version {self.version}, {len(self.metadata)} keys, "
            f"{len(self.tensors)} tensors)"
        )
