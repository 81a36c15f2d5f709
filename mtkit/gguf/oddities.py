"""What a file has that no file written from its keys and tensors has."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from mtkit.gguf.file import GgufFile


def oddities(file: GgufFile) -> Iterator[str]:
    """Say how the bytes of a file differ from those of its keys and tensors written anew."""
    if not file.tensors:
        if file.trailing_bytes:
            yield f"{file.trailing_bytes} bytes behind the keys: not kept"
        return
    *_, type_at = file.tensors[-1].places  # of the last field but one of the table
    if any(file.data[type_at + 12 : file.data_offset]):
        yield "padding in front of the tensors that is not zero: not kept"
    if not _follow_each_other(file):
        yield "the tensors are laid out anew, one behind the other"
        return
    if any(any(padding) for padding in _paddings(file)):
        yield "padding behind a tensor that is not zero: not kept"
    last = file.tensors[-1]
    end = file.data_offset + last.offset + last.n_bytes
    if len(file.data) < end + -end % file.alignment:
        yield "padding is added behind the last tensor"
    if file.trailing_bytes:
        yield f"{file.trailing_bytes} bytes behind the tensors: not kept"


def _follow_each_other(file: GgufFile) -> bool:
    wanted = 0
    for tensor in file.tensors:
        if tensor.offset != wanted:
            return False
        wanted += -(-tensor.n_bytes // file.alignment) * file.alignment
    return True


def _paddings(file: GgufFile) -> Iterator[memoryview]:
    for tensor in file.tensors:
        end = file.data_offset + tensor.offset + tensor.n_bytes
        yield file.data[end : end + -end % file.alignment]
