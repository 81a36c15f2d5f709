"""A model in several files, read as the one file that joining them would give.

The keys are those of the first without the ones that number it; tensors keep the order of the
files, and their data stays where it is.
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.gguf.file import GgufFile, Metadata, Tensors
from mtkit.gguf.reader import open_gguf
from mtkit.gguf.shards import SPLIT_KEYS, all_files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from mtkit.base.binary import Source
    from mtkit.gguf.file import Tensor


class JoinedGguf(GgufFile):
    """The files of a set as one.

    Attributes:
        files: The first, which has the keys, and the others.
    """

    def __init__(self, files: Sequence[GgufFile]) -> None:
        first = files[0]
        super().__init__(first.name, first.data)
        self.files = tuple(files)
        self.version, self.byte_order = first.version, first.byte_order
        self.alignment, self.is_whole = first.alignment, True
        self.metadata_end, self.data_offset = first.metadata_end, first.data_offset
        entries = first.metadata.entries
        self.metadata = Metadata({key: entries[key] for key in entries if key not in SPLIT_KEYS})
        self._owners = {id(tensor): file for file in files for tensor in file.tensors}
        self.tensors = Tensors(tensor for file in files for tensor in file.tensors)
        self.names = {tensor.name: tensor for tensor in self.tensors}
        self.findings = tuple(finding for file in files for finding in file.findings)
        self.trailing_bytes = sum(file.trailing_bytes for file in files)

    def tensor_data(self, tensor: Tensor | str) -> memoryview:
        """Return the bytes of a tensor, in the file that has it."""
        if isinstance(tensor, str):
            tensor = self.tensors[tensor]
        return self._owners[id(tensor)].tensor_data(tensor)

    def key_bytes(self) -> Iterator[tuple[str, memoryview]]:
        """Yield each key with the bytes that the first file has for it."""
        return (one for one in self.files[0].key_bytes() if one[0] not in SPLIT_KEYS)


def open_whole(model: str | Source) -> GgufFile:
    """Open a GGUF, or all files of a set that is named by its first.

    Raises:
        UsageError: It is a later file of a set.
        FormatError: A file is damaged or missing, or the set is wrong.
        UnsupportedError: Its files are of different versions or byte orders.
    """
    return joined(open_gguf(model))


def joined(first: GgufFile) -> GgufFile:
    """Return the first file of a set with all others; a file that stands alone as it is.

    Raises:
        UsageError: It is a later file of a set.
        FormatError: A file is damaged or missing, or the set is wrong.
        UnsupportedError: Its files are of different versions or byte orders.
    """
    files = all_files(first)
    if len(files) == 1:
        return first
    for other in files:
        if (other.version, other.byte_order) != (first.version, first.byte_order):
            what = "is of another version or byte order than the first file of its set"
            raise UnsupportedError(what, source=other.name)
    return JoinedGguf(files)
