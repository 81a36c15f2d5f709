"""A HuggingFace model folder: ``survey_folder`` lists all faults, ``read`` refuses the first.

In a survey every fault is a finding, and what is sound is read; ``read`` ends at the first fault
that conversion cannot live with. Only headers are read; weights stay in their mapped files until
they are needed. Pickles, and checkpoints that another program quantized, are refused by name.
"""

from __future__ import annotations

import os
import re

from mtkit.architectures.config import MXFP4, class_of, quantization
from mtkit.base.binary import Source
from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record, replace
from mtkit.base.rules import BrokenRule, Finding, Findings, Rule
from mtkit.checkpoints import safetensors
from mtkit.checkpoints.folder_files import (
    INDEX,
    MODEL_CONFIG,
    PICKLES,
    WEIGHTS,
    StoredTensor,
    files_in,
    is_weights,
    pickle_fault,
    read_json,
    tensors_in,
)
from mtkit.errors import FormatError, UnsupportedError, UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping
    from typing import Any

    from mtkit.checkpoints.safetensors import Header, Index
    from mtkit.errors import MtkitError


TRANSFORMERS, CONVERSION = "transformers", "mtkit convert"
# fmt: off
CONFIG_JSON = Rule("folder-config", "error", TRANSFORMERS, MODEL_CONFIG,
                   "config.json is missing or cannot be read, so the kind of model is unknown. "
                   "Download the folder again.")
NO_WEIGHTS = Rule("folder-weights", "note", TRANSFORMERS, "weights",
                  "The folder has no weights: you can encode with its tokenizer, but not run or "
                  "convert the model.", advice=f"looked for {WEIGHTS} and {INDEX}")
PICKLE = Rule("folder-pickle", "warning", CONVERSION, "weights",
              "The weights are not safetensors but a pickle, which can run any code when "
              "loaded; mtkit never loads one. Use save_pretrained of transformers to write "
              "model.safetensors.",
              advice="in Python: transformers.AutoModel.from_pretrained(FOLDER)"
              f".save_pretrained(NEW) writes {WEIGHTS}")
QUANTIZED = Rule("folder-quantized", "warning", CONVERSION, "quantization_config",
                 "The weights cannot be converted because another tool quantized them (GPTQ, "
                 "AWQ, bitsandbytes, FP8). Convert the original model.",
                 advice="take the model that was quantized, in BF16 or F16")
SHARD = Rule("folder-shard", "error", TRANSFORMERS, "weights",
             "A shard is missing; the names of the others say how many there are. Download what "
             "is missing.", advice="download the folder again")
TENSOR_TWICE = Rule("folder-tensor-twice", "error", TRANSFORMERS, "tensor",
                    "Two files of weights have the same tensor: files of two models are mixed.")
UNUSED = Rule("folder-unused", "note", TRANSFORMERS, "weights",
              "transformers does not load this file of weights.")
# fmt: on
RULES = (CONFIG_JSON, NO_WEIGHTS, PICKLE, QUANTIZED, SHARD, TENSOR_TWICE, UNUSED)
_NUMBERED = re.compile(r"(model.*-)(\d{5})-of-(\d{5})\.safetensors$")
_MOST_SHARDS = 1000


class Survey(Record):
    """A folder as far as it can be read.

    Attributes:
        tensors: Name -> tensor, of the files that can be read.
        files: Files of weights -> bytes; None: the file is missing.
        missing: Tensor of a file that is missing or damaged -> the file.
    """

    path: str
    config: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]
    files: Mapping[str, int | None]
    missing: Mapping[str, str]
    findings: tuple[Finding, ...]

    @property
    def n_bytes(self) -> int:
        """Size of all files of weights."""
        return sum(size or 0 for size in self.files.values())

    @property
    def parameters(self) -> int:
        """Elements of all tensors that are there."""
        return sum(stored.weight.n_elements for stored in self.tensors.values())

    @property
    def types(self) -> dict[str, tuple[int, int, int]]:
        """Type -> number of tensors, of parameters and of bytes; most bytes first."""
        sums: dict[str, tuple[int, int, int]] = {}
        for stored in self.tensors.values():
            weight = stored.weight
            count, parameters, n_bytes = sums.get(weight.type, (0, 0, 0))
            sums[weight.type] = count + 1, parameters + weight.n_elements, n_bytes + weight.n_bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1][2]))


def survey_folder(path: str, packed: Collection[str] = ()) -> Survey:
    """Read a folder: headers of its files of weights, and config.json.

    Args:
        packed: Classes of models that may have weights of 4 bits (MXFP4).
    """
    findings = Findings(strict=False)
    config = _config(path, packed, findings)
    names = files_in(path)
    index = _index(os.path.join(path, INDEX), findings) if INDEX in names else None
    headers: dict[str, Header | None] = dict(index.files) if index else {}
    if not headers:
        for name in _without_index(path, names, findings):
            headers[name] = _header(os.path.join(path, name), findings)
    files: dict[str, int | None] = {}
    tensors: dict[str, StoredTensor] = {}
    for name, header in sorted(headers.items()):
        source = Source.open(os.path.join(path, name)) if name in names else None
        files[name] = None if source is None else len(source.data)
        if source is not None and header is not None:
            _keep_tensors(tensors_in(source, header), tensors, findings)
    weight_map = index.weight_map if index else {}
    missing = {tensor: name for tensor, name in weight_map.items() if headers.get(name) is None}
    _note_unread(path, names, files, findings)
    return Survey(path, config, tensors, files, missing, tuple(findings.entries))


