"""A GGUF file as read: its first bytes, header, metadata, tensor table; and the journal beside it.

The first eight bytes say which version it is, or what a file is that begins otherwise.

Names and strings are ``str``; bytes that are not valid UTF-8 are surrogate escapes in it, so
``text.encode("utf-8", "surrogateescape")`` gives back what the file holds.

The journal is beside a GGUF whose header is being changed; ``in_place`` writes and reads it.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Mapping
from functools import partial

from mtkit.base.escape import quoted, shown
from mtkit.base.record import Idioms, Record
from mtkit.base.rules import TRUNCATED, BrokenRule, Finding, Rule
from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any, SupportsIndex, overload

    from mtkit.base.notebook import Html
    from mtkit.gguf.types import TensorType, ValueType


MAGIC = b"GGUF"
HEAD_BYTES = 128
"""Enough to tell what a file is."""

_WEIGHTS = "give its folder: mtkit convert FOLDER --to gguf converts the model"
_PICKLE = "is a Python pickle, as written by PyTorch"
# Beginnings that people meet in files called .gguf -> what it is, what to do.
_OTHER_MAGICS = (
    (b"FUGG", "has its magic bytes reversed", ""),
    (b"lmgg", "is a GGML file, older than GGUF", "convert the original model again"),
    (b"fmgg", "is a GGMF file, older than GGUF", "convert the original model again"),
    (b"tjgg", "is a GGJT file, older than GGUF", "convert the original model again"),
    (b"version https://git-lfs", "is a Git LFS pointer, not the file", "run git lfs pull"),
    (b"# xet version", "is a Xet pointer, not the file", "run hf download, or git xet"),
    (b"\xef\xbb\xbf", "begins with a UTF-8 byte order mark", "a text editor has changed it"),
    (b"\x1f\x8b", "is compressed with gzip", "unpack it first"),
    (b"\xfd7zXZ\0", "is compressed with xz", "unpack it first"),
    (b"\x28\xb5\x2f\xfd", "is compressed with zstd", "unpack it first"),
    (b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19", "is a PyTorch checkpoint", _WEIGHTS),
    (b"\x80\x02}", _PICKLE, _WEIGHTS),
    (b"\x80\x02c", _PICKLE, _WEIGHTS),
    (b"\x80\x04\x95", _PICKLE, _WEIGHTS),
    (b"\x80\x05\x95", _PICKLE, _WEIGHTS),
    (b"\x93NUMPY", "is a numpy array", ""),
    (b"\x89HDF", "is an HDF5 file, as written by Keras", _WEIGHTS),
    (b"%PDF-", "is a PDF document", ""),
)
_SAFETENSORS_HEAD = 100_000_000
"""Bytes of the JSON at the beginning of a safetensors file, at most.

