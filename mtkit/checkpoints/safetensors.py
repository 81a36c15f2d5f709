"""The header of a safetensors file: which tensors it has, of which types; no data is read.

Layout: u64 length, then that many bytes of JSON, then data. JSON: name -> ``dtype``, ``shape``,
``data_offsets`` (begin and end behind the header), and ``__metadata__`` (text -> text). The data of
the tensors, in the order of their offsets, fills the rest of the file without holes or overlaps.
Source: huggingface/safetensors, tensor.rs (``SafeTensors::read_metadata``, ``Metadata::validate``).
"""

from __future__ import annotations

from math import prod

from mtkit.base.binary import Reader
from mtkit.base.escape import shown
from mtkit.base.record import Record
from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeGuard

    from mtkit.base.binary import Source

MOST_HEADER_BYTES = 100_000_000
LENGTH_BYTES = 8
METADATA = "__metadata__"
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F16": 16,
    "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip
"""Type -> bits of an element; of a type that is not here the size is not checked."""


class Weight(Record):
    """A tensor of the file.

    Attributes:
        name: Its name.
        type: As the file spells it.
        shape: Slowest axis first, as numpy has it.
        offset: Of the data, in bytes behind the header.
        n_bytes: Size of the data.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    offset: int
    n_bytes: int


class Header(Record):
    """What stands before the data.

    Attributes:
        n_bytes: Of the header, its length included.
        metadata: What the writer said of the file.
        weights: In the order of the data.
    """

    n_bytes: int
    metadata: Mapping[str, str]
    weights: tuple[Weight, ...]

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(prod(weight.shape) for weight in self.weights)


def sniff(source: Source) -> bool:
    """Tell by a length that is in the file and the brace behind it."""
    head = bytes(source.data[: LENGTH_BYTES + 1])
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    fits = 2 <= length <= min(MOST_HEADER_BYTES, len(source.data) - LENGTH_BYTES)
    return len(head) > LENGTH_BYTES and head[-1:] == b"{" and fits


def read(source: Source) -> Header:
    """Read the header.

    Raises:
        FormatError: It is damaged, or the data is not what it says.
    """
    reader = Reader(source.data)
    length = reader.u64("header length")
    if length > MOST_HEADER_BYTES:
        what = f"is {length}, at most {MOST_HEADER_BYTES} are allowed"
        raise FormatError(what, field="header length", offset=0)
    entries = _json(reader.take(length, "header"))
    metadata = entries.pop(METADATA, None) or {}
    if not isinstance(metadata, dict) or not all(type(v) is str for v in metadata.values()):
        raise FormatError("is not text by name", field=METADATA)
    weights = sorted(
        (_weight(name, entry) for name, entry in entries.items()),
        key=lambda one: (one.offset, one.n_bytes),
    )
    at = 0
    for one in weights:
        if one.offset != at:
            how = "overlaps what is before it" if one.offset < at else "leaves a hole before it"
            what = f"begins at {one.offset}, not at {at}: {how}"
            raise FormatError(what, field=f"tensor {shown(one.name)!r}")
        at += one.n_bytes
    if at != reader.left:
        what = f"ends at {at}, the file has {reader.left} bytes behind its header"
        raise FormatError(what, field="data", offset=reader.offset, hint="the file is cut")
    return Header(LENGTH_BYTES + length, metadata, tuple(weights))


def _json(data: bytes) -> dict[str, Any]:
    import json

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            raise FormatError("has a name twice", field="header", offset=LENGTH_BYTES)
        return found

    try:
        found = json.loads(data.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FormatError("is not a JSON object", field="header", offset=LENGTH_BYTES)
    return found


def _weight(name: str, entry: object) -> Weight:
    field = f"tensor {shown(name)!r}"
    keys = ("dtype", "shape", "data_offsets")
    kind, shape, offsets = (entry.get(key) if isinstance(entry, dict) else None for key in keys)
    if type(kind) is not str or not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        raise FormatError("needs dtype, shape and two data_offsets", field=field)
    begin, end = offsets
    if end < begin:
        raise FormatError(f"ends at {end} before it begins at {begin}", field=field)
    bits = BITS.get(kind)
    if bits is not None and (end - begin) * 8 != prod(shape) * bits:
        what = f"has {end - begin} bytes, which {kind} of shape {shape} does not take"
        raise FormatError(what, field=field)
    return Weight(name, kind, tuple(shape), begin, end - begin)


def _counts(value: Any) -> TypeGuard[list[int]]:
    """Tell whether a value is a list of sizes that fit into 64 bits."""
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 64 for n in value)