def _config(path: str, packed: Collection[str], findings: Findings) -> Mapping[str, Any]:
    source = os.path.join(path, MODEL_CONFIG)
    if not os.path.isfile(source):
        findings.add(Finding(CONFIG_JSON, MODEL_CONFIG, "is missing", source=source))
        return {}
    try:
        config = read_json(source)
    except FormatError as error:
        findings.add(Finding(CONFIG_JSON, MODEL_CONFIG, error.what, source=source))
        return {}
    method = quantization(config)
    if method and not (method == MXFP4 and class_of(config) in packed):
        what = f"the weights are quantized ({shown(method)})"
        findings.add(Finding(QUANTIZED, QUANTIZED.field, what, source=source))
    return config


def _index(path: str, findings: Findings) -> Index | None:
    """Read the index and the headers of its files; keep what is wrong with them."""
    try:
        index = safetensors.read_index(Source.open(path), strict=False)
    except BrokenRule as error:
        findings.add(replace(error.finding, source=path))
        return None
    for finding in index.findings:
        findings.add(replace(finding, source=finding.source or path))
    return index


def _without_index(path: str, names: Collection[str], findings: Findings) -> Iterator[str]:
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
        shards = (f"{start}{n:05d}-of-{count}.safetensors" for n in range(1, int(count) + 1))
        for name in shards:
            if name not in names:
                findings.add(Finding(SHARD, SHARD.field, f"{shown(name)} is missing", source=path))


def _header(path: str, findings: Findings) -> Header | None:
    """Read the header of a file; keep what is wrong with it."""
    try:
        header = safetensors.read(Source.open(path), strict=False)
    except BrokenRule as error:
        findings.add(replace(error.finding, source=path))
        return None
    for finding in header.findings:
        findings.add(replace(finding, source=path))
    return header


def _keep_tensors(
    more: Iterable[StoredTensor], tensors: dict[str, StoredTensor], findings: Findings
) -> None:
    """Add the tensors of a file but for those that another file has, too."""
    for stored in more:
        name = stored.weight.name
        if name in tensors:
            what = f"is in {shown(os.path.basename(tensors[name].path))} as well"
            findings.add(Finding(TENSOR_TWICE, f"tensor {quoted(name)}", what, source=stored.path))
        else:
            tensors[name] = stored


def _note_unread(
    path: str, names: Collection[str], files: Mapping[str, object], findings: Findings
) -> None:
    """Report weights that are not read: pickles, safetensors that nothing names."""
    pickles = [name for name in PICKLES if name in names]
    if not files and pickles:
        findings.add(Finding(PICKLE, PICKLE.field, pickle_fault(pickles[0]), source=path))
    elif not files:
        what = "the folder contains no weights"
        findings.add(Finding(NO_WEIGHTS, NO_WEIGHTS.field, what, source=path))
    why = f"the weights are in {shown(next(iter(files), ''))}"
    if INDEX in names:
        why = "the index does not name it"
    for name in names:
        if name.endswith(safetensors.SUFFIX) and name not in files:
            source = os.path.join(path, name)
            findings.add(Finding(UNUSED, shown(name), f"is not read: {why}", source=source))


REFUSED_RULES: dict[Rule, type[MtkitError]] = {
    NO_WEIGHTS: UsageError,
    PICKLE: UnsupportedError,
    QUANTIZED: UnsupportedError,
    SHARD: UsageError,
    safetensors.INDEX_FILE: UsageError,
    safetensors.INDEX_UNLISTED: FormatError,
}
"""Broken rule that conversion cannot live with -> what is raised; any other error is a
FormatError."""


class ModelFolder(Record):
    """A model as published.

    Attributes:
        tensors: Name -> tensor, in the order of the files and of the data in them.
    """

    path: str
    config: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]


def sniff(path: str) -> bool:
    """Tell by a config.json with weights beside it."""
    if not os.path.isfile(os.path.join(path, MODEL_CONFIG)):
        return False
    return any(name == INDEX or is_weights(name) for name in files_in(path))


def read(path: str, packed: Collection[str] = ()) -> ModelFolder:
    """Read a folder.

    Args:
        packed: Classes of models that may have weights of 4 bits (MXFP4).

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or the index lies.
        UnsupportedError: The weights are pickles, or quantized in another way.
    """
    if not os.path.isfile(os.path.join(path, MODEL_CONFIG)):
        raise UsageError(f"has no {MODEL_CONFIG}", source=path, hint="a model folder has one")
    survey = survey_folder(path, packed)
    for finding in survey.findings:
        kind = REFUSED_RULES.get(finding.rule, FormatError if finding.is_error else None)
        if kind is not None:
            raise kind(
                finding.what,
                source=finding.source or path,
                field=finding.field if finding.field != MODEL_CONFIG else "",  # its path says it
                offset=finding.offset,
                hint=finding.advice or finding.rule.advice,
            )
    return ModelFolder(path, survey.config, survey.tensors)
