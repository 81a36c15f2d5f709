"""Rows of a matrix in a GGUF file, as stored or as floats.

A row of a quantized matrix is a whole number of blocks, so rows can be taken out byte for byte.
"""

from __future__ import annotations

from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.gguf.file import GgufFile, Tensor


class Rows:
    """The rows of a matrix; the file stays mapped as long as the object lives.

    Attributes:
        tensor: The matrix.
        count: Number of rows.
        width: Elements in a row.
    """

    def __init__(self, file: GgufFile, tensor: Tensor) -> None:
        """Look at a matrix.

        Raises:
            FormatError: It is not a matrix.
            UnsupportedError: The file is big-endian.
        """
        import numpy as np

        if len(tensor.shape) != 2:
            raise FormatError("is not a matrix", source=file.name, field=tensor.name)
        if file.byte_order != "little":
            raise UnsupportedError("is big-endian", source=file.name)
        self._file, self.tensor = file, tensor
        self.width, self.count = tensor.shape
        data = np.frombuffer(file.tensor_data(tensor), np.uint8)
        self._bytes = data.reshape(self.count, tensor.n_bytes // max(self.count, 1))

    def stored(self, ids: Any) -> Any:
        """Return rows as stored: uint8 of shape (n, bytes of a row)."""
        return self._bytes[ids]

    def values(self, ids: Any) -> Any:
        """Return rows as numbers: float32 of shape (n, width).

        Raises:
            UnsupportedError: The type cannot be dequantized.
        """
        import gguf
        import numpy as np

        kind = gguf.GGMLQuantizationType(self.tensor.type.number)
        try:
            found = gguf.dequantize(self._bytes[ids], kind)
        except (NotImplementedError, ValueError):
            raise UnsupportedError(
                f"{self.tensor.type.name} cannot be dequantized",
                source=self._file.name,
                field=self.tensor.name,
            ) from None
        return np.ascontiguousarray(found, np.float32)
