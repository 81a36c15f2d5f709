"""Check a file, or a model folder, against every rule that applies to it.

``FileCheck`` collects the findings, and what was skipped and why. A GGUF, or a set of shards, is
checked as a container, a model, a tokenizer and data; a folder by its config.json, its weights, its
tokenizer, and how they fit together. Each kind imports the rules that are about it: all of them
take longer than checking a file.
"""

from __future__ import annotations

import os

from mtkit.base.binary import Source, expand_home
from mtkit.base.record import Record, replace
from mtkit.base.rules import BrokenRule, Finding, Rule
from mtkit.checkpoints import kind_of
from mtkit.checks.report import Report, survey_findings
from mtkit.errors import (
    FormatError,
    MtkitError,
    UnsupportedError,
    UsageError,
    format_count,
    wording,
)
from mtkit.sources.remote import MOST_BYTES, is_remote, open_remote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence

    from mtkit.checkpoints.folder_files import StoredTensor
    from mtkit.checkpoints.safetensors import Header, Index
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor
    from mtkit.gguf.shards import ShardSet
    from mtkit.spec import TokenizerSpec
    from mtkit.tokenizer.tokenizer import Tokenizer


# fmt: off
READABLE = Rule("tokenizer", "error", "the format's reference", "file",
                "The format's own library refuses the file or cannot read all of it.")
SUPPORTED = Rule("tokenizer-support", "warning", "mtkit", "file",
                 "The tokenizer has a component that mtkit does not support, so nothing else "
                 "was checked.")
TABLES = Rule("engine-tables", "error", "mtkit", "engine tables",
              "The engine tables, which are precomputed, do not match the tokenizer's "
              "specification, so a text may get different ids. Convert the file again, or do "
              "not use it.")
# fmt: on


class CheckOptions(Record):
    """What a check does besides applying the rules.

    Attributes:
        against: The tokenizer whose chat templates it should have.
    """

    deep: bool = False
    against: TokenizerSpec | None = None
    other: str = ""
    runs_on: Collection[str] = ()

    @property
    def of_tokenizer(self) -> bool:
        """Whether all of a GGUF's tokenizer has to be read."""
        return bool(self.deep or self.against is not None or self.runs_on)


