"""A GGUF in the other byte order: ``mtkit convert-endian``. Twice gives the same file.

Only numbers of several bytes change, each in its place: the file keeps its length, its padding and
whatever lies between tensors. A block of a quantized type is bytes but for its scales and the words
that llama.cpp reads from it at once.
Source: ggml-common.h of llama.cpp (the blocks), dequantize_row_* in ggml-quants.c (what is read as
a word), gguf_convert_endian.py of the gguf package (some of the types).
"""

from __future__ import annotations

import os

from mtkit.base.binary import pieces
from mtkit.base.files import write_files
from mtkit.errors import FormatError, UnsupportedError
from mtkit.gguf.draft import refuse_forks, refuse_unfinished
from mtkit.gguf.file import BIG_ENDIAN_VERSION
from mtkit.gguf.reader import open_gguf
from mtkit.gguf.shards import all_files
from mtkit.gguf.types import ARRAY, STRING

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.base.binary import Buffer
    from mtkit.gguf.arrays import GgufArray
    from mtkit.gguf.file import GgufFile, Tensor

WORDS: dict[str, tuple[tuple[int, int, int], ...]] = {
    "F32": ((0, 4, 1),),
    "F16": ((0, 2, 1),),
    "BF16": ((0, 2, 1),),
    "F64": ((0, 8, 1),),
    "I8": (),
    "I16": ((0, 2, 1),),
    "I32": ((0, 4, 1),),
    "I64": ((0, 8, 1),),
    "Q4_0": ((0, 2, 1),),
    "Q4_1": ((0, 2, 2),),
    "Q5_0": ((0, 2, 1), (2, 4, 1)),  # the fifth bits are one word
    "Q5_1": ((0, 2, 2), (4, 4, 1)),
    "Q8_0": ((0, 2, 1),),
    "Q8_1": ((0, 2, 2),),
    "Q2_K": ((80, 2, 2),),
    "Q3_K": ((108, 2, 1),),
    "Q4_K": ((0, 2, 2),),
    "Q5_K": ((0, 2, 2),),
    "Q6_K": ((208, 2, 1),),
    "Q8_K": ((0, 4, 1), (260, 2, 16)),
    "IQ4_NL": ((0, 2, 1),),
    "IQ4_XS": ((0, 2, 2),),
    "TQ1_0": ((52, 2, 1),),
    "TQ2_0": ((64, 2, 1),),
    "MXFP4": (),
    "NVFP4": (),
    "Q1_0": ((0, 2, 1),),
    "Q2_0": ((0, 2, 1),),
}
"""Type -> words of a block: offset, bytes a word, how many.

The IQ1, IQ2 and IQ3 types are missing: llama.cpp decodes them with tables of 64-bit and 32-bit
numbers of which it reads single bytes, so that a big-endian machine gets the values of a group in
reverse, whatever the order of the file.
"""
_CHUNK_BYTES = 1 << 22


def in_other_order(file: GgufFile) -> Iterator[Buffer]:
    """Give a file in the other byte order, piece by piece; all checks are done before the first."""
    refuse_unfinished(file)
    if file.version != BIG_ENDIAN_VERSION:
        raise UnsupportedError(
            f"version {file.version} is little-endian only; big-endian files are of version"
            f" {BIG_ENDIAN_VERSION}",
            source=file.name,
        )
    tensors = sorted((t for t in file.tensors if t.n_bytes), key=lambda t: t.offset)
    end = 0
    refuse_forks(tensors, file.name)
    for tensor in tensors:
        _refuse_words(file, tensor)
        if tensor.offset < end:
            raise FormatError("shares bytes with another", source=file.name, field=tensor.label)
        end = tensor.offset + tensor.n_bytes
    return _pieces(file, tensors)


def _refuse_words(file: GgufFile, tensor: Tensor) -> None:
    refuse_forks([tensor], file.name)
    if tensor.type.name not in WORDS:
        what = f"blocks of {tensor.type.name} are read rightly on little-endian machines alone"
        raise UnsupportedError(what, source=file.name, field=tensor.label)


