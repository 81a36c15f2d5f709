"""The files of a HuggingFace model folder: tensors, JSON, the pooling of sentences, the card.

The pooling (how sentence-transformers makes one vector of a text) stands in files beside
config.json. Of the card, the front matter of README.md is read, as far as its values are texts and
lists of texts; anything else, a card that is no YAML, and what stands behind ``MOST_CARD_BYTES`` is
passed over: a conversion does not fail because of its card.

Source: sentence-transformers, models/Pooling.py; llama.cpp, conversion/base.py
(``_try_set_pooling_type``).
Source: huggingface/huggingface_hub, repocard.py.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.base.escape import is_utf8, shown
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
PICKLES = ("pytorch_model.bin", "pytorch_model.bin.index.json", "consolidated.00.pth")
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


def files_in(path: str) -> KeysView[str]:
    """Return the names of the files in a folder, sorted.

    Folders, pipes and links to nothing are left out: opening a pipe waits for a writer for ever.
    """
    names = (name for name in sorted(os.listdir(path)) if os.path.isfile(os.path.join(path, name)))
    return dict.fromkeys(names).keys()


def is_weights(name: str) -> bool:
    """Tell by its name whether a file holds weights of a model, as safetensors or as a pickle."""
    return name in PICKLES or (name.startswith("model") and name.endswith(safetensors.SUFFIX))


def pickle_fault(name: str) -> str:
    """Return why weights in a pickle are refused."""
    return f"{shown(name)} is a pickle, which runs code when it is loaded"


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
POOLING_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "lasttoken",
}
_MOST_MODULES_BYTES = 1 << 20


def pooling_of(path: str) -> str | None:
    """Return the pooling of a model, in the words of sentence-transformers, or None."""
    file = os.path.join(path, POOLING_MODULES)
    if not os.path.isfile(file):
        return None
    for module in _modules(file):
        kind, place = module.get("type"), module.get("path")
        if isinstance(kind, str) and kind.endswith("Pooling"):
            if not isinstance(place, str) or not _is_beside(place):
                raise FormatError("is not a folder beside it", source=file, field="path")
            config = read_json(os.path.join(path, place, "config.json"))
            modes = (mode for field, mode in POOLING_MODES.items() if config.get(field))
            return next(modes, str(config.get("pooling_mode", "unknown")))
    return None


def _is_beside(place: str) -> bool:
    leaves = os.path.isabs(place) or ".." in place.split("/")
    return not leaves and is_utf8(place) and "\0" not in place


def _modules(file: str) -> list[dict[str, Any]]:
    import json

    data = Source.open(file).data
    try:
        modules = json.loads(bytes(data)) if len(data) <= _MOST_MODULES_BYTES else None
    except (ValueError, RecursionError):
        modules = None
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise FormatError("is not a JSON list of objects", source=file)
    return modules


CARD = "README.md"
MOST_CARD_BYTES = 1 << 16
_MOST_ITEMS = 1000
_FENCE = "---"

Card = dict[str, "str | list[str]"]


def read_card(folder: str) -> Card:
    """Return name -> value; empty where there is no readable card."""
    import yaml

    path = os.path.join(folder, CARD)
    if not os.path.isfile(path):
        return {}
    with open(path, "rb") as file:
        lines = file.read(MOST_CARD_BYTES).decode("utf-8", "replace").splitlines()
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
