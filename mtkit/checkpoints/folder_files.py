"""The files of a HuggingFace model folder: what they are called, and how one of them is read."""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.base.escape import shown
from mtkit.base.record import Record
from mtkit.checkpoints import safetensors
from mtkit.errors import FormatError, MtkitError
from mtkit.gguf.values import decoded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, KeysView
    from typing import Any

    from mtkit.checkpoints.safetensors import Header, Weight

CONFIG = "config.json"
GENERATION = "generation_config.json"
WEIGHTS = "model.safetensors"
INDEX = WEIGHTS + ".index.json"
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth")
_MOST_JSON_BYTES = 1 << 26


class Stored(Record):
    """A tensor in its file.

    Attributes:
        weight: Its row in the header.
        data: Its bytes, little-endian; a view of the mapped file.
        path: Of the file.
    """

    weight: Weight
    data: memoryview
    path: str

    def floats(self) -> Any:
        """Return it as an array of float32."""
        import numpy as np

        raw = np.frombuffer(self.data, np.uint8)
        return decoded(raw, self.weight.type).reshape(self.weight.shape)


def files_in(path: str) -> KeysView[str]:
    """Return the names of the files in a folder, sorted.

    Folders, pipes and links to nothing are left out: opening a pipe waits for a writer for ever.
    """
    names = (name for name in sorted(os.listdir(path)) if os.path.isfile(os.path.join(path, name)))
    return dict.fromkeys(names).keys()


def is_weights(name: str) -> bool:
    """Tell by its name whether a file holds weights of a model, as safetensors or as a pickle."""
    return name in PICKLES or (name.startswith("model") and name.endswith(safetensors.SUFFIX))


def pickled(name: str) -> str:
    """Return what is wrong with weights in a pickle."""
    return f"{shown(name)} is a pickle, which runs code when it is loaded"


def read_json(path: str) -> dict[str, Any]:
    """Read an object of a JSON file.

    Raises:
        UsageError: There is no such file.
        FormatError: It is not a JSON object.
    """
    import json

    data = Source.open(path).data
    try:
        found = json.loads(str(data, "utf-8")) if len(data) <= _MOST_JSON_BYTES else None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        raise FormatError("is not a JSON object", source=path)
    return found


def tensors_of(path: str) -> Iterator[Stored]:
    """Yield the tensors of a file, in the order of their data.

    Raises:
        UsageError: There is no such file.
        FormatError: It is damaged.
    """
    source = Source.open(path)
    try:
        header = safetensors.read(source)
    except MtkitError as error:
        raise error.located(path) from None
    yield from stored_in(source, header)


def stored_in(source: Source, header: Header) -> Iterator[Stored]:
    """Yield the tensors of a file whose header is read."""
    data = memoryview(source.data)
    for weight in header.weights:
        start = header.n_bytes + weight.offset
        yield Stored(weight, data[start : start + weight.n_bytes], source.name)