def refuse_big_endian(file: GgufFile) -> None:
    """Refuse a file that only hosts of the other byte order load."""
    if file.byte_order == "big":
        hint = "mtkit convert-endian FILE -o NEW.gguf makes it little-endian"
        raise UnsupportedError("is big-endian", source=file.name, hint=hint)


def little_pieces(file: GgufFile, tensor: Tensor, size: int) -> Iterator[Buffer]:
    """Give the data of a tensor, little-endian whatever the file is, in pieces of whole blocks.

    Raises:
        UnsupportedError: The words of a block of its type are not known.
    """
    block = tensor.type.block_bytes or 1
    data = pieces(file.tensor_data(tensor), max(size // block, 1) * block)
    if file.byte_order == "little":
        return data
    _refuse_words(file, tensor)
    return (swapped for piece in data for swapped in _blocks(piece, tensor))


def write_little(file: GgufFile, folder: str) -> str:
    """Write a big-endian file, or all files of its set, into a folder; return the path."""
    paths = []
    for part in all_files(open_gguf(file.name)):
        paths.append(os.path.join(folder, os.path.basename(part.name)))
        write_files({paths[-1]: in_other_order(part)})
    return paths[0]


def _pieces(file: GgufFile, tensors: Sequence[Tensor]) -> Iterator[Buffer]:
    head = _head(file)
    yield head
    at = len(head)
    for tensor in tensors:
        start = file.data_offset + tensor.offset
        yield file.data[at:start]
        at = start + tensor.n_bytes
        yield from _blocks(file.data[start:at], tensor)
    yield file.data[at:]


def _head(file: GgufFile) -> bytearray:
    """Return the header, without the padding behind it, in the other order."""
    rows = [tensor.places for tensor in file.tensors]
    head = bytearray(file.data[: file.table_end])
    _swap(head, 4, 4, 8, 8)
    for entry in file.metadata.entries.values():
        _swap(head, entry.offset, 8)
        _swap(head, entry.value_offset - 4, 4)
        if entry.type is ARRAY:
            _swap_array(head, entry.value)
        else:
            _swap(head, entry.value_offset, 8 if entry.type is STRING else entry.type.size)
    for tensor, (row, shape, kind) in zip(file.tensors, rows, strict=True):
        _swap(head, row, 8)
        _swap(head, shape - 4, 4, *[8] * len(tensor.shape))
        _swap(head, kind, 4, 8)
    return head


def _swap(head: bytearray, at: int, *sizes: int) -> None:
    """Swap words that follow each other."""
    for size in sizes:
        head[at : at + size] = head[at : at + size][::-1]
        at += size


def _swap_array(head: bytearray, array: GgufArray) -> None:
    at, size = array.offset, array.element.size
    _swap(head, at - 12, 4, 8)
    if array.element is ARRAY:
        for child in array.children():
            _swap_array(head, child)
    elif array.element is STRING:
        for raw in array.raws():
            _swap(head, at, 8)
            at += 8 + len(raw)
    elif size > 1:
        import numpy as np

        np.frombuffer(head, f"u{size}", len(array), at).byteswap(inplace=True)


def _blocks(data: memoryview, tensor: Tensor) -> Iterator[Buffer]:
    """Give the blocks of a tensor, some megabytes at a time."""
    import numpy as np

    block, words = tensor.type.block_bytes, WORDS[tensor.type.name]
    chunk = max(1, _CHUNK_BYTES // block) * block
    for at in range(0, len(data), chunk):
        piece = data[at : at + chunk]
        if not words:
            yield piece
        elif words == ((0, block, 1),):
            yield memoryview(np.frombuffer(piece, f"u{block}").byteswap()).cast("B")
        else:
            blocks = np.frombuffer(piece, np.uint8).reshape(-1, block).copy()
            for start, size, count in words:
                part = blocks[:, start : start + size * count]
                part[:] = part.reshape(-1, count, size)[:, :, ::-1].reshape(-1, size * count)
            yield memoryview(blocks).cast("B")
