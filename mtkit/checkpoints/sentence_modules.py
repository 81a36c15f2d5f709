"""The modules that sentence-transformers puts behind a model: pooling, dense layers, a norm.

modules.json lists them, each with a type and a folder of its own. llama.cpp pools, scales to length
1 where its caller asks for it, and has dense layers in EmbeddingGemma alone.

Source: sentence-transformers, models/Pooling.py, models/Dense.py; llama.cpp, conversion/base.py
(``_try_set_pooling_type``), conversion/gemma.py (``EmbeddingGemma``).
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.base.escape import is_utf8, shown
from mtkit.base.record import Record
from mtkit.checkpoints.folder_files import (
    POOLING_MODULES,
    WEIGHTS,
    files_in,
    read_json,
    tensors_of,
)
from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

    from mtkit.checkpoints.folder_files import StoredTensor


POOLING_MODES = {
    "pooling_mode_mean_tokens": "mean",
    "pooling_mode_cls_token": "cls",
    "pooling_mode_lasttoken": "lasttoken",
}
_MODE = "pooling_mode_"
"""What the fields begin with that say how vectors are pooled; several that are true add up."""
_MOST_MODULES_BYTES = 1 << 20
_POOLING, _DENSE = "Pooling", "Dense"
_KEPT = ("Transformer", _POOLING, _DENSE, "Normalize")
_FIELDS = {
    _POOLING: ("word_embedding_dimension", "embedding_dimension", "pooling_mode", "include_prompt"),
    _DENSE: ("in_features", "out_features", "bias", "activation_function"),
}
"""Fields of a module's config.json that are read, or that its tensors say."""
_CLIENT = "config_sentence_transformers.json"
_IDENTITY = "torch.nn.modules.linear.Identity"


class Module(Record):
    """A row of modules.json.

    Attributes:
        kind: The last part of its type.
        place: Its folder beside modules.json; "" for the model itself.
    """

    kind: str
    place: str


class Dense(Record):
    """A dense layer behind the pooling.

    Attributes:
        number: 2 or 3, as llama.cpp names it.
    """

    number: int
    weight: StoredTensor
    columns: int
    rows: int


def read_modules(path: str) -> list[Module]:
    """Return the modules of a model; none where it has no modules.json."""
    file = os.path.join(path, POOLING_MODULES)
    if not os.path.isfile(file):
        return []
    modules = []
    for entry in _entries(file):
        kind, place = entry.get("type"), entry.get("path", "")
        if not isinstance(place, str) or not _is_beside(place):
            raise FormatError("is not a folder beside it", source=file, field="path")
        modules.append(Module(str(kind).rpartition(".")[2], place))
    return modules


def pooling_of(path: str) -> str | None:
    """Return the pooling of a model, in the words of sentence-transformers, or None."""
    for module in read_modules(path):
        if module.kind.endswith(_POOLING):
            config = read_json(os.path.join(path, module.place, "config.json"))
            modes = [field for field, value in config.items() if value is True and _MODE in field]
            names = [POOLING_MODES.get(field, field.removeprefix(_MODE)) for field in modes]
            return " and ".join(names) or str(config.get("pooling_mode", "unknown"))
    return None


def dense_places(path: str) -> list[str]:
    """Return the folders of dense layers."""
    return [module.place for module in read_modules(path) if module.kind == _DENSE]


def read_dense(path: str) -> Iterator[Dense]:
    """Yield the dense layers behind the pooling.

    Raises:
        UnsupportedError: llama.cpp computes something else than such a layer.
    """
    for number, place in enumerate(dense_places(path), 2):
        folder = os.path.join(path, place)
        config = read_json(os.path.join(folder, "config.json"))
        activation = config.get("activation_function", _IDENTITY)
        if number > 3:
            raise UnsupportedError("llama.cpp has two dense layers at most", source=folder)
        if activation != _IDENTITY:
            what = f"is {shown(str(activation))}; llama.cpp has none behind a dense layer"
            raise UnsupportedError(what, source=folder, field="activation_function")
        tensors = {stored.weight.name: stored for stored in _tensors(folder)}
        weight = tensors.pop("linear.weight", None)
        if tensors:
            what = f"has {shown(next(iter(tensors)))}; llama.cpp has a matrix alone"
            raise UnsupportedError(what, source=folder)
        if weight is None or len(weight.weight.shape) != 2:
            raise FormatError("has no matrix linear.weight", source=folder)
        rows, columns = weight.weight.shape
        yield Dense(number, weight, columns, rows)


def _tensors(folder: str) -> Iterator[StoredTensor]:
    path = os.path.join(folder, WEIGHTS)
    if not os.path.isfile(path):
        raise UnsupportedError(f"has no {WEIGHTS}, the form of weights that is read", source=folder)
    return tensors_of(path)


def module_notes(path: str) -> Iterator[str]:
    """Yield what of the modules a GGUF does not hold, but for dense layers."""
    for module in read_modules(path):
        where = f" ({shown(module.place)})" if module.place else ""
        if module.kind not in _KEPT:
            kind = shown(module.kind)
            yield f"{POOLING_MODULES}: {kind}{where} is not kept: llama.cpp has no such layer"
        elif module.place and os.path.isfile(os.path.join(path, module.place, "config.json")):
            config = read_json(os.path.join(path, module.place, "config.json"))
            known = _FIELDS.get(module.kind, ())
            left = [name for name in config if not name.startswith((*known, _MODE))]
            if left:
                names = ", ".join(map(shown, left))
                yield f"{module.place}/config.json: not used, effect unknown: {names}"
    for name in files_in(path):
        if name.startswith("sentence_") and name.endswith("_config.json"):
            if read_json(os.path.join(path, name)).get("do_lower_case") is True:
                yield f"{name}: do_lower_case is true, but llama.cpp leaves capital letters"
        elif name == _CLIENT:
            prompt = read_json(os.path.join(path, name)).get("default_prompt_name")
            if isinstance(prompt, str):
                what = f"{name}: the prompt {shown(prompt)!r} is not kept"
                yield f"{what}: whoever asks for a vector puts it before the text"


def _is_beside(place: str) -> bool:
    leaves = os.path.isabs(place) or ".." in place.split("/")
    return not leaves and is_utf8(place) and place.isprintable()


def _entries(file: str) -> list[dict[str, Any]]:
    import json

    data = Source.open(file).data
    try:
        modules = json.loads(bytes(data)) if len(data) <= _MOST_MODULES_BYTES else None
    except (ValueError, RecursionError):
        modules = None
    if not isinstance(modules, list) or not all(isinstance(module, dict) for module in modules):
        raise FormatError("is not a JSON list of objects", source=file)
    return modules