Source: huggingface/safetensors, tensor.rs (MAX_HEADER_SIZE).
"""


def _check_magic(head: bytes) -> str:
    return "" if head[:4] == MAGIC else _describe_other(head)[0]


def _check_version(little: int, big: int) -> str:
    if little in VERSIONS or big == BIG_ENDIAN_VERSION:
        return ""
    if big in VERSIONS:
        return f"is {big} in big-endian order, which begins with version {BIG_ENDIAN_VERSION}"
    return f"is {little}, not 1, 2 or 3"


VERSIONS = (1, 2, 3)
BIG_ENDIAN_VERSION = 3
# fmt: off
MAGIC_RULE = Rule("magic", "error", "gguf.md", "magic",
                  "The file does not begin with the bytes GGUF: it is another kind of file.",
                  _check_magic)
VERSION_RULE = Rule("version", "error", "gguf.md", "version",
                    "The GGUF version is not 1, 2 or 3. A newer mtkit may read it.",
                    _check_version)
# fmt: on


def read_version(data: memoryview) -> tuple[int, bool]:
    """Return the version and whether the file is big-endian."""
    head = bytes(data[:HEAD_BYTES])
    what = _check_magic(head)
    if what:
        raise BrokenRule(Finding(MAGIC_RULE, "magic", what, 0, _describe_other(head)[1]))
    TRUNCATED.demand(4, len(data) - 4, field="version", offset=4)
    little, big = (struct.unpack_from(order, head, 4)[0] for order in ("<I", ">I"))
    VERSION_RULE.demand(little, big, field="version", offset=4)
    return (little, False) if little in VERSIONS else (big, True)


def other_kind(head: bytes) -> tuple[str, str] | None:
    """Recognize a file that is often taken for a GGUF: what it is and what to do; or None."""
    for begin, what, hint in _OTHER_MAGICS:
        if head.startswith(begin):
            return f"the file {what}", hint
    if head.startswith(b"PK\x03\x04"):
        # torch.save stores what it writes and begins with data.pkl, in a folder of the file's name.
        if head[8:10] == b"\0\0" and b"/data.pkl" in head:
            return "the file is a PyTorch checkpoint", _WEIGHTS
        return "the file is a zip archive", "unpack it first"
    length = int.from_bytes(head[:8], "little")
    if head[8:10] in (b'{"', b"{}", b"{ ") and 2 <= length <= _SAFETENSORS_HEAD:
        return "the file is weights in the safetensors format", _WEIGHTS
    if _is_onnx(head):
        return "the file is an ONNX model", _WEIGHTS
    if head[4:8] == b"TFL3":
        return "the file is a TensorFlow Lite model", ""
    if head.lstrip()[:5].lower().startswith((b"<!doc", b"<html", b"<?xml")):
        if b'name="generator" content="mtkit' in head:
            return "the file is a page of mtkit report", "open it in a browser"
        return "the file is a web page", "download it again: the server sent an error page"
    return None


def _is_onnx(head: bytes) -> bool:
    """Tell by ir_version, a small number, and the name of the producer or what may follow it.

    Source: onnx/onnx, onnx.proto (ModelProto).
    """
    if len(head) < 12 or head[0] != 8 or not 3 <= head[1] <= 20:
        return False
    name = head[4 : 4 + min(head[3], 8)]
    return head[2] in b":B" or (head[2] == 0x12 and name.isascii() and name.isalpha())


def _describe_other(head: bytes) -> tuple[str, str]:
    if not head:
        return "the file is empty", ""
    if head.lstrip()[:1] == b"{":
        return "the file is JSON, such as a tokenizer", "this is not a GGUF file"
    begins = f'"{head[:4].decode()}"' if _is_print(head[:4]) else head[:4].hex(" ")
    what = f'the file begins with {begins}, not "{MAGIC.decode()}"'
    return other_kind(head) or (what, "this is not a GGUF file")


def _is_print(data: bytes) -> bool:
    return data.isascii() and data.decode().isprintable()


DEFAULT_ALIGNMENT = 32
_SHOWN = 3


class Header(Record):
    """The header in front of the metadata.

    Attributes:
        end: Where the metadata begins, in bytes from the start of the file.
    """

    tensor_count: int
    metadata_kv_count: int
    width: int
    end: int

    def place(self, field: str) -> tuple[str, int]:
        """Return the name of a field in messages, and its offset."""
        counts = 1 if field == "metadata_kv_count" else 2
        return field, self.end - counts * self.width


class Entry(Record):
    """One key of the metadata.

    Attributes:
        value: int, float, bool, str or ``GgufArray``.
        offset: Of the entry, in bytes from the start of the file.
    """

    key: str
    type: ValueType
    value: Any
    offset: int
    value_offset: int

    def place(self, field: str) -> tuple[str, int]:
        """Return the name of the entry in messages, and the offset of a field."""
        offsets = {"key": self.offset, "type": self.value_offset - 4, "value": self.value_offset}
        return shown(self.key) or "key", offsets[field]


class Tensor(Idioms, Record):
    """One row of the tensor table.

    Attributes:
        shape: Elements along each axis, fastest axis first (numpy has them the other way round).
        offset: Of the data, in bytes from ``GgufFile.data_offset``.
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

    @property
    def raw(self) -> memoryview:
        """The bytes of the data in the file's byte order, without copying.

        Raises:
            UsageError: The tensor is not of a file that was read, or the file is closed.
        """
        return self._section().bytes_of(self)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        values = self.numpy()
        return values if dtype is None else values.astype(dtype)

    def numpy(self) -> Any:
        """Return the numbers, dequantized: float32, or integers where the type has them.

        Returns:
            An array of ``shape`` the other way round, as numpy has it: rows first.

        Raises:
            UnsupportedError: The type cannot be dequantized, or the file is big-endian.
        """
        return self._section().decode(self)

    def _section(self) -> TensorData:
        section = vars(self).get("_data")
        if not isinstance(section, TensorData):
            raise UsageError("is not of a file that was read", field=self.label)
        return section

    def place(self, field: str) -> tuple[str, int]:
        """Return its name in messages, and the offset of a field, or of the row."""
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
        return any(key in (tensor, tensor.name) for tensor in self)

    def __repr__(self) -> str:
        names = ", ".join(repr(tensor.name) for tensor in self[:_SHOWN])
        more = ", …" if len(self) > _SHOWN else ""
        return f"<Tensors: {len(self)} by number or name, {names}{more}>"

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import figure

        return figure(tensor_table(self))

    def _ipython_key_completions_(self) -> list[str]:
        return [tensor.name for tensor in self]

    def _named(self, name: str) -> Tensor:
        for tensor in self:
            if tensor.name == name:
                return tensor
        from difflib import get_close_matches

        near = get_close_matches(name, [tensor.name for tensor in self], 1)
        raise KeyError(f"{name}; did you mean {near[0]}?" if near else name)


def _shown(type_name: str, value: Any) -> str:
    if type_name.endswith("[]"):
        return f"{len(value):,} values"
    return f"{value:.7g}" if type_name == "f32" else repr(value)


