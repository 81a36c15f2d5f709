"""The files of a HuggingFace model folder: tensors, JSON, the card.

Of the card, the front matter of README.md is read, as far as its values are texts and
lists of texts; anything else, a card that is no YAML, and what stands behind ``MOST_CARD_BYTES`` is
passed over: a conversion does not fail because of its card.

Source: huggingface/huggingface_hub, repocard.py.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source, read_head
from mtkit.base.record import Record
from mtkit.checkpoints import safetensors
from mtkit.errors import FormatError, MtkitError
from mtkit.gguf.values import decode_values

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, KeysView
    from typing import Any

    from mtkit.checkpoints.safetensors import Header, Weight


MODEL_CONFIG = "config.json"
GENERATION = "generation_config.json"
WEIGHTS = "model.safetensors"
INDEX = WEIGHTS + ".index.json"
_MOST_JSON_BYTES = 1 << 26


class StoredTensor(Record):
    """A tensor in its file.

    Attributes:
        data: Its bytes, little-endian; a view of the mapped file.
    """

    weight: Weight
    data: memoryview
    path: str

    def floats(self) -> Any:
        """Return it as an array of float32."""
        import numpy as np

        raw = np.frombuffer(self.data, np.uint8)
        return decode_values(raw, self.weight.type).reshape(self.weight.shape)

    def equals(self, other: StoredTensor) -> bool:
        """Tell whether another tensor holds the same numbers: in the same type, of equal bytes."""
        import numpy as np

        same_kind = self.weight.type == other.weight.type
        if not same_kind or self.weight.shape != other.weight.shape:
            return False
        left, right = (np.frombuffer(tensor.data, np.uint8) for tensor in (self, other))
        return np.array_equal(left, right)


def files_in(path: str) -> KeysView[str]:
    """Return the names of the files in a folder, sorted.

    Folders, pipes and links to nothing are left out: opening a pipe waits for a writer for ever.
    """
    names = (name for name in sorted(os.listdir(path)) if os.path.isfile(os.path.join(path, name)))
    return dict.fromkeys(names).keys()


def is_weights(name: str) -> bool:
    """Tell by its name whether a file holds weights that are read."""
    return name.startswith("model") and name.endswith(safetensors.SUFFIX)


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


def tensors_of(path: str) -> Iterator[StoredTensor]:
    """Yield the tensors of a file, in the order of their data."""
    source = Source.open(path)
    try:
        header = safetensors.read(source)
    except MtkitError as error:
        raise error.located(path) from None
    yield from tensors_in(source, header)


def tensors_in(source: Source, header: Header) -> Iterator[StoredTensor]:
    """Yield the tensors of a file whose header is read."""
    data = memoryview(source.data)
    for weight in header.weights:
        start = header.n_bytes + weight.offset
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
