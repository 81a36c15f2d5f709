"""Numbers that a folder has as tensors, one a layer, and a GGUF as arrays of its metadata."""

from __future__ import annotations

from functools import partial

from mtkit.architectures.table import ANY_LAYER
from mtkit.checkpoints.safetensors_writer import NewWeight
from mtkit.conversion.model_tensors import TYPES
from mtkit.errors import FormatError
from mtkit.gguf.arrays import GgufArray
from mtkit.gguf.types import BY_NAME
from mtkit.gguf.values import F32, decoded, encoded
from mtkit.gguf.writer import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mtkit.architectures import Architecture
    from mtkit.architectures.dims import Dims
    from mtkit.checkpoints.folder_files import Stored
    from mtkit.gguf.file import Metadata


def keys(architecture: Architecture, dims: Dims, tensors: Mapping[str, Stored]) -> Iterator[Key]:
    """Yield the keys of a GGUF; the tensors are there.

    Raises:
        FormatError: One is not a single number.
    """
    for one in architecture.layer_numbers:
        values = []
        for layer in range(dims.key("block_count")):
            name = one.folder.replace(ANY_LAYER, str(layer))
            found = tensors[name]
            value = found.floats()
            if value.size != 1:
                shape = list(found.weight.shape)
                raise FormatError(f"has the shape {shape}, not one number", field=f"tensor {name}")
            values.append(float(value.reshape(-1)[0]))
        yield Key(one.key, "f32[]", values)


def weights(
    architecture: Architecture, dims: Dims, metadata: Metadata, kind: str
) -> Iterator[NewWeight]:
    """Yield the tensors of a folder.

    Args:
        architecture: Of the model.
        dims: Its sizes.
        metadata: Of the GGUF.
        kind: Type of matrices: f32, f16 or bf16; a number that it would round is F32.

    Raises:
        FormatError: A key is missing or has another number of values than there are layers.
    """
    import numpy as np

    for one in architecture.layer_numbers:
        found = metadata.get(one.key)
        numbers = []
        if isinstance(found, GgufArray) and found.element is BY_NAME["f32"]:
            numbers = list(found.numbers())
        if len(numbers) != dims.key("block_count"):
            raise FormatError("is not an array of a number for each layer", field=one.key)
        values = np.array(numbers, np.float32)
        wanted = TYPES[kind]
        rounded = decoded(encoded(values, wanted), wanted.name)
        if not np.array_equal(rounded, values, equal_nan=True):
            wanted = F32
        for layer, value in enumerate(values):
            data = bytes(encoded(value.reshape(1), wanted))
            name = one.folder.replace(ANY_LAYER, str(layer))
            shape = dims.shape(one.axes)
            yield NewWeight(name, wanted.name, shape, len(data), partial(iter, (data,)))
