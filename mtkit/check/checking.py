"""Holding one file to every rule that is about it."""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.base.record import Record, replace
from mtkit.base.rules import BrokenRule, Finding, Rule
from mtkit.check import gguf_keys, loader, templates, vocabulary
from mtkit.check.programs import PROGRAMS
from mtkit.check.programs import findings as programs
from mtkit.check.report import Report, surveyed
from mtkit.checkpoints import safetensors, safetensors_index
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf.magic import MAGIC
from mtkit.sources.remote import MOST_BYTES, is_remote, open_remote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from mtkit.checkpoints.safetensors import Header
    from mtkit.checkpoints.safetensors_index import Index
    from mtkit.gguf import GgufFile
    from mtkit.gguf.shards import ShardSet
    from mtkit.spec import TokenizerSpec

READABLE = Rule("tokenizer", "error", "the format's reference", "file")
SUPPORTED = Rule("tokenizer-support", "warning", "mtkit", "file")
RULES = (
    *loader.CONTAINER,
    *loader.OPENED,
    *loader.ARCHITECTURES_RULE,
    *loader.MODEL,
    *gguf_keys.PARTS.values(),
    *gguf_keys.KEYS,
    *gguf_keys.MERGES,
    READABLE,
    SUPPORTED,
    *vocabulary.VOCABULARY,
    *vocabulary.TOKENIZER,
    *vocabulary.RUN,
    *templates.TEMPLATE,
    *templates.AGAINST,
    *programs.RULES,
    *safetensors.RULES,
    *safetensors_index.RULES,
)
"""All that are here besides those of ``tensors``."""


class Asked(Record):
    """What a file is held against besides the rules.

    Attributes:
        deep: Read all of a GGUF.
        against: The tokenizer whose chat templates it should have.
        other: Its name.
        runs_on: Names of programs whose reading is compared.
    """

    deep: bool = False
    against: TokenizerSpec | None = None
    other: str = ""
    runs_on: Collection[str] = ()

    @property
    def of_tokenizer(self) -> bool:
        """Whether all of a GGUF's tokenizer has to be read."""
        return bool(self.deep or self.against is not None or self.runs_on)


class _Checking:
    """Findings and what was left out, of one file."""

    def __init__(self, source: Source, asked: Asked) -> None:
        self.source, self.asked = source, asked
        self.findings: list[Finding] = []
        self.skipped: list[tuple[str, str]] = []
        self.has_run = False

    def report(self, kind: str) -> Report:
        """Return what was found; a program that was not asked is never taken for content."""
        if not self.has_run:
            self.findings += map(programs.unread, self.asked.runs_on)
            if self.asked.against is not None:
                (rule,) = templates.AGAINST
                what = f"not compared with {self.asked.other}: there is no tokenizer that runs"
                self.findings.append(Finding(rule, rule.field, what, None))
        return Report(self.source.name, kind, tuple(self.findings), tuple(self.skipped))

    def hold(self, rule: Rule, error: MtkitError) -> None:
        """Keep an error as what breaks a rule."""
        if isinstance(error, BrokenRule):
            self.findings.append(error.finding)
        else:
            self.findings.append(Finding(rule, error.field, error.what, error.offset, error.hint))

    def tokenizer(self, spec: TokenizerSpec, kind: str) -> None:
        """Hold a specification and its chat templates to the rules."""
        from mtkit.tokenizer.tokenizer import Tokenizer

        self.findings += surveyed(vocabulary.VOCABULARY, spec.vocabulary)
        self.findings += surveyed(vocabulary.TOKENIZER, spec)
        tokenizer = Tokenizer(spec, source=self.source.name, format_name=kind)
        broken = list(surveyed(vocabulary.RUN, tokenizer))
        if broken:
            self.findings += broken
            self.skipped.append(("chat template", "the tokenizer does not run"))
            return
        if not spec.chat_templates:
            self.skipped.append(("chat template", "there is none"))
        for template in spec.chat_templates:
            self.findings += surveyed(templates.TEMPLATE, templates.Trial(template, tokenizer))
        if self.asked.against is not None:
            wanted = {one.name: one.text for one in self.asked.against.chat_templates}
            self.findings += surveyed(templates.AGAINST, spec, self.asked.other, wanted)
        self.has_run = True
        for name in self.asked.runs_on:
            self.findings += programs.findings(PROGRAMS[name], tokenizer)


def check(
    path: str,
    *,
    deep: bool = False,
    against: str | None = None,
    runs_on: Collection[str] = (),
    most: int = MOST_BYTES,
) -> Report:
    """Hold a file to every rule.

    Args:
        path: A GGUF, a tokenizer file or a folder with one, or an address.
        deep: Read the data of the tensors of a GGUF, too, and all of its tokenizer: merges, a
            trial of it, chat templates.
        against: A tokenizer (file, folder or ORG/NAME) whose chat templates it should have.
        runs_on: Names of ``programs.PROGRAMS``, whose ids and decoded texts are compared.
        most: Bytes of a file at an address to fetch.

    Raises:
        UsageError: A file does not exist, or ``deep`` is asked of an address.
        FormatError: ``against`` is damaged.
    """
    from mtkit.check.programs import program_named
    from mtkit.sources.locate import locate

    wanted = None
    if against is not None:
        from mtkit.tokenizer.load import load

        wanted = load(against).spec
    names = tuple(program_named(name).name for name in runs_on)
    if is_remote(path):
        if deep:
            raise UsageError("is not fetched whole for --deep", source=path, hint="download it")
        source = open_remote(path, most=most)
    else:
        source = Source.open(locate(path))
    return check_source(source, Asked(deep, wanted, against or "", names))