class FileCheck:
    """The check of one file or folder: its findings, and what was skipped.

    Attributes:
        is_part: It is a file of a folder that is checked.
    """

    def __init__(self, source: Source, options: CheckOptions, *, is_part: bool = False) -> None:
        self.source, self.options, self.is_part = source, options, is_part
        self.findings: list[Finding] = []
        self.skipped: list[tuple[str, str]] = []
        self.has_run = False
        self.whole: Tokenizer | None = None

    def report(self, kind: str) -> Report:
        """Return the report; a program that was not run counts as unknown, not as passed."""
        if not self.has_run and self.options.runs_on:
            from mtkit.checks.programs import unread_finding

            self.findings += map(unread_finding, self.options.runs_on)
        if not self.has_run and self.options.against is not None:
            from mtkit.checks.tokenizer_rules import AGAINST_RULES

            (rule,) = AGAINST_RULES
            what = f"not compared with {self.options.other}: there is no tokenizer that runs"
            self.findings.append(Finding(rule, rule.field, what, None))
        return Report(self.source.name, kind, tuple(self.findings), tuple(self.skipped))

    def hold(self, rule: Rule, error: MtkitError) -> None:
        """Keep an error as what breaks a rule."""
        if isinstance(error, BrokenRule):
            self.findings.append(error.finding)
        else:
            self.findings.append(Finding(rule, error.field, error.what, error.offset, error.hint))

    def take(self, item: Finding | tuple[str, str] | None) -> None:
        """Keep a finding, or what was skipped and why."""
        if isinstance(item, Finding):
            self.findings.append(item)
        elif item is not None:
            self.skipped.append(item)

    def skip_unknown_data(self, count: int) -> None:
        """Say of how many tensors the data was not looked at."""
        if count:
            data, types = format_count(count, "tensor"), "its type" if count == 1 else "their types"
            self.skipped.append((f"data of {data}", f"no floats are looked for in {types}"))

    def tokenizer(self, spec: TokenizerSpec, kind: str) -> None:
        """Check a specification and its chat templates."""
        from mtkit.checks import tokenizer_rules
        from mtkit.tokenizer.tokenizer import Tokenizer

        tokenizer = Tokenizer(spec, source=self.source.name, format_name=kind)
        if self.is_part:
            tokenizer = self._in_its_folder(tokenizer)
            spec = tokenizer.spec
        self.whole = tokenizer
        self.findings += survey_findings(tokenizer_rules.VOCABULARY_RULES, spec.vocabulary)
        self.findings += survey_findings(tokenizer_rules.TOKENIZER_RULES, spec)
        broken = list(survey_findings(tokenizer_rules.RUN_RULES, tokenizer))
        if broken:
            self.findings += broken
            self.skipped.append(("chat template", "the tokenizer does not run"))
            return
        self.findings += survey_findings(tokenizer_rules.CLASS_RULES, tokenizer)
        if not spec.chat_templates:
            self.skipped.append(("chat template", "there is none"))
        for template in spec.chat_templates:
            self.findings += survey_findings(
                tokenizer_rules.TEMPLATE_RULES, tokenizer_rules.TemplateTrial(template, tokenizer)
            )
        if self.options.against is not None:
            templates = {chat.name: chat.text for chat in self.options.against.chat_templates}
            self.findings += survey_findings(
                tokenizer_rules.AGAINST_RULES, spec, self.options.other, templates
            )
        self.has_run = True
        for name in self.options.runs_on:
            from mtkit.checks.programs import program_findings
            from mtkit.conversion.programs import PROGRAMS

            self.findings += program_findings(PROGRAMS[name], tokenizer)

    def _in_its_folder(self, tokenizer: Tokenizer) -> Tokenizer:
        from mtkit.checks.folder import BESIDE, WatchedSource
        from mtkit.tokenizer.load import in_its_folder

        assert isinstance(self.source, WatchedSource)
        self.source.read |= BESIDE if tokenizer.format_name == "spm" else set()
        try:
            return in_its_folder(tokenizer)
        except MtkitError as error:
            self.hold(SUPPORTED, error)
            return tokenizer

    def tables(self, spec: TokenizerSpec) -> None:
        """Compare the engine's tables in the file, if it has them, with its specification."""
        from mtkit.tokenizer.load import mapped, tables_fault

        if mapped(self.source)[0] is None:
            return
        if not self.options.deep:
            self.skipped.append(("engine tables", _deep("compares them with the rest")))
        elif error := tables_fault(self.source, spec):
            self.hold(TABLES, error)


