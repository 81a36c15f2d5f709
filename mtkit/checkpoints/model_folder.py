"""A HuggingFace model folder: ``survey_folder`` lists all faults, ``read`` refuses the first.

In a survey every fault is a finding, and what is sound is read; ``read`` ends at the first fault
that conversion cannot live with. Only headers are read; weights stay in their mapped files until
they are needed. Pickles, and checkpoints that another program quantized, are refused by name.
"""

from __future__ import annotations

import os
import re

from mtkit.architectures.config import MLX, MXFP4, class_of, quantization
from mtkit.base.binary import Source
from mtkit.base.escape import quoted, shown
from mtkit.base.record import Record, replace
from mtkit.base.rules import BrokenRule, Finding, Findings, Rule
from mtkit.checkpoints import mistral_form, safetensors
from mtkit.checkpoints.folder_files import (
    INDEX,
    MODEL_CONFIG,
    TORCH_INDEX,
    TORCH_WEIGHTS,
    WEIGHTS,
    StoredTensor,
    files_in,
    is_safetensors,
    is_torch,
    is_weights,
    optional_json,
    read_header,
    read_json,
    tensors_in,
)
from mtkit.checkpoints.quantization import MODELOPT_CONFIG, plain_tensors, with_settings
from mtkit.checkpoints.tensor_names import common_prefix, has_parts, text_names
from mtkit.checkpoints.weight_forms import loader_of, unread_weights
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError, format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from typing import Any

    from mtkit.checkpoints.safetensors import Header, Index


TRANSFORMERS, CONVERSION = "transformers", "mtkit convert"
# fmt: off
CONFIG_JSON = Rule("folder-config", "error", TRANSFORMERS, MODEL_CONFIG,
                   "config.json is missing or cannot be read, so the kind of model is unknown. "
                   "Download the folder again.")
NO_WEIGHTS = Rule("folder-weights", "note", TRANSFORMERS, "weights",
                  "The folder has no weights: you can encode with its tokenizer, but not run or "
                  "convert the model.", advice=f"looked for {WEIGHTS} and {INDEX}")
PICKLE = Rule("folder-pickle", "warning", CONVERSION, "weights",
              "The weights are not safetensors but a pickle of a training program, which can run "
              "any code when loaded; mtkit reads only pytorch_model.bin and its shards. Use "
              "save_pretrained of transformers to write model.safetensors.")
FORM = Rule("folder-form", "warning", CONVERSION, "weights",
            "The weights are in a form that mtkit does not read, so there is no model to convert. "
            "mtkit convert --vocab-only converts the tokenizer alone.")
TWO_WEIGHTS = Rule("folder-two-weights", "error", TRANSFORMERS, "weights",
                   "model.safetensors and the shards of an index are both there and differ. "
                   "transformers loads model.safetensors, llama.cpp's converter the shards.",
                   advice=f"remove {WEIGHTS}, or {INDEX} with its shards")
PREFIX = Rule("folder-prefix", "note", CONVERSION, "tensor",
              "All names of tensors have more in front than they should: a wrapper (torch.compile, "
              "DataParallel, PEFT) put it there. mtkit takes it off; transformers ignores such "
              "tensors.")
TEXT_PART = Rule("folder-text-part", "note", CONVERSION, "tensor",
                 "The model has tensors for pictures or sound, which are not converted; those for "
                 "text are. The others need a file of their own (llama.cpp's mmproj).")
QUANTIZED = Rule("folder-quantized", "warning", CONVERSION, "quantization_config",
                 "Another tool quantized the weights, in a form that mtkit does not read. Convert "
                 "the original model.",
                 advice="take the model that was quantized, in BF16 or F16")
QUANTIZED_PARTS = Rule("folder-quantized-parts", "error", CONVERSION, "tensor",
                       "The parts of a quantized weight (packed numbers, scales, zero points) do "
                       "not fit each other, or one is missing. Download the folder again.")
SHARD = Rule("folder-shard", "error", TRANSFORMERS, "weights",
             "A shard is missing; the names of the others say how many there are. Download what "
             "is missing.", advice="download the folder again")
TENSOR_TWICE = Rule("folder-tensor-twice", "error", TRANSFORMERS, "tensor",
                    "Two files of weights have the same tensor: files of two models are mixed.")
UNUSED = Rule("folder-unused", "note", TRANSFORMERS, "weights",
              "transformers does not load this file of weights.")
# fmt: on
RULES = (
    CONFIG_JSON,
    NO_WEIGHTS,
    PICKLE,
    FORM,
    TWO_WEIGHTS,
    PREFIX,
    TEXT_PART,
    QUANTIZED,
    QUANTIZED_PARTS,
    SHARD,
    TENSOR_TWICE,
    UNUSED,
)
_NUMBERED = re.compile(
    r"((?:pytorch_)?model.*-|consolidated-)(\d{5})-of-(\d{5})(\.safetensors|\.bin)$"
)
_MOST_SHARDS = 1000


