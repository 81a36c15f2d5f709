"""The files of a HuggingFace model folder: tensors, JSON, the card.

Of the card, the front matter of README.md is read, as far as its values are texts and
lists of texts; anything else, a card that is no YAML, and what stands behind ``MOST_CARD_BYTES`` is
passed over: a conversion does not fail because of its card.

Source: huggingface/huggingface_hub, repocard.py.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source, give_back, read_head
from mtkit.base.record import Record, replace
from mtkit.checkpoints import safetensors
from mtkit.errors import FormatError, MtkitError
from mtkit.gguf.values import DTYPES, decode_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, KeysView, Mapping
    from typing import Any

    from mtkit.checkpoints.safetensors import Header, Weight


MODEL_CONFIG = "config.json"
GENERATION = "generation_config.json"
WEIGHTS = "model.safetensors"
INDEX = WEIGHTS + ".index.json"
TORCH_WEIGHTS = "pytorch_model.bin"
TORCH_INDEX = TORCH_WEIGHTS + ".index.json"
_MOST_JSON_BYTES = 1 << 26
_BLOCK = 1 << 18
"""Numbers that are computed at once: as many as ``gguf.values`` converts."""


class StoredTensor(Record):
    """A tensor in its file.

    Attributes:
        view: Its bytes, little-endian, in the mapped file.
    """

    weight: Weight
    view: memoryview
    path: str

    @property
    def data(self) -> memoryview:
        """Its bytes."""
        return self.view

    @property
    def is_plain(self) -> bool:
        """Whether it lies in a safetensors file as it is."""
        return self.path.endswith(safetensors.SUFFIX)

    def floats(self) -> Any:
        """Return it as an array of float32."""
        return self.values(0, self.weight.n_elements).reshape(self.weight.shape)

    def values(self, start: int, stop: int) -> Any:
        """Return the numbers from one to another: float32 of one axis."""
        import numpy as np

        count = self.weight.n_elements
        size = len(self.data) // count if count else 0
        raw = np.frombuffer(self.data[start * size : stop * size], np.uint8)
        return decode_values(raw, self.weight.type)

    def equals(self, other: StoredTensor) -> bool:
        """Tell whether another tensor holds the same numbers: in the same type, of equal bytes."""
        import numpy as np

        same_kind = self.weight.type == other.weight.type
        if not same_kind or self.weight.shape != other.weight.shape:
            return False
        left, right = (np.frombuffer(tensor.data, np.uint8) for tensor in (self, other))
        return np.array_equal(left, right)


class ComputedTensor(StoredTensor):
    """A tensor whose numbers are computed from others, a few rows at a time.

    Attributes:
        weight: As it is when it is computed; ``offset`` is nowhere.
        rows: (first row, last) → those rows of the first axis: an array of bits of its type.
        parts: The tensors of which it is computed.
    """

    rows: Callable[[int, int], Any]
    parts: tuple[StoredTensor, ...]

    @property
    def data(self) -> memoryview:
        """All its bytes, computed anew."""
        return memoryview(b"".join(self.blocks()))

    @property
    def is_plain(self) -> bool:
        """It does not lie anywhere."""
        return False

    @property
    def n_rows(self) -> int:
        """Length of the first axis."""
        return self.weight.shape[0] if self.weight.shape else 1

    def blocks(self) -> Iterator[memoryview]:
        """Yield its bytes, whole rows at a time."""
        step = max(_BLOCK * self.n_rows // max(self.weight.n_elements, 1), 1)
        for start in range(0, self.n_rows, step):
            yield _bytes_of(self.rows(start, min(start + step, self.n_rows)))
            for part in self.parts:
                give_back(part.data)

    def values(self, start: int, stop: int) -> Any:
        """Return the numbers from one to another: float32 of one axis."""
        import numpy as np

        row = max(self.weight.n_elements // max(self.n_rows, 1), 1)
        first, last = start // row, -(-stop // row)
        raw = np.frombuffer(_bytes_of(self.rows(first, last)), np.uint8)
        numbers = decode_values(raw, self.weight.type)
        return numbers[start - first * row : stop - first * row]


class PackedTensor(ComputedTensor):
    """A matrix whose bytes stay those of a quantized type in a GGUF; only their order changes.

    Attributes:
        rows: (first row, last) → the bytes of those rows.
        scales: End of a tensor of the GGUF → the number by which it is multiplied.
        weights_only: llama.cpp shall not quantize what it is multiplied with to 4 bits.
    """

    scales: Mapping[str, float]
    weights_only: bool = False


def _bytes_of(array: Any) -> memoryview:
    import numpy as np

    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def transposed(stored: StoredTensor) -> StoredTensor:
    """Return a matrix with its axes exchanged; other tensors as they are."""
    weight = stored.weight
    if len(weight.shape) != 2 or weight.type not in DTYPES:
        return stored
    rows, columns = weight.shape
    size = weight.n_bytes // max(rows * columns, 1)
    turned = replace(weight, shape=(columns, rows), strides=(size, size * columns))
    return _strided(turned, stored.data, stored.path)


def _strided(weight: Weight, data: memoryview, path: str) -> ComputedTensor:
    """Return a tensor whose numbers lie scattered in its storage."""

    def rows(start: int, stop: int) -> Any:
        import numpy as np

        bits = np.frombuffer(data, np.uint8)
        dtype = np.dtype(DTYPES.get(weight.type, "u1"))
        first = np.ndarray(weight.shape, dtype, bits, 0, weight.strides)
        return first[start:stop]

    own = StoredTensor(weight, data, path)
    return ComputedTensor(replace(weight, strides=()), memoryview(b""), path, rows, (own,))


def files_in(path: str) -> KeysView[str]:
    """Return the names of the files in a folder, sorted.

    Folders, pipes and links to nothing are left out: opening a pipe waits for a writer for ever.
    """
    names = (name for name in sorted(os.listdir(path)) if os.path.isfile(os.path.join(path, name)))
    return dict.fromkeys(names).keys()


def is_weights(name: str) -> bool:
    """Tell by its name whether a file holds weights that are read."""
    return is_safetensors(name) or is_torch(name)


def is_safetensors(name: str) -> bool:
    """Tell by its name whether a file holds weights as safetensors."""
    return name.startswith("model") and name.endswith(safetensors.SUFFIX)


def is_torch(name: str) -> bool:
    """Tell by its name whether a file holds weights as torch.save writes them."""
    return name.startswith("pytorch_model") and name.endswith(".bin")


def read_header(source: Source, *, strict: bool = True) -> Header:
    """Read which tensors a file of weights has."""
    if source.name.endswith(safetensors.SUFFIX):
        return safetensors.read(source, strict=strict)
    from mtkit.checkpoints import torch_file

    return torch_file.read(source)  # whose every fault ends the reading


def read_json(path: str) -> dict[str, Any]:
    """Read an object of a JSON file."""
    import json

    data = Source.open(path).data
    try:
        document = json.loads(str(data, "utf-8")) if len(data) <= _MOST_JSON_BYTES else None
    except (ValueError, RecursionError):
        document = None
    if not isinstance(document, dict):
        raise FormatError("is not a JSON object", source=path)
    return document


def optional_json(folder: str, name: str) -> dict[str, Any]:
    """Return an object beside the weights; empty where it is missing or damaged."""
    try:
        return read_json(os.path.join(folder, name))
    except MtkitError:
        return {}


def tensors_of(path: str) -> Iterator[StoredTensor]:
    """Yield the tensors of a file, in the order of their data."""
    source = Source.open(path)
    try:
        header = read_header(source)
    except MtkitError as error:
        raise error.located(path) from None
    yield from tensors_in(source, header)


def tensors_in(source: Source, header: Header) -> Iterator[StoredTensor]:
    """Yield the tensors of a file whose header is read."""
    data = memoryview(source.data)
    for weight in header.weights:
        start = header.n_bytes + weight.offset
        if weight.strides:
            steps = zip(weight.shape, weight.strides, strict=True)
            end = sum((n - 1) * step for n, step in steps) + weight.n_bytes // weight.n_elements
            yield _strided(weight, data[start : start + end], source.name)
        else:
            yield StoredTensor(weight, data[start : start + weight.n_bytes], source.name)


POOLING_MODULES = "modules.json"
CARD = "README.md"
MOST_CARD_BYTES = 1 << 16
_MOST_ITEMS = 1000
_FENCE = "---"

Card = dict[str, "str | list[str]"]


def read_card(folder: str) -> Card:
    """Return name -> value; empty where there is no readable card."""
    import yaml

    head = read_head(os.path.join(folder, CARD), MOST_CARD_BYTES)
    lines = head.decode("utf-8", "replace").splitlines()
    if lines[:1] != [_FENCE] or _FENCE not in lines[1:]:
        return {}
    front = "\n".join(lines[1 : lines.index(_FENCE, 1)]).replace("\t", "  ")
    try:
        # The base loader makes nothing but texts, lists and objects, and copies no alias.
        document = yaml.load(front, yaml.BaseLoader)  # noqa: S506
    except (yaml.YAMLError, RecursionError, ValueError):
        return {}
    return {
        name: value
        for name, value in (document.items() if isinstance(document, dict) else ())
        if isinstance(name, str) and _is_plain_value(value)
    }


def _is_plain_value(value: object) -> bool:
    if isinstance(value, list) and len(value) <= _MOST_ITEMS:
        return all(isinstance(text, str) for text in value)
    return isinstance(value, str)
