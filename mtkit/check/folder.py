"""What is wrong with a HuggingFace model folder: what transformers or conversion would refuse.

What its files lack by themselves ``checkpoints.folder_survey`` finds; here config.json, weights and
tokenizer are held against each other and against the table of architectures.
"""

from __future__ import annotations

import os

from mtkit.architectures import of_class
from mtkit.architectures.common_keys import SENTENCE_POOLING
from mtkit.architectures.config import Config
from mtkit.architectures.keys import keys_of
from mtkit.architectures.matching import match_folder
from mtkit.base.binary import Source, map_file
from mtkit.base.escape import quoted, shown
from mtkit.base.record import replace
from mtkit.base.rules import Finding, Rule
from mtkit.check.report import MOST_OF_A_SURVEY
from mtkit.checkpoints import model_folder, safetensors, sentence_pooling
from mtkit.checkpoints.folder_survey import CONVERSION, QUANTIZED, TRANSFORMERS
from mtkit.conversion.model_vocabulary import SENTENCEPIECE
from mtkit.conversion.whole_model import dims_of, prepare
from mtkit.errors import FormatError, MtkitError
from mtkit.gguf.values import DTYPES
from mtkit.sources.locate import TOKENIZER, in_folder

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from typing import Any

    from mtkit.architectures import Architecture
    from mtkit.architectures.keys import KeyRow
    from mtkit.architectures.matching import Fault
    from mtkit.checkpoints.folder_survey import Survey
    from mtkit.gguf.writer import Key

ARCHITECTURE = Rule("folder-architecture", "warning", CONVERSION, "architectures")
FIELD = Rule("folder-field", "error", TRANSFORMERS, model_folder.CONFIG)
SUPPORT = Rule("folder-support", "warning", CONVERSION, model_folder.CONFIG)
TYPE = Rule("folder-type", "warning", CONVERSION, "dtype")
MISSING = Rule("folder-tensor-missing", "error", TRANSFORMERS, "tensor")
SHAPE = Rule("folder-tensor-shape", "error", TRANSFORMERS, "shape")
UNKNOWN = Rule("folder-tensor-unknown", "warning", CONVERSION, "tensor")
VOCABULARY = Rule("folder-vocabulary", "error", TRANSFORMERS, "vocab_size")
NO_TOKENIZER = Rule("folder-tokenizer", "warning", CONVERSION, "tokenizer")
RULES = (
    ARCHITECTURE, FIELD, SUPPORT, TYPE, MISSING, SHAPE, UNKNOWN, VOCABULARY, NO_TOKENIZER,
)  # fmt: skip
FILES = tuple(name for name in TOKENIZER.files if not name.endswith(".gguf"))
"""What a tokenizer is read from."""


class Watched(Source):
    """A file that remembers which of those beside it were read.

    Attributes:
        read: Names of files and folders.
    """

    def __init__(self, path: str) -> None:
        super().__init__(path, map_file(path), folder=os.path.dirname(path) or ".")
        self.read: set[str] = set()

    def beside(self, name: str) -> bytes | None:
        """Return the content of a file in the same folder, or None where there is none."""
        self.read.add(name)
        return super().beside(name)

    def folder_beside(self, name: str, suffix: str) -> dict[str, bytes]:
        """Return file name -> content of a folder beside the file, those that end in ``suffix``."""
        self.read.add(name)
        return super().folder_beside(name, suffix)


def is_model(path: str) -> bool:
    """Tell a folder of a model from one of tokenizers or of GGUF files."""
    names = os.listdir(path) if os.path.isdir(path) else []
    has_weights = any(n.endswith(safetensors.SUFFIX) or model_folder.is_weights(n) for n in names)
    has_gguf = any(name.endswith(".gguf") for name in names)
    is_described = model_folder.CONFIG in names and not has_gguf
    return has_weights or model_folder.INDEX in names or is_described


def tokenizers_of(path: str) -> list[str]:
    """Return the tokenizer files of a folder: what is loaded, and what is converted."""
    found = (in_folder(path, FILES), in_folder(path, SENTENCEPIECE))
    return list(dict.fromkeys(filter(None, found)))


def findings(survey: Survey) -> Iterator[Finding]:
    """Yield what is wrong with config.json and the tensors."""
    source = os.path.join(survey.path, model_folder.CONFIG)
    if not survey.config:
        return  # told already
    try:
        named = model_folder.ModelFolder(survey.path, survey.config, {}).architecture
        architecture = of_class(named)
        if model_folder.quantization(survey.config) == model_folder.MXFP4:
            architecture = replace(architecture, rows=architecture.packed)
    except MtkitError as error:
        yield Finding(ARCHITECTURE, error.field, error.what, None, error.hint, source)
        return
    config = Config(survey.config, source)
    try:
        pooling = {SENTENCE_POOLING: sentence_pooling.of_folder(survey.path)}
        config = Config({**survey.config, **pooling}, source)
    except MtkitError as error:
        yield _of_config(error)
    keys: list[Key] = []
    yield from _keys(architecture, config, keys)
    if any(finding.rule is QUANTIZED for finding in survey.findings) or not survey.files:
        return
    for name, stored in survey.tensors.items():
        kind = stored.weight.type
        if kind not in DTYPES and kind in safetensors.BITS:
            what = f"is of type {kind}, which mtkit does not convert"
            yield Finding(TYPE, f"tensor {quoted(name)}", what, source=stored.path)
    yield from _tensors(survey, architecture, config, keys)