class Survey(Record):
    """A folder as far as it can be read.

    Attributes:
        tensors: Name -> tensor, of the files that can be read.
        files: Files of weights -> bytes; None: the file is missing.
        missing: Tensor of a file that is missing or damaged -> the file.
        stored: Name -> tensor as it lies in its file, where others are computed of several.
    """

    path: str
    config: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]
    files: Mapping[str, int | None]
    missing: Mapping[str, str]
    findings: tuple[Finding, ...]
    stored: Mapping[str, StoredTensor] = {}

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
        for stored in self.stored.values():
            weight = stored.weight
            count, parameters, n_bytes = sums.get(weight.type, (0, 0, 0))
            sums[weight.type] = count + 1, parameters + weight.n_elements, n_bytes + weight.n_bytes
        return dict(sorted(sums.items(), key=lambda item: -item[1][2]))


def survey_folder(
    path: str, may_be_packed: Callable[[str], bool] | None = None, *, whole: bool = False
) -> Survey:
    """Read a folder: headers of its files of weights, and config.json.

    Args:
        may_be_packed: Tells whether models of a class may have weights of 4 bits (MXFP4).
        whole: Keep all parts under their own names, not those of a text model.
    """
    findings = Findings(strict=False)
    config = _config(path, may_be_packed, findings, whole=whole)
    names = files_in(path)
    index, headers = _headers(path, names, findings)
    files: dict[str, int | None] = {}
    tensors: dict[str, StoredTensor] = {}
    for name, header in sorted(headers.items()):
        source = Source.open(os.path.join(path, name)) if name in names else None
        files[name] = None if source is None else len(source.data)
        if source is not None and header is not None:
            _keep_tensors(tensors_in(source, header), tensors, findings)
    weight_map = index.weight_map if index else {}
    missing = {tensor: name for tensor, name in weight_map.items() if headers.get(name) is None}
    _note_unread(path, names, files, config, findings)
    is_own = bool(mistral_form.weights_in(names)) and not whole
    tensors = mistral_form.renamed(tensors) if is_own else tensors
    if not whole:
        tensors = _without_prefix(path, tensors, findings)
        tensors = _text_part(path, config, tensors, findings)
    plain = _plain(path, config, tensors, findings)
    plain = mistral_form.in_halves(plain, config) if is_own else plain
    return Survey(path, config, plain, files, missing, tuple(findings.entries), tensors)


def _plain(
    path: str,
    config: Mapping[str, Any],
    tensors: dict[str, StoredTensor],
    findings: Findings,
) -> Mapping[str, StoredTensor]:
    """Return tensors that another program quantized as plain numbers, as far as they are read."""
    try:
        return plain_tensors(config, tensors)
    except UnsupportedError as error:
        if quantization(config) != MXFP4:  # which the architecture decides
            method = quantization(config) or MLX
            _add_quantized(os.path.join(path, MODEL_CONFIG), method, findings, error)
    except FormatError as error:
        finding = Finding(QUANTIZED_PARTS, error.field, error.what, None, "", error.source or path)
        findings.add(finding)
    return tensors


def _headers(
    path: str, names: Collection[str], findings: Findings
) -> tuple[Index | None, dict[str, Header | None]]:
    """Return the index, where it counts, and the headers of the files of weights."""
    if own := mistral_form.weights_in(names):
        shards = _without_index(path, own, findings)
        return None, {name: _header(os.path.join(path, name), findings) for name in shards}
    if WEIGHTS in names:
        whole = _header(os.path.join(path, WEIGHTS), findings)
        if INDEX in names and whole is not None:
            _compare_weights(path, whole, findings)
        return None, {WEIGHTS: whole}
    for is_kind, whole_name, index_name in (
        (is_safetensors, WEIGHTS, INDEX), (is_torch, TORCH_WEIGHTS, TORCH_INDEX)
    ):  # fmt: skip
        if whole_name in names:
            return None, {whole_name: _header(os.path.join(path, whole_name), findings)}
        index = _index(os.path.join(path, index_name), findings) if index_name in names else None
        headers: dict[str, Header | None] = dict(index.files) if index else {}
        if not headers:
            kinds = [name for name in names if is_kind(name)]
            for name in _without_index(path, kinds, findings):
                headers[name] = _header(os.path.join(path, name), findings)
        if headers:
            return index, headers
    return None, {}


