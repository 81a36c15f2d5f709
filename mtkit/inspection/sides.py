"""What two models are compared by: metadata, and tensors whose data comes piece by piece.

A side is a GGUF file, or something else seen as one (``conversion.folder_side``).
"""

from __future__ import annotations

from mtkit.base.binary import pieces
from mtkit.base.record import Record
from mtkit.inspection.statistics import numbers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any, Protocol

    from mtkit.base.binary import Buffer
    from mtkit.gguf.file import GgufFile, Metadata, Tensor

    class SideTensor(Protocol):
        """A tensor of a side."""

        name: str
        shape: tuple[int, ...]
        """Fastest axis first."""
        type: str
        """Of its elements, as GGUF or safetensors names it."""
        n_bytes: int

        def data_as(self, kind: str) -> Iterator[Buffer] | None:
            """Give its data in a type, piece by piece; None where it cannot be had exactly so."""

        def values(self) -> Iterator[Any] | None:
            """Give its elements, arrays of floats of one axis; None where they are not known."""


STEP = 1 << 18
"""Elements at a time: 2 MB as float64, which fits an L2 cache."""
_PIECE_BYTES = 1 << 22


class Side(Record):
    """A model that is compared with another.

    Attributes:
        name: Path of its file or folder.
        metadata: Key -> value, with types.
        tensors: Name -> tensor.
        is_file: Whether it is a GGUF file; else its names are those that conversion would give.
    """

    name: str
    metadata: Metadata
    tensors: Mapping[str, SideTensor]
    is_file: bool = True


class FileTensor:
    """A tensor of a GGUF file."""

    def __init__(self, file: GgufFile, tensor: Tensor) -> None:
        self._file, self._tensor = file, tensor
        self.name, self.shape, self.n_bytes = tensor.name, tensor.shape, tensor.n_bytes
        self.type = tensor.type.name

    def data_as(self, kind: str) -> Iterator[Buffer] | None:
        """Give its data in the type that it has."""
        if kind != self.type:
            return None
        return pieces(self._file.tensor_data(self._tensor), _PIECE_BYTES)

    def values(self) -> Iterator[Any] | None:
        """Give its elements as float64; None where the type cannot be dequantized."""
        kind, order = self._tensor.type, self._file.byte_order
        if numbers(bytes(kind.block_bytes), kind, order) is None:
            return None
        step = max(STEP // kind.block, 1) * kind.block_bytes
        data = self._file.tensor_data(self._tensor)
        return (numbers(piece, kind, order) for piece in pieces(data, step))


def side_of(file: GgufFile) -> Side:
    """Return a GGUF file as a side."""
    tensors = {name: FileTensor(file, one) for name, one in file.names.items()}
    return Side(file.name, file.metadata, tensors)
