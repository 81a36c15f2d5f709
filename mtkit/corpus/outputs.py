"""Parts joined into the files that trainers read.

Sources: Megatron-LM's ``core/datasets/indexed_dataset.py`` (layout of .bin and .idx), numpy's
``lib/format.py`` (.npy, version 1.0), Apache Arrow for .arrow and .parquet.
"""

from __future__ import annotations

import os
import struct

from mtkit.errors import MissingExtra, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    import numpy as np
    from numpy.typing import NDArray

    from mtkit.base.binary import Buffer
    from mtkit.corpus.job import Parts

SUFFIXES = (".bin", ".npy", ".parquet", ".arrow")
_MEGATRON_MAGIC = b"MMIDIDX\x00\x00"
_MEGATRON_VERSION = 1
_MEGATRON_TYPES = {2: 8, 4: 4}
"""Bytes of an id -> code of its type: uint16, or int32 (there is no uint32)."""
_NPY_ALIGNMENT = 64
_CHUNK_BYTES = 16 << 20


def paths_of(path: str) -> list[str]:
    """Return the files that an output consists of."""
    base, suffix = os.path.splitext(path)
    if suffix not in SUFFIXES:
        what = f"{suffix} is not an output format" if suffix else "does not end in a format"
        raise UsageError(what, source=path,
                         hint=f"one of {', '.join(SUFFIXES)}")  # fmt: skip
    if suffix in (".parquet", ".arrow"):
        try:
            import pyarrow  # noqa: F401
        except ImportError:
            hint = 'pip install "mtkit[corpus]"'
            raise MissingExtra("needs the package pyarrow", source=path, hint=hint) from None
    return [path, f"{base}.idx"] if suffix == ".bin" else [path]


def assemble(path: str, parts: Parts, numbers: range, width: int) -> dict[str, Iterable[Buffer]]:
    """Return the files of an output with their content in pieces.

    Args:
        path: Its suffix is the format: .bin (Megatron, with an .idx), .npy (all ids in a row),
            .parquet or .arrow (a list of ids for each document, in the column ``input_ids``).
    """
    suffix = os.path.splitext(path)[1]
    if suffix == ".bin":
        index = paths_of(path)[1]
        return {path: _ids(parts, numbers), index: _megatron_index(parts, numbers, width)}
    if suffix == ".npy":
        return {path: _npy(parts, numbers, width)}
    return {path: _table(parts, numbers, width, suffix)}


def _ids(parts: Parts, numbers: range) -> Iterator[Buffer]:
    for number in numbers:
        content = memoryview(parts.content(number, "ids"))
        for at in range(0, len(content), _CHUNK_BYTES):
            yield content[at : at + _CHUNK_BYTES]


def _lengths(parts: Parts, number: int) -> NDArray[np.uint64]:
    import numpy as np

    return np.frombuffer(parts.content(number, "lengths"), np.uint64)


def _megatron_index(parts: Parts, numbers: range, width: int) -> Iterator[Buffer]:
    """Yield magic, version, type, counts; the lengths, offsets and numbers of the documents.

    A document is one sequence here; the last table ends with the number of documents.
    """
    import numpy as np

    lengths = np.concatenate([_lengths(parts, number) for number in numbers])
    if len(lengths) and int(lengths.max()) > np.iinfo(np.int32).max:
        raise UsageError("a document is too long for an .idx", hint="write .npy")
    count = len(lengths)
    code = _MEGATRON_TYPES[width]
    yield _MEGATRON_MAGIC + struct.pack("<QBQQ", _MEGATRON_VERSION, code, count, count + 1)
    yield lengths.astype("<i4").data
    sizes = lengths.astype("<i8") * width
    yield (np.cumsum(sizes) - sizes).data
    yield np.arange(count + 1, dtype="<i8").data


def _npy(parts: Parts, numbers: range, width: int) -> Iterator[Buffer]:
    total = sum(len(memoryview(parts.content(number, "ids"))) for number in numbers) // width
    head = f"{{'descr': '<u{width}', 'fortran_order': False, 'shape': ({total},), }}"
    room = -(10 + len(head) + 1) % _NPY_ALIGNMENT
    text = head.encode() + b" " * room + b"\n"
    yield b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text
    yield from _ids(parts, numbers)


def _table(parts: Parts, numbers: range, width: int, suffix: str) -> Iterator[Buffer]:
    """Yield an Arrow or Parquet file as pyarrow writes it, a batch for each part."""
    import numpy as np
    import pyarrow as pa
    from pyarrow import parquet

    kind = pa.large_list(pa.uint16() if width == 2 else pa.uint32())
    schema = pa.schema([("input_ids", kind)])
    buffer = _Buffer()
    sink: Any = pa.PythonFile(buffer, mode="w")
    make = pa.ipc.new_file if suffix == ".arrow" else parquet.ParquetWriter
    with make(sink, schema) as writer:
        for number in numbers:
            lengths = _lengths(parts, number)
            ends = np.concatenate(([0], np.cumsum(lengths, dtype=np.int64)))
            ids = np.frombuffer(parts.content(number, "ids"), f"<u{width}")
            column = pa.LargeListArray.from_arrays(pa.array(ends), pa.array(ids))
            writer.write_table(pa.table([column], schema=schema))
            yield from buffer.take()
    yield from buffer.take()


class _Buffer:
    """A file whose content can be taken out as it is written."""

    closed = False

    def __init__(self) -> None:
        self._pieces: list[bytes] = []
        self._size = 0

    def write(self, data: Buffer) -> int:
        piece = bytes(data)
        self._pieces.append(piece)
        self._size += len(piece)
        return len(piece)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def take(self) -> list[bytes]:
        """Return what was written since the last call."""
        pieces, self._pieces = self._pieces, []
        return pieces