def _compare_weights(path: str, whole: Header, findings: Findings) -> None:
    """Report an index beside model.safetensors whose shards are all there with other weights."""
    try:
        index = safetensors.read_index(Source.open(os.path.join(path, INDEX)), strict=False)
    except BrokenRule:
        return  # nothing reads it
    if None in index.files.values():
        return
    of_shards = [
        stored
        for name, header in index.files.items()
        if name != WEIGHTS and header is not None
        for stored in tensors_in(Source.open(os.path.join(path, name)), header)
    ]
    source = Source.open(os.path.join(path, WEIGHTS))
    of_whole = {stored.weight.name: stored for stored in tensors_in(source, whole)}
    if not of_shards:
        return
    differing = next((s.weight.name for s in of_shards if not _is_same(s, of_whole)), None)
    if differing is None and len(of_shards) < len(of_whole):
        differing = next(iter(of_whole.keys() - {stored.weight.name for stored in of_shards}))
    if differing is not None:
        what = f"{WEIGHTS} and the shards of {INDEX} differ, first in {quoted(differing)}"
        findings.add(Finding(TWO_WEIGHTS, TWO_WEIGHTS.field, what, source=path))


def _is_same(stored: StoredTensor, others: Mapping[str, StoredTensor]) -> bool:
    other = others.get(stored.weight.name)
    return other is not None and stored.equals(other)


def _without_prefix(
    path: str, tensors: dict[str, StoredTensor], findings: Findings
) -> dict[str, StoredTensor]:
    """Return tensors without what a wrapper put in front of all their names."""
    prefix = common_prefix(tensors)
    if not prefix:
        return tensors
    what = f"all names of tensors begin with {quoted(prefix)}, which is taken off"
    findings.add(Finding(PREFIX, PREFIX.field, what, source=path))
    return {name.removeprefix(prefix): stored for name, stored in tensors.items()}


def _text_part(
    path: str, config: Mapping[str, Any], tensors: dict[str, StoredTensor], findings: Findings
) -> dict[str, StoredTensor]:
    """Return the tensors of the text part by the names of a text model."""
    if not has_parts(config):
        return tensors
    names = text_names(tensors)
    left = [name for name in tensors if name not in names]
    if left:
        count, verb = format_count(len(left), "tensor"), "is" if len(left) == 1 else "are"
        what = f"{count} for pictures or sound {verb} left out, from {quoted(left[0])} on"
        findings.add(Finding(TEXT_PART, TEXT_PART.field, what, source=path))
    return {new: tensors[name] for name, new in names.items()}


def _config(
    path: str,
    may_be_packed: Callable[[str], bool] | None,
    findings: Findings,
    *,
    whole: bool,
) -> Mapping[str, Any]:
    if mistral_form.weights_in(files_in(path)):
        params = os.path.join(path, mistral_form.PARAMS)
        return read_json(params) if whole else _own_config(params)
    source = os.path.join(path, MODEL_CONFIG)
    if not os.path.isfile(source):
        findings.add(Finding(CONFIG_JSON, MODEL_CONFIG, "is missing", source=source))
        return {}
    try:
        config = read_json(source)
    except FormatError as error:
        findings.add(Finding(CONFIG_JSON, MODEL_CONFIG, error.what, source=source))
        return {}
    document = with_settings(config, optional_json(path, MODELOPT_CONFIG))
    method = quantization(document)
    if method == MXFP4 and not (may_be_packed and may_be_packed(class_of(document) or "")):
        _add_quantized(source, method, findings)
    return document


def _own_config(source: str) -> Mapping[str, Any]:
    try:
        return mistral_form.config_of(read_json(source))
    except MtkitError as error:
        raise error.located(source) from None


def _add_quantized(
    source: str, method: str, findings: Findings, error: UnsupportedError | None = None
) -> None:
    what = f"the weights are quantized ({shown(method)})"
    if error is not None and error.what != method:
        what = f"{what}: {error.field} {error.what}" if error.field else f"{what}: {error.what}"
    field = QUANTIZED.field if method != MLX else "quantization"
    hint = error.hint if error is not None else ""
    findings.add(Finding(QUANTIZED, field, what, None, hint, source))


def _index(path: str, findings: Findings) -> Index | None:
    """Read the index and the headers of its files; keep what is wrong with them."""
    try:
        index = safetensors.read_index(Source.open(path), strict=False, read=read_header)
    except BrokenRule as error:
        findings.add(replace(error.finding, source=path))
        return None
    for finding in index.findings:
        findings.add(replace(finding, source=finding.source or path))
    return index