def attribute_findings(path: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Name the file that findings are about, where it is another than the one checked."""
    return (replace(finding, source=finding.source or path) for finding in findings)


def check_gguf(source: Source, file_check: FileCheck) -> None:
    """Check a GGUF."""
    from mtkit.checks import loader
    from mtkit.gguf import open_gguf
    from mtkit.gguf.shards import shard_set

    file = open_gguf(source, strict=False)
    file_check.findings += file.findings
    if not file.is_whole:
        file_check.skipped.append(("everything after the damage", "reading stopped there"))
        return
    shards = shard_set(file, strict=False)
    file_check.findings += shards.findings if shards else ()
    file_check.findings += survey_findings((*loader.CONTAINER_RULES, *loader.OPENING_RULES), file)
    others = _other_shards(file, shards)
    for other in others:
        file_check.findings += attribute_findings(
            other.name, (*other.findings, *survey_findings(loader.CONTAINER_RULES, other))
        )
    if shards and shards.number:
        file_check.skipped.append(("model and tokenizer", "only the first shard has them"))
    else:
        _check_model(file, shards, file_check)
        if loader.has_tokenizer(file):
            _check_vocabulary(file, file_check)
        else:
            file_check.skipped.append(("tokenizer", "there is none"))
    if file_check.options.deep:
        _check_data([file, *others], file_check)
    elif any(other.tensors for other in (file, *others)):
        file_check.skipped.append(("tensor data", _deep("reads it")))


def _check_model(file: GgufFile, shards: ShardSet | None, file_check: FileCheck) -> None:
    from mtkit.checks import loader, projector
    from mtkit.checks.tensors import UNFINISHED_RULES

    files = [shard.file for shard in shards.shards if shard.file] if shards else [file]
    tensors = tuple(tensor for part in files for tensor in part.tensors)
    is_model = loader.is_model(file, tensors)
    if is_model or loader.has_tokenizer(file) or loader.names_model(file, tensors):
        file_check.findings += survey_findings(loader.ARCHITECTURE_RULES, file)
    if projector.is_projector(file):
        file_check.findings += survey_findings(projector.RULES, file)
        for item in projector.projector_findings(file, tensors):
            file_check.take(item)
    if not is_model:
        return
    if "://" not in file.name:  # of a file on a server the header alone is there
        file_check.findings += survey_findings(UNFINISHED_RULES, file)
        others = (part for part in files if part is not file)
        file_check.findings += (
            finding
            for part in others
            for finding in attribute_findings(part.name, survey_findings(UNFINISHED_RULES, part))
        )
    if shards is None or shards.is_complete:
        _check_tensors(file, tensors, file_check)
        if file_check.options.runs_on:
            from mtkit.checks.programs import MODEL_RUNNER, try_model

            if MODEL_RUNNER in file_check.options.runs_on:
                file_check.take(try_model(file_check.source))


def _check_tensors(file: GgufFile, tensors: tuple[Tensor, ...], file_check: FileCheck) -> None:
    from mtkit.checks import loader
    from mtkit.checks.tensors import TYPE_RULES

    wrong = list(survey_findings(loader.MODEL_RULES, file, tensors))
    file_check.findings += wrong
    beside = (loader.NO_TOKENIZER, *TYPE_RULES)
    if any(finding.rule not in beside for finding in wrong):
        file_check.skipped.append(
            (loader.TENSORS_PART, "the problems above have to be solved first")
        )
        return
    for item in loader.tensor_findings(file, tensors):
        file_check.take(item)


def _check_vocabulary(file: GgufFile, file_check: FileCheck) -> None:
    """Check the tokenizer's keys, and the whole tokenizer if the options ask for it.

    Reading half a million merges takes seconds; looking at the columns does not.
    """
    from mtkit.checks import gguf_keys, tokenizer_rules
    from mtkit.formats.contract import Reading
    from mtkit.formats.gguf.metadata import Keys
    from mtkit.formats.gguf.reader import read_parts, read_spec

    keys = Keys(file, {})
    try:
        columns, errors = read_parts(keys)
        for part, error in errors:
            file_check.hold(gguf_keys.PARTS[part], error)
        file_check.findings += survey_findings(gguf_keys.KEYS, keys)
        if columns is None:
            file_check.skipped.append(("tokenizer", "its keys could not all be read"))
        elif file_check.options.of_tokenizer and not errors:
            file_check.findings += survey_findings(gguf_keys.MERGES, keys)
            file_check.tokenizer(Reading(read_spec(keys)).spec, "gguf")
        else:
            file_check.findings += survey_findings(tokenizer_rules.VOCABULARY_RULES, columns)
            why = "not all of its keys could be read" if errors else _deep("checks them")
            file_check.skipped.append(("merges, chat templates, a test run", why))
    except FormatError as error:
        file_check.hold(gguf_keys.PARTS["vocabulary"], error)
        file_check.skipped.append(("tokenizer", "its keys contradict each other"))
    except UnsupportedError as error:
        file_check.skipped.append(("tokenizer", error.what))


def _other_shards(file: GgufFile, shards: ShardSet | None) -> list[GgufFile]:
    """Return the other files of a set that is named by its first."""
    if shards is None or shards.number:
        return []
    return [shard.file for shard in shards.shards if shard.file and shard.file is not file]


def _check_data(files: Sequence[GgufFile], file_check: FileCheck) -> None:
    from mtkit.checks.tensors import data_findings

    broken = frozenset(finding.field for finding in file_check.findings if finding.is_error)
    unknown = 0
    for file in files:
        for item in data_findings(file, broken):
            if isinstance(item, Finding):
                file_check.findings += (
                    [item] if file is files[0] else attribute_findings(file.name, [item])
                )
            else:
                unknown += 1
    file_check.skip_unknown_data(unknown)


def file_rules() -> tuple[Rule, ...]:
    """Return the rules of ``mtkit check`` alone, except those of tensor data (``--deep``)."""
    from mtkit.checkpoints import model_folder, safetensors, torch_file
    from mtkit.checks import (
        folder,
        gguf_keys,
        loader,
        programs,
        projector,
        special_ids,
        tensors,
        tokenizer_rules,
    )

    return (
        *loader.CONTAINER_RULES,
        *loader.OPENING_RULES,
        *loader.ARCHITECTURE_RULES,
        *loader.MODEL_RULES,
        *loader.TENSOR_RULES,
        *projector.RULES,
        programs.RUNS_MODEL,
        *tensors.UNFINISHED_RULES,
        *gguf_keys.PARTS.values(),
        *gguf_keys.KEYS,
        *gguf_keys.MERGES,
        READABLE,
        SUPPORTED,
        *tokenizer_rules.VOCABULARY_RULES,
        *tokenizer_rules.TOKENIZER_RULES,
        *tokenizer_rules.RUN_RULES,
        TABLES,
        *tokenizer_rules.CLASS_RULES,
        *tokenizer_rules.TEMPLATE_RULES,
        *tokenizer_rules.AGAINST_RULES,
        *programs.PROGRAM_RULES,
        *safetensors.RULES,
        *safetensors.INDEX_RULES,
        *torch_file.RULES,
        *model_folder.RULES,
        *folder.FOLDER_RULES,
        *special_ids.RULES,
    )


def all_rules() -> Iterator[Rule]:
    """Yield every rule that a check can find broken."""
    from mtkit.checks.tensors import DATA_RULES
    from mtkit.gguf import rules as gguf_rules
    from mtkit.gguf import shards
    from mtkit.spec.rules import RULES as SPEC_RULES

    yield from (*gguf_rules.RULES, *shards.SHARD_RULES, *file_rules(), *SPEC_RULES, *DATA_RULES)


def explain(code: str) -> list[tuple[str, str]]:
    """Return what is known about a code: severity, who demands it, what it means."""
    by_code = {rule.code: rule for rule in all_rules()}
    if code not in by_code:
        from difflib import get_close_matches

        from mtkit.base.escape import either

        near = get_close_matches(code, by_code, n=3)
        hint = f"is it {either(near)}?" if near else "docs/rules.md lists the codes"
        raise UsageError(f"unknown code {code!r}", hint=hint)
    rule = by_code[code]
    return [
        ("severity", rule.severity),
        ("required by", rule.source),
        ("field", rule.field or "any"),
        ("meaning", rule.explanation),
    ]


def _deep(what: str = "") -> str:
    """Return what looks into all of a file, and what it does there."""
    return f"{wording('--deep', 'deep=True')} {what}".rstrip()


def check(
    path: str | os.PathLike[str],
    *,
    deep: bool = False,
    against: str | None = None,
    runs_on: Collection[str] = (),
    most: int = MOST_BYTES,
) -> Report:
    """Check a file or a model folder against all rules.

    Args:
        path: A GGUF, safetensors or tokenizer file, a folder with a model or a tokenizer, or a
            URL.
        deep: Also read the tensor data of a GGUF or a model folder, and test the whole tokenizer:
            merges, a test run, chat templates.
        against: A tokenizer (file, folder or ORG/NAME) to compare the chat templates with.
        runs_on: Programs to compare with, such as "llama.cpp": their ids and decoded texts.
        most: Maximum bytes to fetch of a remote file.

    Raises:
        UsageError: A file does not exist, or ``deep`` is requested for a URL.
        FormatError: ``against`` is damaged.
    """
    from mtkit.sources.locate import locate

    path = os.fspath(path)
    other_spec = None
    if against is not None:
        from mtkit.tokenizer.load import load

        other_spec = load(against).spec
    names: tuple[str, ...] = ()
    if runs_on:
        from mtkit.conversion.programs import find_program

        names = tuple(find_program(name).name for name in runs_on)
    if is_remote(path):
        if deep:
            what = f"is not fetched whole for {_deep()}"
            raise UsageError(what, source=path, hint="download it")
        source = open_remote(path, most=most)
    else:
        at = expand_home(path)
        if not os.path.exists(at):
            from mtkit.sources import hub

            at = hub.find(path) or at
        options = CheckOptions(deep, other_spec, against or "", names)
        if os.path.isdir(at):
            from mtkit.checkpoints import adapter_folder
            from mtkit.checks import folder

            if folder.is_model(at):
                return _check_folder(at, options)
            if adapter_folder.sniff(at):
                return _check_adapter(at, options)
        source = Source.open(locate(path).path)
    return check_source(source, CheckOptions(deep, other_spec, against or "", names))


def _check_adapter(path: str, options: CheckOptions) -> Report:
    """Check the folder of an adapter: its files, and whether it is converted."""
    from mtkit.checks.folder import adapter_findings

    file_check = FileCheck(Source(path, b""), options)
    file_check.findings += adapter_findings(path)
    file_check.skipped.append(("tensor data", "mtkit checks tensor data in GGUF files only"))
    return file_check.report("adapter")


def _check_folder(path: str, options: CheckOptions) -> Report:
    """Check a model folder: config.json, weights and tokenizer, and how they fit together."""
    from mtkit.architectures import may_be_packed
    from mtkit.checkpoints import model_folder
    from mtkit.checks import folder, special_ids

    survey = model_folder.survey_folder(path, may_be_packed)
    file_check = FileCheck(Source(path, b""), options)
    file_check.findings += (*survey.findings, *folder.folder_findings(survey))
    seen: set[str] = set()
    tokenizers = []
    for name in folder.tokenizer_files(path):
        source = folder.WatchedSource(name)
        inner = FileCheck(source, options, is_part=True)
        _check_tokenizer(source, inner)
        file_check.findings += attribute_findings(name, inner.findings)
        file_check.skipped += inner.skipped
        file_check.has_run = file_check.has_run or inner.has_run
        seen |= {os.path.basename(name), *source.read}
        tokenizers += [] if inner.whole is None else [inner.whole]
    file_check.findings += folder.tokenizer_findings(survey, tokenizers)
    sound = all(finding.rule.severity == "note" for finding in file_check.findings)
    if options.deep:
        _check_weights(survey.tensors, file_check)
    elif survey.tensors:
        file_check.skipped.append(("tensor data", _deep("reads it")))
    if sound:
        file_check.findings += folder.conversion_findings(survey) if survey.tensors else ()
    else:
        file_check.skipped.append(("conversion", "not tried because of the findings"))
    file_check.findings += special_ids.special_id_findings(path)
    file_check.skipped = [
        *dict.fromkeys((*file_check.skipped, *folder.unchecked_parts(survey, seen)))
    ]
    return file_check.report("folder")


def _check_weights(stored: Mapping[str, StoredTensor], file_check: FileCheck) -> None:
    from mtkit.checks.tensors import weight_findings

    unknown = 0
    for item in weight_findings(stored):
        if isinstance(item, Finding):
            file_check.findings.append(item)
        else:
            unknown += 1
    file_check.skip_unknown_data(unknown)


def check_source(source: Source, options: CheckOptions) -> Report:
    """Check an open file, as ``check`` does."""
    file_check = FileCheck(source, options)
    kind = kind_of(source)
    if kind == "gguf":
        check_gguf(source, file_check)
        return file_check.report("gguf")
    if kind in ("index", "safetensors"):
        from mtkit.checkpoints import safetensors

        _check_safetensors(
            source, file_check, safetensors.read_index if kind == "index" else safetensors.read
        )
        return file_check.report("safetensors")
    if kind == "imatrix":
        from mtkit.checkpoints import legacy_imatrix

        legacy_imatrix.read(source)
        return file_check.report("imatrix")
    return file_check.report(_check_tokenizer(source, file_check))


def _check_tokenizer(source: Source, file_check: FileCheck) -> str:
    from mtkit import formats

    try:
        module = formats.recognize(source)
    except FormatError as error:
        file_check.hold(READABLE, error)
        file_check.skipped.append(("the file", "its format is unknown"))
        return ""
    try:
        spec = module.read(source, {}).spec
    except FormatError as error:
        file_check.hold(READABLE, error)
        file_check.skipped.append(("tokenizer", "it could not be read completely"))
    except UnsupportedError as error:
        file_check.hold(SUPPORTED, error)
        file_check.skipped.append(("tokenizer", "it has parts that mtkit does not support"))
    else:
        file_check.tokenizer(spec, module.NAME)
        file_check.tables(spec)
    return module.NAME


def _check_safetensors(
    source: Source, file_check: FileCheck, read: Callable[..., Index | Header]
) -> None:
    from mtkit.checkpoints import safetensors
    from mtkit.checkpoints.folder_files import tensors_in

    try:
        header = read(source, strict=False)
        file_check.findings += header.findings
    except FormatError as error:
        file_check.hold(READABLE, error)
        file_check.skipped.append(("everything after the damage", "reading stopped there"))
        return
    if isinstance(header, safetensors.Header):
        if file_check.options.deep:
            tensors = {row.weight.name: row for row in tensors_in(source, header)}
            _check_weights(tensors, file_check)
        else:
            file_check.skipped.append(("tensor data", _deep("reads it")))
