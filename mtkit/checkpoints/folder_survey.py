"""All that a model folder has and lacks: read tolerantly, for those who look at it.

``model_folder`` reads what is converted, and ends at the first fault; here every fault is a
finding, and what is sound beside it is read all the same.
"""

from __future__ import annotations

import os
import re

from mtkit.base.binary import Source
from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record, replace
from mtkit.base.rules import BrokenRule, Finding, Findings, Rule
from mtkit.checkpoints import safetensors, safetensors_index
from mtkit.checkpoints.model_folder import (
    CONFIG,
    INDEX,
    MXFP4,
    PICKLES,
    WEIGHTS,
    Stored,
    class_of,
    quantization,
    read_json,
    refuse_quantized,
)
from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping
    from typing import Any

    from mtkit.checkpoints.safetensors import Header

TRANSFORMERS, CONVERSION = "transformers", "mtkit convert"
CONFIG_JSON = Rule("folder-config", "error", TRANSFORMERS, CONFIG)
NO_WEIGHTS = Rule("folder-weights", "note", TRANSFORMERS, "weights")
PICKLE = Rule("folder-pickle", "warning", CONVERSION, "weights")
QUANTIZED = Rule("folder-quantized", "warning", CONVERSION, "quantization_config")
SHARD = Rule("folder-shard", "error", TRANSFORMERS, "weights")
TENSOR_TWICE = Rule("folder-tensor-twice", "error", TRANSFORMERS, "tensor")
UNUSED = Rule("folder-unused", "note", TRANSFORMERS, "weights")
RULES = (CONFIG_JSON, NO_WEIGHTS, PICKLE, QUANTIZED, SHARD, TENSOR_TWICE, UNUSED)
_NUMBERED = re.compile(r"(model.*-)(\d{5})-of-(\d{5})\.safetensors$")
_MOST_SHARDS = 1000


class Survey(Record):
    """A folder as far as it can be read.

    Attributes:
        path: The folder.
        config: config.json; empty where it is missing or damaged.
        tensors: Name -> tensor, of the files that can be read.
        files: Files of weights -> bytes; None: the file is missing.
        missing: Tensor of a file that is missing or damaged -> the file.
        findings: What is wrong, each with the path of its file.
    """

    path: str
    config: Mapping[str, Any]
    tensors: Mapping[str, Stored]
    files: Mapping[str, int | None]
    missing: Mapping[str, str]
    findings: tuple[Finding, ...]

    @property
    def n_bytes(self) -> int:
        """Of all files of weights."""
        return sum(size or 0 for size in self.files.values())

    @property
    def parameters(self) -> int:
        """Elements of all tensors that are there."""
        return sum(one.weight.n_elements for one in self.tensors.values())

    @property
    def types(self) -> dict[str, tuple[int, int, int]]:
        """Type -> number of tensors, of parameters and of bytes; most bytes first."""
        sums: dict[str, tuple[int, int, int]] = {}
        for stored in self.tensors.values():
            one = stored.weight
            count, parameters, n_bytes = sums.get(one.type, (0, 0, 0))
            sums[one.type] = count + 1, parameters + one.n_elements, n_bytes + one.n_bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1][2]))


def survey(path: str, packed: Collection[str] = ()) -> Survey:
    """Read a folder: headers of its files of weights, and config.json.

    Args:
        path: The folder.
        packed: Classes of models that may have weights of 4 bits (MXFP4).
    """
    found = Findings(strict=False)
    config = _config(path, packed, found)
    names = sorted(os.listdir(path))
    files: dict[str, int | None] = {}
    missing: dict[str, str] = {}
    weight_map: Mapping[str, str] = {}
    if INDEX in names:
        weight_map = _index(os.path.join(path, INDEX), files, found)
    if not files:
        files.update(dict.fromkeys(_without_index(path, names, found)))
    tensors: dict[str, Stored] = {}
    for name in sorted(files):
        is_there = name == os.path.basename(name) and name in names
        header = _header(path, name, files, tensors, found) if is_there else None
        if header is None:
            missing.update((tensor, name) for tensor, file in weight_map.items() if file == name)
    _beside(path, names, files, found)
    return Survey(path, config, tensors, files, missing, tuple(found.found))


