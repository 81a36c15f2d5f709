"""The header of a safetensors file: which tensors it has, of which types; no data is read.

Layout: u64 length, then that many bytes of JSON, then data. JSON: name -> ``dtype``, ``shape``,
``data_offsets`` (begin and end behind the header), and ``__metadata__`` (text -> text). The data of
the tensors, in the order of their offsets, fills the rest of the file without holes or overlaps.
Source: huggingface/safetensors, tensor.rs (``SafeTensors::read_metadata``, ``Metadata::validate``).
"""

from __future__ import annotations

from math import prod

from mtkit.base.binary import Reader
from mtkit.base.escape import quoted
from mtkit.base.record import Record
from mtkit.base.rules import BrokenRule, Finding, Findings, Rule

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any, TypeGuard

    from mtkit.base.binary import Source

SUFFIX = ".safetensors"
MOST_HEADER_BYTES = 100_000_000
LENGTH_BYTES = 8
ALIGNED_BYTES = 8
"""To a multiple of this a writer fills the header with spaces; a mapped array wants it so."""
METADATA = "__metadata__"
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F16": 16,
    "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip
"""Type -> bits of an element; of a type that is not here the size is not checked."""


LIBRARY = "safetensors"
LENGTH = Rule("safetensors-length", "error", LIBRARY, "header length")
JSON = Rule("safetensors-json", "error", LIBRARY, "header")
NAME_TWICE = Rule("safetensors-name-twice", "error", LIBRARY, "header")
TEXTS = Rule("safetensors-metadata", "error", LIBRARY, METADATA)
ENTRY = Rule("safetensors-entry", "error", LIBRARY, "tensor")
TYPE = Rule("safetensors-type", "warning", LIBRARY, "dtype")
SIZE = Rule("safetensors-size", "error", LIBRARY, "data_offsets")
OVERLAP = Rule("safetensors-overlap", "error", LIBRARY, "data_offsets")
HOLE = Rule("safetensors-hole", "error", LIBRARY, "data_offsets")
END = Rule("safetensors-end", "error", LIBRARY, "data", advice="the file is truncated")
ALIGNMENT = Rule("safetensors-alignment", "note", LIBRARY, "header length")
RULES = (LENGTH, JSON, NAME_TWICE, TEXTS, ENTRY, TYPE, SIZE, OVERLAP, HOLE, END, ALIGNMENT)


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

    @property
    def n_elements(self) -> int:
        """Number of its values."""
        return prod(self.shape)


class Header(Record):
    """What stands before the data.

    Attributes:
        n_bytes: Of the header, its length included.
        metadata: What the writer said of the file.
        weights: In the order of the data.
        findings: Rules that are broken; where a strict reading ends, warnings and notes alone.
    """

    n_bytes: int
    metadata: Mapping[str, str]
    weights: tuple[Weight, ...]
    findings: tuple[Finding, ...] = ()

    @property
    def parameters(self) -> int:
        """Elements of all tensors."""
        return sum(weight.n_elements for weight in self.weights)


def sniff(source: Source) -> bool:
    """Tell by a length that is in the file and the brace behind it."""
    head = bytes(source.data[: LENGTH_BYTES + 1])
    length = int.from_bytes(head[:LENGTH_BYTES], "little")
    fits = 2 <= length <= min(MOST_HEADER_BYTES, len(source.data) - LENGTH_BYTES)
    return len(head) > LENGTH_BYTES and head[-1:] == b"{" and fits


def is_meant(source: Source) -> bool:
    """Tell by the name, too, where a file does not begin as something else does."""
    if sniff(source) or not source.name.endswith(SUFFIX):
        return sniff(source)
    from mtkit.gguf.magic import HEAD_BYTES, other_kind

    kind = other_kind(bytes(source.data[:HEAD_BYTES]))
    return kind is None or SUFFIX[1:] in kind[0]


