"""Safetensors: the header of a file, the index of a model in several files, and writing.

Layout: u64 length, then that many bytes of JSON, then data. JSON: name -> ``dtype``, ``shape``,
``data_offsets`` (begin and end behind the header), and ``__metadata__`` (text -> text). The data of
the tensors, in the order of their offsets, fills the rest of the file without holes or overlaps.

The index, ``model.safetensors.index.json``, is an object with ``weight_map`` (tensor -> file beside
it) and ``metadata``, whose ``total_size`` is the number of bytes of all tensors. A file name that
leads out of the folder is refused.

Source: huggingface/safetensors, tensor.rs (``SafeTensors::read_metadata``, ``Metadata::validate``;
``prepare``: data in the order of the header, which is filled with spaces to a multiple of eight
bytes); huggingface/transformers 5, modeling_utils.py (``save_pretrained``), utils/hub.py
(``get_checkpoint_shard_files``).
"""

from __future__ import annotations

import os
from collections import Counter
from math import prod

from mtkit.base.binary import Reader, Source
from mtkit.base.escape import is_utf8, quoted, shown
from mtkit.base.record import Record, replace
from mtkit.base.rules import AGAIN, BrokenRule, Finding, Findings, Rule
from mtkit.errors import UsageError, format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, TypeGuard

    from mtkit.base.binary import Buffer


SUFFIX = ".safetensors"
MOST_HEADER_BYTES = 100_000_000
LENGTH_BYTES = 8
ALIGNED_BYTES = 8
"""A writer fills the header with spaces to a multiple of this, for mapped arrays."""
METADATA = "__metadata__"
BITS = {
    "BOOL": 8, "U8": 8, "I8": 8, "U16": 16, "I16": 16, "U32": 32, "I32": 32, "U64": 64, "I64": 64,
    "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "F8_E4M3": 8, "F8_E5M2": 8, "F8_E8M0": 8, "F16": 16,
    "BF16": 16, "F32": 32, "F64": 64, "C64": 64,
}  # fmt: skip
"""Type -> bits of an element; of a type that is not here the size is not checked."""


LIBRARY = "safetensors"
# fmt: off
LENGTH = Rule("safetensors-length", "error", LIBRARY, "header length",
              f"The header is longer than 100,000,000 bytes. {AGAIN}")
JSON = Rule("safetensors-json", "error", LIBRARY, "header",
            f"The header is not a JSON object. {AGAIN}")
NAME_TWICE = Rule("safetensors-name-twice", "error", LIBRARY, "header",
                  "A name occurs twice. Readers disagree about which of the two counts.")
TEXTS = Rule("safetensors-metadata", "error", LIBRARY, METADATA,
             "__metadata__ is not an object of strings; the safetensors library refuses the "
             "file.")
ENTRY = Rule("safetensors-entry", "error", LIBRARY, "tensor",
             "A tensor lacks dtype or shape, or its data_offsets are not two ascending numbers; "
             "the safetensors library refuses the file.")
TYPE = Rule("safetensors-type", "warning", LIBRARY, "dtype",
            "A tensor has an unknown dtype; the safetensors library may be too old for it.")
SIZE = Rule("safetensors-size", "error", LIBRARY, "data_offsets",
            f"The data of a tensor is not as long as its dtype and shape say. {AGAIN}")
OVERLAP = Rule("safetensors-overlap", "error", LIBRARY, "data_offsets",
               "Tensors share bytes. Something may be hidden there.")
HOLE = Rule("safetensors-hole", "error", LIBRARY, "data_offsets",
            "There is unused space between tensors. Something may be hidden there.")
END = Rule("safetensors-end", "error", LIBRARY, "data",
           f"The tensors do not end where the file ends. {AGAIN}", advice="the file is truncated")
ALIGNMENT = Rule("safetensors-alignment", "note", LIBRARY, "header length",
                 "The header is not padded to a multiple of 8 bytes, so tensors have to be "
                 "copied before use.")
