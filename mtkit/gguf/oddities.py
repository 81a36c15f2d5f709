"""What a file has that no file written from its keys and tensors has."""

from __future__ import annotations

from mtkit.gguf.rules import LOOKED_AT_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.gguf.file import GgufFile, Tensor


def oddities(file: GgufFile) -> Iterator[str]:
    """Say how the bytes of a file differ from those of its keys and tensors written anew."""
    if not file.tensors:
        if file.trailing_bytes:
            yield f"{file.trailing_bytes} bytes behind the keys: not kept"
        return
    if _is_filled(file.data[file.table_end : file.data_offset]):
        yield "padding in front of the tensors that is not zero: not kept"
    if next(misplaced(file), None):
        yield "the tensors are laid out anew, one behind the other"
    if any(map(_is_filled, _between(file))):
        yield "bytes between the tensors that are not zero: not kept"
    end = max(file.data_offset + tensor.offset + tensor.n_bytes for tensor in file.tensors)
    if len(file.data) < end + -end % file.alignment:
        yield "padding is added behind the last tensor"
    if file.trailing_bytes:
        yield f"{file.trailing_bytes} bytes behind the tensors: not kept"


def misplaced(file: GgufFile) -> Iterator[tuple[Tensor, int]]:
    """Yield tensors whose data is not right behind that of the one before, and where that is."""
    wanted = 0
    for tensor in file.tensors:
        if tensor.offset != wanted:
            yield tensor, wanted
        wanted = tensor.offset + -(-tensor.n_bytes // file.alignment) * file.alignment


def _is_filled(padding: memoryview) -> bool:
    """Whether what is looked at of it is not all zero; a gap may have gigabytes."""
    return bool(bytes(padding[:LOOKED_AT_BYTES]).strip(b"\0"))


def _between(file: GgufFile) -> Iterator[memoryview]:
    """Yield what stands behind each tensor, up to the next one or to the end of its padding."""
    at = file.data_offset
    for tensor in sorted(file.tensors, key=lambda tensor: tensor.offset):
        start = file.data_offset + tensor.offset
        yield file.data[at:start]
        at = max(at, start + tensor.n_bytes)
    yield file.data[at : at + -at % file.alignment]