def read(source: Source, *, strict: bool = True) -> Header:
    """Read the header.

    Args:
        source: The file.
        strict: Raise the first error; otherwise errors are kept, as far as reading goes on.

    Raises:
        BrokenRule: The header is damaged, or the data is not what it says.
    """
    found, reader = Findings(strict=strict), Reader(source.data)
    length = reader.u64(LENGTH.field)
    if length > MOST_HEADER_BYTES:
        from mtkit.gguf.magic import HEAD_BYTES, other_kind

        what, hint = f"is {length}, at most {MOST_HEADER_BYTES} are allowed", ""
        other = other_kind(bytes(source.data[:HEAD_BYTES]))
        if other is not None:  # a Git LFS pointer, an error page
            what, hint = f"is none: {other[0]}", other[1]
        raise BrokenRule(Finding(LENGTH, LENGTH.field, what, 0, hint))
    entries = _json(reader.take(length, "header"), found)
    if length % ALIGNED_BYTES:
        what = f"is {length}, so the data does not begin at a multiple of {ALIGNED_BYTES}"
        found.add(Finding(ALIGNMENT, ALIGNMENT.field, what, 0))
    metadata = entries.pop(METADATA, None) or {}
    if not isinstance(metadata, dict) or not all(type(v) is str for v in metadata.values()):
        found.add(Finding(TEXTS, METADATA, "is not text by name"))
        metadata = {}
    read = [_weight(name, entry, found) for name, entry in entries.items()]
    weights = sorted((one for one in read if one), key=lambda one: (one.offset, one.n_bytes))
    _check_places(weights, len(read), reader, found)
    return Header(LENGTH_BYTES + length, metadata, tuple(weights), tuple(found.found))


def _check_places(weights: list[Weight], count: int, reader: Reader, found: Findings) -> None:
    """Hold the places of the data to the rules; those of ``count`` entries, if all were read."""
    at = 0
    for one in weights:
        if one.offset != at and len(weights) == count:
            rule = OVERLAP if one.offset < at else HOLE
            how = "overlaps what is before it" if rule is OVERLAP else "leaves a hole before it"
            what = f"begins at {one.offset}, not at {at}: {how}"
            found.add(Finding(rule, _field(one.name), what, reader.offset + one.offset))
        at = max(at, one.offset + one.n_bytes)
    if at != reader.left and (len(weights) == count or at > reader.left):
        what = f"ends at {at}, but the file has {reader.left} bytes after its header"
        found.add(Finding(END, END.field, what, reader.offset))


def _json(data: bytes, findings: Findings) -> dict[str, Any]:
    import json

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            findings.add(Finding(NAME_TWICE, NAME_TWICE.field, "has a name twice", LENGTH_BYTES))
        return found

    try:
        found = json.loads(data.decode(), object_pairs_hook=once)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise BrokenRule(Finding(JSON, JSON.field, "is not a JSON object", LENGTH_BYTES))
    return found


def _weight(name: str, entry: object, found: Findings) -> Weight | None:
    keys = ("dtype", "shape", "data_offsets")
    kind, shape, offsets = (entry.get(key) if isinstance(entry, dict) else None for key in keys)
    if type(kind) is not str or not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        found.add(Finding(ENTRY, _field(name), "needs dtype, shape and two data_offsets"))
        return None
    begin, end = offsets
    if end < begin:
        found.add(Finding(ENTRY, _field(name), f"ends at {end} before it begins at {begin}"))
        return None
    bits = BITS.get(kind)
    if bits is None:
        found.add(Finding(TYPE, _field(name), f"{quoted(kind)} is a type that is not known"))
    elif (end - begin) * 8 != prod(shape) * bits:
        what = f"has {end - begin} bytes, not what {kind} of shape {shape} takes"
        found.add(Finding(SIZE, _field(name), what))
    return Weight(name, kind, tuple(shape), begin, end - begin)


def _field(name: str) -> str:
    return f"tensor {quoted(name)}"


def _counts(value: Any) -> TypeGuard[list[int]]:
    """Tell whether a value is a list of sizes that fit into 64 bits."""
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 64 for n in value)
