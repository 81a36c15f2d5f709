"""What is wrong with a HuggingFace model folder: what transformers or conversion would refuse.

``model_folder.survey_folder`` finds what each file lacks by itself; here config.json, weights and
tokenizer are held against each other and against the table of architectures. ``conversion`` is
imported by the functions that use it: it takes 30 ms, and checks of single files do without.
"""

from __future__ import annotations

import os

from mtkit.architectures import architecture_of
from mtkit.architectures.config import Config
from mtkit.architectures.metadata import keys_of
from mtkit.architectures.tensor_match import match_folder
from mtkit.base.binary import Source, map_file
from mtkit.base.escape import quoted, shown
from mtkit.base.record import replace
from mtkit.base.rules import Finding, Rule
from mtkit.checkpoints import adapter_folder, folder_files, mistral_form, safetensors
from mtkit.checkpoints.model_folder import CONVERSION, QUANTIZED, QUANTIZED_PARTS, TRANSFORMERS
from mtkit.checkpoints.weight_forms import unread_weights
from mtkit.checks.tensors import fault_findings
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.formats.hf.config import GENERATION, PROCESSOR_TEMPLATE, TEMPLATE, TEMPLATES_FOLDER
from mtkit.gguf.values import DTYPES
from mtkit.sources.locate import TOKENIZER, in_folder
from mtkit.tokenizer.folder import FILES as TOKEN_FILES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from mtkit.architectures import Architecture
    from mtkit.architectures.metadata import KeyRow
    from mtkit.architectures.tensor_match import Fault
    from mtkit.checkpoints.model_folder import Survey
    from mtkit.tokenizer.tokenizer import Tokenizer

# fmt: off
ARCHITECTURE = Rule("folder-architecture", "warning", CONVERSION, "architectures",
                    "config.json names no architecture, or one that mtkit cannot convert. "
                    "llama.cpp's convert_hf_to_gguf.py may support it.")
FIELD = Rule("folder-field", "error", TRANSFORMERS, folder_files.MODEL_CONFIG,
             "A field of config.json is missing, has the wrong type, or contradicts the "
             "weights.")
SUPPORT = Rule("folder-support", "warning", CONVERSION, folder_files.MODEL_CONFIG,
               "config.json asks for something that llama.cpp does not support for this "
               "architecture.")
TYPE = Rule("folder-type", "warning", CONVERSION, "dtype",
            "The weights have a dtype that mtkit cannot convert.")
MISSING = Rule("folder-tensor-missing", "error", TRANSFORMERS, "tensor",
               "A tensor that the architecture needs is missing. transformers would fill it "
               "with random numbers.")
SHAPE = Rule("folder-tensor-shape", "error", TRANSFORMERS, "shape",
             "The shape of a tensor does not match config.json: the two are from different "
             "models, or the vocabulary was resized in only one of them.")
UNKNOWN = Rule("folder-tensor-unknown", "warning", CONVERSION, "tensor",
               "A tensor does not belong to the architecture: transformers ignores it, but "
               "mtkit refuses to convert the folder.")
VOCABULARY = Rule("folder-vocabulary", "error", TRANSFORMERS, "vocab_size",
                  "The tokenizer has more ids than the embedding has rows, so the model cannot "
                  "look some of them up. Tokenizer and weights are from different models, or "
                  "tokens were added without resizing the embedding.")
NO_TOKENIZER = Rule("folder-tokenizer", "warning", CONVERSION, "tokenizer",
                    "The tokenizer is missing, or llama.cpp has no equivalent, so mtkit convert "
                    "refuses the folder.")
REMAINDER = Rule("folder-remainder", "note", CONVERSION, "folder",
                 "What a conversion of the folder does not use, or decides: files, fields and "
                 "tensors that are not read, a head that contradicts tie_word_embeddings.")
ADAPTER_FILE = Rule("adapter-file", "error", "PEFT", adapter_folder.CONFIG,
                    "A file of the adapter is missing or damaged, or two of its tensors do not "
                    "fit each other. Download it again.")
ADAPTER_KIND = Rule("adapter-kind", "warning", CONVERSION, adapter_folder.CONFIG,
                    "The adapter has parts that a GGUF, or llama.cpp, has no place for, so mtkit "
                    "convert refuses it.")
ADAPTER_BASE = Rule("adapter-base", "note", CONVERSION, "base_model_name_or_path",
                    "The base model is not on this machine, so names and shapes were not compared "
                    "with it.", advice="mtkit convert ADAPTER --base FOLDER")