# fmt: on
RULES = (LENGTH, JSON, NAME_TWICE, TEXTS, ENTRY, TYPE, SIZE, OVERLAP, HOLE, END, ALIGNMENT)


class Weight(Record):
    """A tensor of the file.

    Attributes:
        offset: Of the data, in bytes behind the header.
        strides: Bytes from one number to the next of each axis; empty: they lie one after another.
    """

    name: str
    type: str
    shape: tuple[int, ...]
    offset: int
    n_bytes: int
    strides: tuple[int, ...] = ()

    @property
    def n_elements(self) -> int:
        """Number of its values."""
        return prod(self.shape)


class Header(Record):
    """The header in front of the data.

    Attributes:
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
    from mtkit.gguf.file import HEAD_BYTES, other_kind

    kind = other_kind(bytes(source.data[:HEAD_BYTES]))
    return kind is None or SUFFIX[1:] in kind[0]


def read(source: Source, *, strict: bool = True) -> Header:
    """Read the header.

    Args:
        strict: Raise the first error; otherwise errors are kept, as far as reading goes on.

    Raises:
        BrokenRule: The header is damaged, or the data is not what it says.
    """
    findings, reader = Findings(strict=strict), Reader(source.data)
    length = reader.u64(LENGTH.field)
    if length > MOST_HEADER_BYTES:
        from mtkit.gguf.file import HEAD_BYTES, other_kind

        what, hint = f"is {length}, at most {MOST_HEADER_BYTES} are allowed", ""
        other = other_kind(bytes(source.data[:HEAD_BYTES]))
        if other is not None:  # a Git LFS pointer, an error page
            what, hint = f"is none: {other[0]}", other[1]
        raise BrokenRule(Finding(LENGTH, LENGTH.field, what, 0, hint))
    entries = _json(reader.take(length, "header"), findings)
    if length % ALIGNED_BYTES:
        what = f"is {length}, so the data does not begin at a multiple of {ALIGNED_BYTES}"
        findings.add(Finding(ALIGNMENT, ALIGNMENT.field, what, 0))
    metadata = entries.pop(METADATA, None) or {}
    if not isinstance(metadata, dict) or not all(type(v) is str for v in metadata.values()):
        findings.add(Finding(TEXTS, METADATA, "is not text by name"))
        metadata = {}
    read = [_weight(name, entry, findings) for name, entry in entries.items()]
    weights = sorted(
        (weight for weight in read if weight), key=lambda weight: (weight.offset, weight.n_bytes)
    )
    _check_places(weights, len(read), reader, findings)
    return Header(LENGTH_BYTES + length, metadata, tuple(weights), tuple(findings.entries))


def _check_places(weights: list[Weight], count: int, reader: Reader, findings: Findings) -> None:
    """Hold the places of the data to the rules; those of ``count`` entries, if all were read."""
    at = 0
    for weight in weights:
        if weight.offset != at and len(weights) == count:
            rule = OVERLAP if weight.offset < at else HOLE
            how = "overlaps what is before it" if rule is OVERLAP else "leaves a hole before it"
            what = f"begins at {weight.offset}, not at {at}: {how}"
            findings.add(Finding(rule, _field(weight.name), what, reader.offset + weight.offset))
        at = max(at, weight.offset + weight.n_bytes)
    if at != reader.left and (len(weights) == count or at > reader.left):
        what = f"ends at {at}, but the file has {reader.left} bytes after its header"
        findings.add(Finding(END, END.field, what, reader.offset))


def _json(data: bytes, findings: Findings) -> dict[str, Any]:
    import json

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) != len(pairs):
            findings.add(Finding(NAME_TWICE, NAME_TWICE.field, "has a name twice", LENGTH_BYTES))
        return entries

    try:
        document = json.loads(data.decode(), object_pairs_hook=unique)
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise BrokenRule(Finding(JSON, JSON.field, "is not a JSON object", LENGTH_BYTES))
    return document


def _weight(name: str, entry: object, findings: Findings) -> Weight | None:
    keys = ("dtype", "shape", "data_offsets")
    kind, shape, offsets = (entry.get(key) if isinstance(entry, dict) else None for key in keys)
    if type(kind) is not str or not _counts(shape) or not _counts(offsets) or len(offsets) != 2:
        findings.add(Finding(ENTRY, _field(name), "needs dtype, shape and two data_offsets"))
        return None
    begin, end = offsets
    if end < begin:
        findings.add(Finding(ENTRY, _field(name), f"ends at {end} before it begins at {begin}"))
        return None
    bits = BITS.get(kind)
    if bits is None:
        findings.add(Finding(TYPE, _field(name), f"{quoted(kind)} is a type that is not known"))
    elif (end - begin) * 8 != prod(shape) * bits:
        what = f"has {end - begin} bytes, not what {kind} of shape {shape} takes"
        findings.add(Finding(SIZE, _field(name), what))
    return Weight(name, kind, tuple(shape), begin, end - begin)


def _field(name: str) -> str:
    return f"tensor {quoted(name)}"


def _counts(value: Any) -> TypeGuard[list[int]]:
    """Tell whether a value is a list of sizes that fit into 64 bits."""
    return isinstance(value, list) and all(type(n) is int and 0 <= n < 1 << 64 for n in value)


INDEX_SUFFIX = ".safetensors.index.json"
TRANSFORMERS = "transformers"
# fmt: off
INDEX_JSON = Rule("index-json", "error", TRANSFORMERS, "weight_map",
                  "The index is not a JSON object with weight_map, which maps each tensor to "
                  "its file.")
INDEX_PATH = Rule("index-path", "error", TRANSFORMERS, "weight_map",
                  "The index names a file in another folder; shards belong next to the index.")
INDEX_FILE = Rule("index-file", "error", TRANSFORMERS, "weight_map",
                  "A file named in the index is missing. Download it.",
                  advice="download the folder again")
INDEX_TENSOR = Rule("index-tensor", "error", TRANSFORMERS, "weight_map",
                    "A tensor is not in the file that the index names: files of two models are "
                    "mixed.")
INDEX_UNLISTED = Rule("index-unlisted", "warning", TRANSFORMERS, "weight_map",
                      "A tensor is not in the index, so it is never loaded.")
INDEX_TOTAL = Rule("index-total", "note", TRANSFORMERS, "metadata.total_size",
                   "total_size differs from the size of all tensors; some writers count shared "
                   "tensors twice.")
# fmt: on
INDEX_RULES = (INDEX_JSON, INDEX_PATH, INDEX_FILE, INDEX_TENSOR, INDEX_UNLISTED, INDEX_TOTAL)
_MOST_INDEX_BYTES = 1 << 28


class Index(Record):
    """A model in several files.

    Attributes:
        weight_map: Tensor -> the file that should have it, both in the index's order.
        files: File -> its header; None: it is missing or damaged.
        n_bytes: File -> its size; 0 where it is missing.
        metadata: Notes of the writer, ``total_size`` among them.
    """

    weight_map: Mapping[str, str]
    files: Mapping[str, Header | None]
    n_bytes: Mapping[str, int]
    metadata: Mapping[str, object]
    findings: tuple[Finding, ...]


def sniff_index(source: Source) -> bool:
    """Tell by the name that its writers give it, and by an object in the file."""
    return source.name.endswith(INDEX_SUFFIX) and bytes(source.data[:64]).lstrip()[:1] == b"{"


def read_index(source: Source, *, strict: bool = True, read: Callable[..., Header] = read) -> Index:
    """Read an index and the headers of the files beside it.

    A missing file is a finding (``INDEX_FILE``) even where reading is strict.

    Args:
        read: Reads the header of a file.
    """
    document = _index_document(source)
    weight_map, metadata = document["weight_map"], document.get("metadata") or {}
    findings = Findings(strict=strict)
    files: dict[str, Header | None] = {}
    sizes: dict[str, int] = {}
    missing: list[Finding] = []
    counts = Counter(weight_map.values())
    for name in counts:
        files[name], sizes[name] = None, 0
        if name != os.path.basename(name) or name in ("", ".", "..") or not _is_file_name(name):
            what = f"{quoted(name)} is not a file next to the index"
            findings.add(Finding(INDEX_PATH, INDEX_PATH.field, what))
            continue
        path = os.path.join(os.path.dirname(source.name), name)
        try:
            # a pipe of that name would be waited for
            shard = Source.open(path) if os.path.isfile(path) else None
        except UsageError:
            shard = None
        if shard is None:
            what = f"{shown(name)} is missing, and {format_count(counts[name], 'tensor')} with it"
            missing.append(Finding(INDEX_FILE, INDEX_FILE.field, what))
            continue
        sizes[name] = len(shard.data)
        try:
            header = read(shard, strict=strict)
        except BrokenRule as error:
            findings.add(replace(error.finding, source=path))
            continue
        files[name] = header
        for finding in header.findings:
            findings.add(replace(finding, source=path))
    _compare_index(weight_map, files, metadata, findings)
    return Index(weight_map, files, sizes, metadata, (*missing, *findings.entries))


def _is_file_name(name: str) -> bool:
    return is_utf8(name) and "\0" not in name


def _index_document(source: Source) -> dict[str, Any]:
    import json

    try:
        document = json.loads(bytes(source.data)) if len(source.data) <= _MOST_INDEX_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if isinstance(document, dict) and isinstance(document.get("metadata") or {}, dict):
        weight_map = document.get("weight_map")
        if isinstance(weight_map, dict) and all(type(v) is str for v in weight_map.values()):
            return document
    what = "is not a JSON object with a weight_map of names of files"
    raise BrokenRule(Finding(INDEX_JSON, "index", what, 0))


def _compare_index(
    weight_map: Mapping[str, str],
    files: Mapping[str, Header | None],
    metadata: Mapping[str, object],
    findings: Findings,
) -> None:
    total = 0
    inside = {}
    for name, header in files.items():
        inside[name] = {weight.name for weight in header.weights} if header else None
        for weight in header.weights if header else ():
            total += weight.n_bytes
            if weight_map.get(weight.name) != name:
                elsewhere = weight_map.get(weight.name)
                difference = f"seeks in {shown(elsewhere)}" if elsewhere else "does not list"
                what = f"{shown(name)} has {quoted(weight.name)}, which the index {difference}"
                findings.add(Finding(INDEX_UNLISTED, INDEX_UNLISTED.field, what))
    for tensor, name in weight_map.items():
        names = inside[name]
        if names is not None and tensor not in names:
            what = f"{shown(name)} has no {quoted(tensor)}"
            findings.add(Finding(INDEX_TENSOR, INDEX_TENSOR.field, what))
    size = metadata.get("total_size", total)
    if size != total and None not in inside.values():
        what = f"is {shown(str(size))}, but the tensors have {total} bytes"
        findings.add(Finding(INDEX_TOTAL, INDEX_TOTAL.field, what))


class NewWeight(Record):
    """A tensor to write."""

    name: str
    type: str
    shape: tuple[int, ...]
    n_bytes: int
    pieces: Callable[[], Iterator[Buffer]]


def file_chunks(weights: Sequence[NewWeight]) -> Iterator[Buffer]:
    """Give the bytes of a file, piece by piece, as transformers writes it."""
    import json

    header: dict[str, object] = {METADATA: {"format": "pt"}}
    at = 0
    for weight in weights:
        place = [at, at + weight.n_bytes]
        header[weight.name] = {
            "dtype": weight.type,
            "shape": list(weight.shape),
            "data_offsets": place,
        }
        at += weight.n_bytes
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % ALIGNED_BYTES)
    yield len(text).to_bytes(LENGTH_BYTES, "little") + text
    for weight in weights:
        yield from weight.pieces()