def _config(path: str, packed: Collection[str], found: Findings) -> Mapping[str, Any]:
    source = os.path.join(path, CONFIG)
    if not os.path.isfile(source):
        found.add(Finding(CONFIG_JSON, CONFIG, "is missing", source=source))
        return {}
    try:
        config = read_json(source)
    except FormatError as error:
        found.add(Finding(CONFIG_JSON, CONFIG, error.what, source=source))
        return {}
    if quantization(config) == MXFP4 and class_of(config) in packed:
        return config
    try:
        refuse_quantized(config, source)
    except UnsupportedError as error:
        found.add(Finding(QUANTIZED, error.field, error.what, None, error.hint, source))
    return config


def _index(path: str, files: dict[str, int | None], found: Findings) -> Mapping[str, str]:
    """Keep the files that the index names, and what is wrong with it."""
    try:
        index = safetensors_index.read(Source.open(path), strict=False)
    except BrokenRule as error:
        found.add(replace(error.finding, source=path))
        return {}
    for finding in index.findings:
        if not finding.source:  # those of its files are found as they are read
            found.add(replace(finding, source=path))
    files.update(dict.fromkeys(index.files))
    return index.weight_map


def _without_index(path: str, names: list[str], found: Findings) -> Iterator[str]:
    if WEIGHTS in names:
        yield WEIGHTS
        return
    numbered = set()
    for name in names:
        if name.startswith("model") and name.endswith(safetensors.SUFFIX):
            yield name
            part = _NUMBERED.match(name)
            if part and int(part[3]) <= _MOST_SHARDS:
                numbered.add((part[1], part[3]))
    for start, count in sorted(numbered):
        wanted = (f"{start}{n:05d}-of-{count}.safetensors" for n in range(1, int(count) + 1))
        for name in wanted:
            if name not in names:
                found.add(Finding(SHARD, SHARD.field, f"{shown(name)} is missing", source=path))


def _header(
    path: str,
    name: str,
    files: dict[str, int | None],
    tensors: dict[str, Stored],
    found: Findings,
) -> Header | None:
    """Read the header of a file and keep its tensors."""
    full = os.path.join(path, name)
    source = Source.open(full)
    files[name] = len(source.data)
    try:
        header = safetensors.read(source, strict=False)
    except BrokenRule as error:
        found.add(replace(error.finding, source=full))
        return None
    for finding in header.findings:
        found.add(replace(finding, source=full))
    data = memoryview(source.data)
    for weight in header.weights:
        if weight.name in tensors:
            what = f"is in {shown(os.path.basename(tensors[weight.name].path))} as well"
            found.add(Finding(TENSOR_TWICE, f"tensor {quoted(weight.name)}", what, source=full))
            continue
        start = header.n_bytes + weight.offset
        tensors[weight.name] = Stored(weight, data[start : start + weight.n_bytes], full)
    return header


def _beside(path: str, names: list[str], files: Mapping[str, object], found: Findings) -> None:
    """Say what of the weights is not read: pickles, safetensors that nothing names."""
    pickles = [name for name in PICKLES if name in names]
    if not files and pickles:
        what = f"{pickles[0]} is a pickle, which runs code when it is loaded"
        advice = (
            "transformers.AutoModel.from_pretrained(FOLDER).save_pretrained(NEW) writes "
            "model.safetensors"
        )
        found.add(Finding(PICKLE, PICKLE.field, what, None, advice, path))
    elif not files:
        what = "there are none: the folder has a tokenizer at most"
        found.add(Finding(NO_WEIGHTS, NO_WEIGHTS.field, what, source=path))
    unused = [one for one in names if one.endswith(safetensors.SUFFIX) and one not in files]
    why = f"the weights are in {shown(next(iter(files), ''))}"
    if INDEX in names:
        why = "the index does not name it"
    for name in unused:
        source = os.path.join(path, name)
        found.add(Finding(UNUSED, shown(name), f"is not read: {why}", source=source))
