"""A HuggingFace model folder: config.json and the weights beside it, in one file or several.

Only headers are read; weights stay in their mapped files until they are asked for. What is not
weights in safetensors is refused by name: pickles, and checkpoints that another program quantized.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source
from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record
from mtkit.checkpoints import safetensors, safetensors_index
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from mtkit.checkpoints.safetensors import Weight

CONFIG = "config.json"
GENERATION = "generation_config.json"
WEIGHTS = "model.safetensors"
MXFP4 = "mxfp4"
"""As ``quant_method`` of a quantization_config calls it."""
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


class ModelFolder(Record):
    """A model as published.

    Attributes:
        path: The folder.
        config: config.json.
        tensors: Name -> tensor, in the order of the files and of the data in them.
    """

    path: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]

    @property
    def architecture(self) -> str:
        """The class of transformers that the config names.

        Raises:
            FormatError: It names none.
        """
        named = class_of(self.config)
        if named:
            return named
        source = os.path.join(self.path, CONFIG)
        raise FormatError("names no architecture", source=source, field="architectures")


def sniff(path: str) -> bool:
    """Tell by a config.json with weights beside it."""
    if not os.path.isfile(os.path.join(path, CONFIG)):
        return False
    has_index = os.path.isfile(os.path.join(path, INDEX))
    return has_index or bool(_files(path) or _pickles(path))


def is_weights(name: str) -> bool:
    """Tell by its name whether a file holds weights of a model, as safetensors or as a pickle."""
    return name in PICKLES or (name.startswith("model") and name.endswith(safetensors.SUFFIX))


def read(path: str, packed: Collection[str] = ()) -> ModelFolder:
    """Read a folder.

    Args:
        path: The folder.
        packed: Classes of models that may have weights of 4 bits (MXFP4).

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or the index lies.
        UnsupportedError: The weights are pickles, or quantized in another way.
    """
    config = read_json(os.path.join(path, CONFIG))
    if not (quantization(config) == MXFP4 and class_of(config) in packed):
        refuse_quantized(config, os.path.join(path, CONFIG))
    names = _weights(path)
    if not names:
        raise _without_weights(path)
    tensors: dict[str, Stored] = {}
    for name in names:
        for stored in tensors_of(os.path.join(path, name)):
            if stored.weight.name in tensors:
                what = f"has {quoted(stored.weight.name)}, which another file has, too"
                raise FormatError(what, source=stored.path)
            tensors[stored.weight.name] = stored
    return ModelFolder(path, config, tensors)


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


def class_of(config: Mapping[str, Any]) -> str:
    """Return the class of transformers that a config names, or nothing."""
    named = config.get("architectures")
    return named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""


def quantization(config: Mapping[str, Any]) -> str:
    """Return how another program quantized the weights, or nothing."""
    said = config.get("quantization_config")
    if not isinstance(said, dict):
        return ""
    return str(said.get("quant_method") or said.get("quant_algo") or "unnamed")


def refuse_quantized(config: Mapping[str, Any], source: str) -> None:
    """Refuse what another program quantized.

    Raises:
        UnsupportedError: The config says so.
    """
    method = quantization(config)
    if method:
        raise UnsupportedError(
            f"the weights are quantized ({shown(method)})",
            source=source,
            field="quantization_config",
            hint="take the model that was quantized, in BF16 or F16",
        )


def _weights(path: str) -> list[str]:
    """Return the names of the files of weights, sorted; the index counts where there is one.

    Raises:
        FormatError: The index is damaged, or says what is not so.
        UsageError: A file that it lists is missing.
    """
    if os.path.isfile(os.path.join(path, INDEX)):
        return sorted(_indexed(os.path.join(path, INDEX)))
    return _files(path)


def _files(path: str) -> list[str]:
    """Return the names of the files that are called like weights."""
    names = sorted(os.listdir(path))
    if WEIGHTS in names:
        return [WEIGHTS]
    return [n for n in names if n.startswith("model") and n.endswith(safetensors.SUFFIX)]


def _indexed(path: str) -> list[str]:
    try:
        index = safetensors_index.read(Source.open(path))
    except MtkitError as error:
        raise error.located(path) from None
    for finding in index.findings:
        if finding.rule is safetensors_index.FILE:
            raise UsageError(finding.what, source=path, hint="download the folder again")
        if finding.rule is safetensors_index.UNLISTED:
            raise FormatError(finding.what, source=path, field=finding.field)
    return list(index.files)


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
    data = memoryview(source.data)
    for weight in header.weights:
        start = header.n_bytes + weight.offset
        yield Stored(weight, data[start : start + weight.n_bytes], path)


def _pickles(path: str) -> list[str]:
    return [name for name in PICKLES if os.path.isfile(os.path.join(path, name))]


def _without_weights(path: str) -> MtkitError:
    found = _pickles(path)
    if not found:
        hint = f"looked for {WEIGHTS} and {INDEX}"
        return UsageError("has no weights", source=path, hint=hint)
    return UnsupportedError(
        f"{found[0]} is a pickle, which runs code when it is loaded",
        source=path,
        hint="in Python: transformers.AutoModel.from_pretrained(FOLDER).save_pretrained(NEW)"
        " writes model.safetensors",
    )