def tensor_table(tensors: Sequence[Tensor]) -> Html:
    """Return tensors with their sizes as bars."""
    from mtkit.base.notebook import bar, table

    largest = max((tensor.n_bytes for tensor in tensors), default=0) or 1
    rows = (
        (t.name, t.type.name, t.shape, bar(t.n_bytes / largest, f"{t.n_bytes:,}")) for t in tensors
    )
    return table(("tensor", "type", "shape", "bytes"), rows)


class TensorData:
    """The data section that the tensors of a file share.

    Attributes:
        data: The whole file; None once it is closed.
        decode: Returns a tensor's numbers as an array.
    """

    __slots__ = ("byte_order", "data", "decode", "offset", "source")

    def __init__(self, file: GgufFile, decode: Callable[[TensorData, Tensor], Any]) -> None:
        self.data: memoryview | None = file.data
        self.offset, self.byte_order, self.source = file.data_offset, file.byte_order, file.name
        self.decode = partial(decode, self)

    def bytes_of(self, tensor: Tensor) -> memoryview:
        """Return the bytes of a tensor."""
        if self.data is None:
            raise UsageError("is closed", source=self.source)
        start = self.offset + tensor.offset
        return self.data[start : start + tensor.n_bytes]


class Section(Record):
    """The data section, and the padding before it.

    Attributes:
        table_end: End of the tensor table, in bytes from the start of the file.
        shared: Offset of a row of the table -> earlier tensor that its data overlaps.
        padding: The bytes between table and data, as far as they are looked at.
    """

    table_end: int
    start: int
    size: int
    alignment: int
    shared: Mapping[int, Tensor]
    padding: bytes
    trailing_bytes: int

    def place(self, field: str) -> tuple[str, int]:
        """Return the name of a part in messages, and its offset."""
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
        """Return the type of a value as shown: ``u32``, ``string``, ``f32[]``."""
        entry = self.entries[key]
        return f"{entry.value.element.name}[]" if entry.type.name == "array" else entry.type.name


class GgufFile(Idioms):
    """A GGUF file: ``file["general.name"]`` is a key, ``file.tensors["…"]`` a tensor.

    The mapping stays open as long as the object lives, or until ``close`` or the end of ``with``.

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

    def __init__(self, name: str, data: memoryview | None = None) -> None:
        if data is None:
            raise TypeError("a GgufFile needs the bytes of a file; here: mtkit.open_gguf(PATH)")
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
        self._section: TensorData | None = None

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

    def share_data(self, decode: Callable[[TensorData, Tensor], Any]) -> None:
        """Give the tensors their data, once it is known where that begins."""
        self._section = TensorData(self, decode)
        for tensor in self.tensors:
            vars(tensor)["_data"] = self._section

    def __getitem__(self, key: str) -> Any:
        """Return the value of a metadata key."""
        try:
            return self.metadata[key]
        except KeyError:
            from difflib import get_close_matches

            if key in self.tensors:
                raise KeyError(f"{key} is a tensor; here: tensors[{key!r}]") from None
            near = get_close_matches(key, list(self.metadata), 1)
            raise KeyError(f"{key}; did you mean {near[0]}?" if near else key) from None

    def __contains__(self, key: object) -> bool:
        return key in self.metadata

    def __iter__(self) -> Iterator[str]:
        return iter(self.metadata)

    def __enter__(self) -> GgufFile:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the data; the file is unmapped as soon as nothing else uses it."""
        self.data = memoryview(b"")
        if self._section is not None:
            self._section.data = None

    def key_bytes(self) -> Iterator[tuple[str, memoryview]]:
        """Yield each key with its bytes in the file: name, type and value."""
        entries = list(self.metadata.entries.values())
        ends = [*(entry.offset for entry in entries), self.metadata_end][1:]
        for entry, end in zip(entries, ends, strict=True):
            yield entry.key, self.data[entry.offset : end]

    def _repr_html_(self) -> str:
        from mtkit.base.notebook import figure, heading, table

        rows = [
            (key, type_name, _shown(type_name, value))
            for key, value in self.metadata.items()
            for type_name in (self.metadata.type_name(key),)
        ]
        return figure(
            heading(f"{self.name}: GGUF {self.version}"),
            table(("key", "type", "value"), rows),
            tensor_table(self.tensors),
        )

    def _ipython_key_completions_(self) -> list[str]:
        return list(self.metadata)

    def __fspath__(self) -> str:
        return self.name

    def __repr__(self) -> str:
        return (
            f"GgufFile({self.name!r}, version {self.version}, {len(self.metadata)} keys, "
            f"{len(self.tensors)} tensors)"
        )


JOURNAL_SUFFIX = ".journal"


def journal_of(path: str) -> str:
    """Return the path of a file's journal, which lies beside the file behind links."""
    return os.path.realpath(path) + JOURNAL_SUFFIX


def is_edit_unfinished(path: str) -> bool:
    """Whether an edit of this file was begun and not finished."""
    return os.path.exists(journal_of(path))