ADAPTER_FIELD = Rule("adapter-field", "note", CONVERSION, adapter_folder.CONFIG,
                     "Fields of adapter_config.json that are not read, and of which no effect is "
                     "known.")
FOLDER_RULES = (ADAPTER_FILE, ADAPTER_KIND, ADAPTER_BASE, ADAPTER_FIELD,
                ARCHITECTURE, FIELD, SUPPORT, TYPE, MISSING, SHAPE, UNKNOWN, VOCABULARY,
                NO_TOKENIZER, REMAINDER)
# fmt: on
FILES = tuple(name for name in TOKENIZER.files if not name.endswith(".gguf"))
"""What a tokenizer is read from."""
BESIDE = frozenset((*TOKEN_FILES, GENERATION, TEMPLATE, PROCESSOR_TEMPLATE, TEMPLATES_FOLDER))
"""What is read beside a SentencePiece model."""


class WatchedSource(Source):
    """A file that remembers which of those beside it were read."""

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
    """Tell a folder of a model from one of tokenizers, of GGUF files, or of an adapter alone."""
    if not os.path.isdir(path):
        return False
    names = os.listdir(path)
    has_gguf = any(name.endswith(".gguf") for name in names)
    has_weights = any(name.endswith(safetensors.SUFFIX) for name in names)
    has_weights = has_weights or (not has_gguf and bool(unread_weights(path, names)))
    is_described = folder_files.MODEL_CONFIG in names and not has_gguf
    is_adapter = adapter_folder.CONFIG in names and folder_files.MODEL_CONFIG not in names
    return (has_weights or folder_files.INDEX in names or is_described) and not is_adapter


def tokenizer_files(path: str) -> list[str]:
    """Return the tokenizer files of a folder: what is loaded, and what is converted."""
    from mtkit.conversion.model_keys import SENTENCEPIECE

    paths = (in_folder(path, FILES), in_folder(path, SENTENCEPIECE))
    return list(dict.fromkeys(filter(None, paths)))


def folder_findings(survey: Survey) -> Iterator[Finding]:
    """Yield what is wrong with config.json and the tensors."""
    if not survey.config:
        return  # which is a finding of its own
    source = os.path.join(survey.path, folder_files.MODEL_CONFIG)
    try:
        architecture = architecture_of(survey.config)
    except MtkitError as error:
        yield Finding(ARCHITECTURE, error.field, error.what, None, error.hint, source)
        return
    config, errors = _config(survey, architecture, source)
    rows, more = _metadata_rows(architecture, config)
    yield from {str(error): _config_finding(error) for error in (*errors, *more)}.values()
    is_packed = any(finding.rule in (QUANTIZED, QUANTIZED_PARTS) for finding in survey.findings)
    if is_packed or not survey.files:
        return
    for name, stored in survey.tensors.items():
        kind = stored.weight.type
        if kind not in DTYPES and kind in safetensors.BITS:
            what = f"is of type {kind}, which mtkit does not convert"
            yield Finding(TYPE, f"tensor {quoted(name)}", what, source=stored.path)
    yield from _tensors(survey, replace(architecture, keys=rows), config)


def _config(
    survey: Survey, architecture: Architecture, source: str
) -> tuple[Config, list[MtkitError]]:
    """Return a config with defaults and the settings of the files beside it; and their errors."""
    from mtkit.conversion.heads import model_document

    config, errors = Config(survey.config, source), []
    try:
        config = Config(model_document(survey.path, survey.config), source)
    except MtkitError as error:
        errors.append(error)
    try:
        config = architecture.filled(config)
    except MtkitError as error:
        errors.append(error)
    return config, errors


def _metadata_rows(
    architecture: Architecture, config: Config
) -> tuple[tuple[KeyRow, ...], list[MtkitError]]:
    """Return the rows of metadata that a config gives; why the others, and checks, do not hold."""
    sound: list[KeyRow] = []
    errors: list[MtkitError] = []
    for check in architecture.checks:
        try:
            check(config)
        except MtkitError as error:
            errors.append(error)
    for row in architecture.keys:
        try:
            row.value(config)
        except MtkitError as error:
            errors.append(error)
        else:
            sound.append(row)
    return tuple(sound), errors


def _config_finding(error: MtkitError) -> Finding:
    rule = FIELD if isinstance(error, FormatError) else SUPPORT
    return Finding(rule, error.field, error.what, error.offset, error.hint, error.source)