def _keys(architecture: Architecture, config: Config, keys: list[Key]) -> Iterator[Finding]:
    """Ask every check and every row of the architecture's keys; keep the keys that come out."""
    try:
        config.fields.update(config.with_defaults(architecture.defaults(config)).fields)
    except MtkitError as error:
        yield _of_config(error)
    said: set[str] = set()
    sound: list[KeyRow] = []
    asked: list[tuple[Callable[[Config], Any], tuple[KeyRow, ...]]] = [
        *((check, ()) for check in architecture.checks),
        *((row.value, (row,)) for row in architecture.keys),
    ]
    for ask, rows in asked:
        try:
            ask(config)
        except MtkitError as error:
            if str(error) not in said:
                said.add(str(error))
                yield _of_config(error)
        else:
            sound += rows
    keys += keys_of(architecture.name, tuple(sound), config)


def _of_config(error: MtkitError) -> Finding:
    rule = FIELD if isinstance(error, FormatError) else SUPPORT
    return Finding(rule, error.field, error.what, error.offset, error.hint, error.source)


def _tensors(
    survey: Survey, architecture: Architecture, config: Config, keys: Collection[Key]
) -> Iterator[Finding]:
    source = os.path.join(survey.path, model_folder.CONFIG)
    skips = architecture.skips
    try:
        shapes = {
            name: one.weight.shape
            for name, one in survey.tensors.items()
            if skips is None or not skips(name, config)
        }
        dims = dims_of(architecture, keys, config.count("vocab_size"))
        matched = match_folder(architecture, dims, shapes)
    except MtkitError as error:
        # Tensors of files that are missing are missed here, too: those files were told of.
        if not survey.missing:
            yield _of_config(error.located(source))
        return
    said = architecture.classes[0]
    yield from faults_found(
        (fault for fault in matched.faults if not _is_told(fault, survey)),
        lambda rule, name, what: Finding(
            rule, f"tensor {quoted(name)}", what, None, "", _place(survey, name)
        ),
        (MISSING, SHAPE, UNKNOWN),
        (f"is missing: {said} has it", "config.json says", f"is none of {said}"),
    )


def _is_told(fault: Fault, survey: Survey) -> bool:
    """Tell what is missing with a file that is missing."""
    return fault.kind == "missing" and all(name in survey.missing for name in fault.names)


def _place(survey: Survey, name: str) -> str:
    stored = survey.tensors.get(name)
    return stored.path if stored else survey.path


def faults_found(
    faults: Iterable[Fault],
    made: Callable[[Rule, str, str], Finding],
    rules: tuple[Rule, Rule, Rule],
    texts: tuple[str, str, str],
) -> Iterator[Finding]:
    """Yield a finding for each tensor of faults, of each kind the first places and their number.

    Args:
        faults: Of one model.
        made: Makes a finding of a rule, a tensor's name and what is wrong with it.
        rules: About missing tensors, shapes, unknown tensors.
        texts: What is said of a missing tensor; who says another shape; of an unknown tensor.
    """
    counts = [0, 0, 0]
    for fault in faults:
        kind = ("missing", "shape", "unknown").index(fault.kind)
        what = texts[kind]
        if fault.kind == "shape":
            what = f"has the shape {list(fault.shape)}, {what} {list(fault.wanted)}"
        for name in fault.names:
            counts[kind] += 1
            if counts[kind] <= MOST_OF_A_SURVEY:
                yield made(rules[kind], name, what)
    for rule, count in zip(rules, counts, strict=True):
        if count > MOST_OF_A_SURVEY:
            what = f"and {count - MOST_OF_A_SURVEY} more places like these"
            yield Finding(rule, rule.field, what)


def of_tokenizer(survey: Survey, ids: int | None) -> Iterator[Finding]:
    """Yield what is wrong between a tokenizer and its model.

    Args:
        survey: Of the folder.
        ids: Of the tokenizer; None: it is damaged, or there is none.
    """
    wanted = survey.config.get("vocab_size")
    if type(wanted) is int and ids is not None and ids > wanted:
        source = os.path.join(survey.path, model_folder.CONFIG)
        what = f"is {wanted}, the tokenizer has {ids} ids"
        yield Finding(VOCABULARY, VOCABULARY.field, what, source=source)
    if not tokenizers_of(survey.path):
        what = "there is none in the folder"
        yield Finding(NO_TOKENIZER, NO_TOKENIZER.field, what, source=survey.path)


def of_conversion(survey: Survey) -> Iterator[Finding]:
    """Yield what conversion refuses, where nothing else is wrong: no weight is read."""
    try:
        prepare(survey.path)
    except MtkitError as error:
        if error.source not in tokenizers_of(survey.path):
            yield _of_config(error)
        else:
            field = error.field or NO_TOKENIZER.field
            yield Finding(NO_TOKENIZER, field, error.what, error.offset, error.hint, error.source)


def left_out(survey: Survey, seen: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (part, why) of the files that nothing looked at.

    Args:
        survey: Of the folder.
        seen: Names of files that were looked at.
    """
    if survey.tensors:
        yield "tensor data", "mtkit reads that of a GGUF alone"
    known = {*seen, *survey.files, model_folder.CONFIG, model_folder.INDEX}
    known.update(finding.field for finding in survey.findings)  # told of by name
    names = [name for name in sorted(os.listdir(survey.path)) if name not in known]
    groups: dict[str, list[str]] = {}
    for name in names:
        is_gguf, is_pickle = name.endswith(".gguf"), name.endswith((".bin", ".pth", ".pt"))
        part = "GGUF files" if is_gguf else "pickles" if is_pickle else "other files"
        groups.setdefault(part, []).append(shown(name))
    why = {
        "GGUF files": "mtkit check FILE looks at each: ",
        "pickles": "they run code when they are loaded: ",
        "other files": "",
    }
    for part, same in groups.items():
        yield part, why[part] + ", ".join(same)