def _without_index(path: str, names: Collection[str], findings: Findings) -> Iterator[str]:
    numbered = set()
    for name in names:
        yield name
        part = _NUMBERED.match(name)
        if part and int(part[3]) <= _MOST_SHARDS:
            numbered.add((part[1], part[3], part[4]))
    for start, count, end in sorted(numbered):
        shards = (f"{start}{n:05d}-of-{count}{end}" for n in range(1, int(count) + 1))
        for name in shards:
            if name not in names:
                findings.add(Finding(SHARD, SHARD.field, f"{shown(name)} is missing", source=path))


def _header(path: str, findings: Findings) -> Header | None:
    """Read the header of a file; keep what is wrong with it."""
    try:
        header = read_header(Source.open(path), strict=False)
    except BrokenRule as error:
        advice = error.finding.advice
        if is_torch(os.path.basename(path)) and not (advice or error.finding.rule.advice):
            loader = loader_of(optional_json(os.path.dirname(path), MODEL_CONFIG))
            advice = (
                f"download it again, or in Python: transformers.{loader}.from_pretrained(FOLDER)"
                ".save_pretrained(NEW) writes model.safetensors"
            )
        findings.add(replace(error.finding, source=path, advice=advice))
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
    path: str,
    names: Collection[str],
    files: Mapping[str, object],
    config: Mapping[str, Any],
    findings: Findings,
) -> None:
    """Report weights that are not read: in other forms, under other names."""
    unread = unread_weights(path, (name for name in names if name not in files))
    if not files and unread:
        first = unread[0]
        rule = PICKLE if first.form.is_pickle else FORM
        advice = f"{first.advice(config)}; --vocab-only converts the tokenizer alone"
        what = first.fault + (f"; {len(unread) - 1} more are not read" if unread[1:] else "")
        findings.add(Finding(rule, rule.field, what, None, advice, path))
    elif not files:
        what = "the folder contains no weights"
        findings.add(Finding(NO_WEIGHTS, NO_WEIGHTS.field, what, source=path))
    if not files or TWO_WEIGHTS in {finding.rule for finding in findings.entries}:
        return
    why = f"the weights are in {shown(next(iter(files)))}"
    if WEIGHTS in files:
        why = f"{WEIGHTS} comes first"
    elif INDEX in names:
        why = "the index does not name it"
    other = [name for name in names if name.endswith(safetensors.SUFFIX) and name not in files]
    for name in [*other, *[INDEX] * (INDEX in names and WEIGHTS in files)]:
        source = os.path.join(path, name)
        findings.add(Finding(UNUSED, shown(name), f"is not read: {why}", source=source))


REFUSED_RULES: dict[Rule, type[MtkitError]] = {
    NO_WEIGHTS: UsageError,
    PICKLE: UnsupportedError,
    FORM: UnsupportedError,
    TWO_WEIGHTS: UsageError,
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
        files: Files of weights that are read.
        findings: What the survey reports besides: nothing that prevents a conversion.
        stored: Name -> tensor as it lies in its file.
    """

    path: str
    config: Mapping[str, Any]
    tensors: Mapping[str, StoredTensor]
    files: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()
    stored: Mapping[str, StoredTensor] = {}


def undescribed_weights(path: str) -> str | None:
    """Return the file that lists the weights of a folder without config.json; None: no such."""
    if not os.path.isdir(path) or os.path.exists(os.path.join(path, MODEL_CONFIG)):
        return None
    names = sorted(files_in(path))
    names = [name for name in (INDEX, *filter(is_weights, names)) if name in names]
    return os.path.join(path, names[0]) if names else None


def sniff(path: str) -> bool:
    """Tell by a config.json with weights beside it, in whichever form."""
    if not os.path.isfile(os.path.join(path, MODEL_CONFIG)):
        return os.path.isdir(path) and bool(mistral_form.weights_in(files_in(path)))
    names = files_in(path)
    if any(name in (INDEX, TORCH_INDEX) or is_weights(name) for name in names):
        return True
    has_gguf = any(name.endswith(".gguf") for name in names)
    return not has_gguf and bool(unread_weights(path, names))


def read(
    path: str, may_be_packed: Callable[[str], bool] | None = None, *, whole: bool = False
) -> ModelFolder:
    """Read a folder; arguments are those of ``survey_folder``.

    Raises:
        UsageError: A file is missing.
        FormatError: A file is damaged, or the index lies.
        UnsupportedError: The weights are pickles, or quantized in another way.
    """
    if not sniff(path) and not os.path.isfile(os.path.join(path, MODEL_CONFIG)):
        raise UsageError(f"has no {MODEL_CONFIG}", source=path, hint="a model folder has one")
    survey = survey_folder(path, may_be_packed, whole=whole)
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
    return ModelFolder(
        path, survey.config, survey.tensors, tuple(survey.files), survey.findings, survey.stored
    )