def _tensors(survey: Survey, architecture: Architecture, config: Config) -> Iterator[Finding]:
    from mtkit.conversion.heads import compare_heads

    source = os.path.join(survey.path, folder_files.MODEL_CONFIG)
    try:
        shapes = compare_heads(architecture, config, survey.tensors).shapes
        keys = keys_of(architecture.name, architecture.keys, config)
        vocab = config.count("vocab_size")
        dims = architecture.sizes({key.name: key.value for key in keys}, vocab)
        matched = match_folder(architecture, dims, shapes)
    except MtkitError as error:
        # A missing file is a finding already; here its tensors would be missing again.
        if not survey.missing:
            yield _config_finding(error.located(source))
        return
    class_name = architecture.classes[0]
    yield from fault_findings(
        (fault for fault in matched.faults if not _is_in_missing_file(fault, survey)),
        lambda rule, name, what: Finding(
            rule, f"tensor {quoted(name)}", what, None, "", _place(survey, name)
        ),
        (MISSING, SHAPE, UNKNOWN),
        (f"is missing: {class_name} has it", "config.json says", f"is none of {class_name}"),
    )


def _is_in_missing_file(fault: Fault, survey: Survey) -> bool:
    return fault.kind == "missing" and all(name in survey.missing for name in fault.names)


def _place(survey: Survey, name: str) -> str:
    stored = survey.tensors.get(name)
    return stored.path if stored else survey.path


def tokenizer_findings(survey: Survey, tokenizers: Iterable[Tokenizer]) -> Iterator[Finding]:
    """Yield what is wrong between tokenizers and their model."""
    from mtkit.conversion.model_keys import within

    rows = survey.config.get("vocab_size")
    for tokenizer in tokenizers:
        if not isinstance(rows, int) or isinstance(rows, bool):
            break
        try:
            kept, losses = within(tokenizer, rows)
        except UsageError as error:
            yield Finding(
                VOCABULARY, VOCABULARY.field, error.what, advice=error.hint, source=error.source
            )
            continue
        for loss in losses:
            yield Finding(REMAINDER, REMAINDER.field, loss.effect, source=survey.path)
        ids = kept.spec.vocab_size
        if ids > rows:
            source = os.path.join(survey.path, folder_files.MODEL_CONFIG)
            what = f"is {rows}, but the tokenizer has {ids} ids"
            yield Finding(VOCABULARY, VOCABULARY.field, what, source=source)
    if not tokenizer_files(survey.path):
        what = "there is none in the folder"
        yield Finding(NO_TOKENIZER, NO_TOKENIZER.field, what, source=survey.path)


def conversion_findings(survey: Survey) -> Iterator[Finding]:
    """Yield what conversion refuses, where nothing else is wrong: no weight is read."""
    from mtkit.conversion.model import prepare_gguf

    try:
        plan = prepare_gguf(survey.path).plan
    except MtkitError as error:
        if os.path.basename(error.source) in TOKEN_FILES and isinstance(error, UsageError):
            field = VOCABULARY.field
            yield Finding(VOCABULARY, field, error.what, advice=error.hint, source=error.source)
        elif error.source not in tokenizer_files(survey.path):
            yield _config_finding(error)
        else:
            field = error.field or NO_TOKENIZER.field
            yield Finding(NO_TOKENIZER, field, error.what, error.offset, error.hint, error.source)
        return
    reported = {finding.what for finding in survey.findings}
    for note in plan.folder_notes:
        if not any(what in note for what in reported):
            yield Finding(REMAINDER, REMAINDER.field, note, source=survey.path)


def adapter_findings(path: str) -> Iterator[Finding]:
    """Yield what is wrong with the folder of an adapter, by itself and with its base model."""
    from mtkit.conversion.adapter import plan_adapter

    try:
        adapter = adapter_folder.read(path)
        for note in adapter_folder.notes(path, adapter.config):
            yield Finding(ADAPTER_FIELD, ADAPTER_FIELD.field, note, source=path)
        plan_adapter(path)
    except MtkitError as error:
        rule = ADAPTER_KIND if isinstance(error, UnsupportedError) else ADAPTER_FILE
        if isinstance(error, UsageError) and "base model" in error.what:
            rule = ADAPTER_BASE
        source = error.source or path
        yield Finding(rule, error.field or rule.field, error.what, error.offset, error.hint, source)


def unchecked_parts(survey: Survey, seen: Collection[str]) -> Iterator[tuple[str, str]]:
    """Yield (part, why) of the files that nothing looked at."""
    looked_at = {*seen, *survey.files, folder_files.MODEL_CONFIG, folder_files.INDEX}
    looked_at.update(finding.field for finding in survey.findings)  # they name files
    if mistral_form.weights_in(os.listdir(survey.path)):
        looked_at.add(mistral_form.PARAMS)
    names = [name for name in sorted(os.listdir(survey.path)) if name not in looked_at]
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