def check_source(source: Source, asked: Asked) -> Report:
    """Hold an open file to every rule, as ``check`` does."""
    found = _Checking(source, asked)
    if bytes(source.data[:4]) == MAGIC:
        _gguf(source, found)
        return found.report("gguf")
    is_index = safetensors_index.sniff(source)
    if is_index or safetensors.is_meant(source):
        _safetensors(source, found, safetensors_index.read if is_index else safetensors.read)
        return found.report("safetensors")
    from mtkit import formats

    try:
        module = formats.recognise(source)
    except FormatError as error:
        found.hold(READABLE, error)
        found.skipped.append(("the file", "it is of no kind that is known"))
        return found.report("")
    try:
        spec = module.read(source, {}).spec
    except FormatError as error:
        found.hold(READABLE, error)
        found.skipped.append(("tokenizer", "it could not be read to its end"))
    except UnsupportedError as error:
        found.hold(SUPPORTED, error)
        found.skipped.append(("tokenizer", "mtkit does not know all of it"))
    else:
        found.tokenizer(spec, module.NAME)
    return found.report(module.NAME)


def _gguf(source: Source, found: _Checking) -> None:
    from mtkit.gguf import open_gguf
    from mtkit.gguf.shards import shard_set

    file = open_gguf(source, strict=False)
    found.findings += file.findings
    if not file.is_whole:
        found.skipped.append(("what lies behind the damage", "the reading ended there"))
        return
    shards = shard_set(file, strict=False)
    found.findings += shards.findings if shards else ()
    found.findings += surveyed((*loader.CONTAINER, *loader.OPENED), file)
    others = _others(file, shards)
    for one in others:
        found.findings += _told_of(one, (*one.findings, *surveyed(loader.CONTAINER, one)))
    if shards and shards.number:
        found.skipped.append(("model and tokenizer", "only the first file of a set has them"))
    else:
        _model(file, shards, found)
        if loader.has_tokenizer(file):
            _vocabulary(file, found)
        else:
            found.skipped.append(("tokenizer", "there is none"))
    if found.asked.deep:
        _data([file, *others], found)
    elif any(one.tensors for one in (file, *others)):
        found.skipped.append(("tensor data", "--deep reads it"))


def _safetensors(source: Source, found: _Checking, read: Callable[..., Index | Header]) -> None:
    try:
        found.findings += read(source, strict=False).findings
    except FormatError as error:
        found.hold(READABLE, error)
        found.skipped.append(("what lies behind the damage", "the reading ended there"))
    found.skipped.append(("tensor data", "mtkit reads that of a GGUF alone"))


def _model(file: GgufFile, shards: ShardSet | None, found: _Checking) -> None:
    files = [shard.file for shard in shards.shards if shard.file] if shards else [file]
    tensors = tuple(tensor for one in files for tensor in one.tensors)
    is_model = loader.is_model(file, tensors)
    if is_model or loader.has_tokenizer(file) or loader.is_of_no_kind(file, tensors):
        found.findings += surveyed(loader.ARCHITECTURES_RULE, file)
    if is_model and (shards is None or shards.is_complete):
        found.findings += surveyed(loader.MODEL, file, tensors)


def _vocabulary(file: GgufFile, found: _Checking) -> None:
    """Hold the tokenizer's keys to the rules; all of it where that was asked for.

    Reading half a million merges takes seconds; what a glance at the columns shows does not.
    """
    from mtkit.formats.contract import Reading
    from mtkit.formats.gguf.keys import Keys
    from mtkit.formats.gguf.reader import read_parts, read_spec

    keys = Keys(file, {})
    try:
        columns, errors = read_parts(keys)
        for part, error in errors:
            found.hold(gguf_keys.PARTS[part], error)
        found.findings += surveyed(gguf_keys.KEYS, keys)
        if columns is None:
            found.skipped.append(("tokenizer", "its keys could not all be read"))
        elif found.asked.of_tokenizer and not errors:
            found.findings += surveyed(gguf_keys.MERGES, keys)
            found.tokenizer(Reading(read_spec(keys)).spec, "gguf")
        else:
            found.findings += surveyed(vocabulary.VOCABULARY, columns)
            why = "not all of its keys could be read" if errors else "--deep does these"
            found.skipped.append(("merges, chat templates, a trial", why))
    except FormatError as error:
        found.hold(gguf_keys.PARTS["vocabulary"], error)
        found.skipped.append(("tokenizer", "its keys contradict each other"))
    except UnsupportedError as error:
        found.skipped.append(("tokenizer", error.what))


def _others(file: GgufFile, shards: ShardSet | None) -> list[GgufFile]:
    """Return the other files of a set that is named by its first."""
    if shards is None or shards.number:
        return []
    return [shard.file for shard in shards.shards if shard.file and shard.file is not file]


def _told_of(file: GgufFile, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Say of another file's findings whose they are."""
    return (replace(finding, source=file.name) for finding in findings)


def _data(files: Sequence[GgufFile], found: _Checking) -> None:
    from mtkit.check.tensors import found_in

    broken = frozenset(finding.field for finding in found.findings if finding.is_error)
    unknown = 0
    for file in files:
        for item in found_in(file, broken):
            if isinstance(item, Finding):
                found.findings += [item] if file is files[0] else _told_of(file, [item])
            else:
                unknown += 1
    if unknown:
        found.skipped.append((f"data of {unknown} tensors", "no floats are looked for in its type"))
