"""Holding one file to every rule that is about it."""

from __future__ import annotations

import os

from mtkit.architectures import packed_classes
from mtkit.base.binary import Source
from mtkit.base.record import replace
from mtkit.base.rules import Finding
from mtkit.check import folder, gguf_keys, loader, model_tensors, templates, vocabulary
from mtkit.check.one_file import READABLE, SUPPORTED, Asked, Checking
from mtkit.check.programs import findings as programs
from mtkit.check.report import Report, surveyed
from mtkit.checkpoints import folder_survey, safetensors, safetensors_index
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.gguf.magic import MAGIC
from mtkit.sources import hub
from mtkit.sources.remote import MOST_BYTES, is_remote, open_remote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from mtkit.checkpoints.safetensors import Header
    from mtkit.checkpoints.safetensors_index import Index
    from mtkit.gguf import GgufFile
    from mtkit.gguf.shards import ShardSet

RULES = (
    *loader.CONTAINER,
    *loader.OPENED,
    *loader.ARCHITECTURES_RULE,
    *loader.MODEL,
    *model_tensors.RULES,
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
    *folder_survey.RULES,
    *folder.RULES,
)
"""All that are here besides those of ``tensors``."""


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
        at = os.path.expanduser(path)
        model = at if os.path.exists(at) else hub.find(path)
        if model is not None and folder.is_model(model):
            return _folder(model, Asked(deep, wanted, against or "", names))
        source = Source.open(locate(path))
    return check_source(source, Asked(deep, wanted, against or "", names))


def _folder(path: str, asked: Asked) -> Report:
    """Hold a model folder to every rule: config.json, weights and tokenizer, and all together."""
    survey = folder_survey.survey(path, packed_classes())
    found = Checking(Source(path, b""), asked)
    found.findings += (*survey.findings, *folder.findings(survey))
    seen: set[str] = set()
    ids: int | None = None
    for name in folder.tokenizers_of(path):
        source = folder.Watched(name)
        inner = Checking(source, asked)
        _tokenizer(source, inner)
        found.findings += _told_of(name, inner.findings)
        found.skipped += inner.skipped
        found.has_run = found.has_run or inner.has_run
        seen |= {os.path.basename(name), *source.read}
        ids = max(ids or 0, inner.ids) if inner.ids is not None else ids
    found.findings += folder.of_tokenizer(survey, ids)
    if all(finding.rule.severity == "note" for finding in found.findings):
        found.findings += folder.of_conversion(survey) if survey.tensors else ()
    else:
        found.skipped.append(("conversion", "not tried after what was found"))
    found.skipped = [*dict.fromkeys((*found.skipped, *folder.left_out(survey, seen)))]
    return found.report("folder")


def check_source(source: Source, asked: Asked) -> Report:
    """Hold an open file to every rule, as ``check`` does."""
    found = Checking(source, asked)
    if bytes(source.data[:4]) == MAGIC:
        _gguf(source, found)
        return found.report("gguf")
    is_index = safetensors_index.sniff(source)
    if is_index or safetensors.is_meant(source):
        _safetensors(source, found, safetensors_index.read if is_index else safetensors.read)
        return found.report("safetensors")
    return found.report(_tokenizer(source, found))


def _tokenizer(source: Source, found: Checking) -> str:
    """Hold a tokenizer file to the rules; return its format."""
    from mtkit import formats

    try:
        module = formats.recognise(source)
    except FormatError as error:
        found.hold(READABLE, error)
        found.skipped.append(("the file", "it is of no kind that is known"))
        return ""
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
    return module.NAME


def _gguf(source: Source, found: Checking) -> None:
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
        found.findings += _told_of(one.name, (*one.findings, *surveyed(loader.CONTAINER, one)))
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


def _safetensors(source: Source, found: Checking, read: Callable[..., Index | Header]) -> None:
    try:
        found.findings += read(source, strict=False).findings
    except FormatError as error:
        found.hold(READABLE, error)
        found.skipped.append(("what lies behind the damage", "the reading ended there"))
    found.skipped.append(("tensor data", "mtkit reads that of a GGUF alone"))


def _model(file: GgufFile, shards: ShardSet | None, found: Checking) -> None:
    files = [shard.file for shard in shards.shards if shard.file] if shards else [file]
    tensors = tuple(tensor for one in files for tensor in one.tensors)
    is_model = loader.is_model(file, tensors)
    if is_model or loader.has_tokenizer(file) or loader.is_of_no_kind(file, tensors):
        found.findings += surveyed(loader.ARCHITECTURES_RULE, file)
    if is_model and (shards is None or shards.is_complete):
        wrong = list(surveyed(loader.MODEL, file, tensors))
        found.findings += wrong
        if any(finding.rule is not loader.NO_TOKENIZER for finding in wrong):
            found.skipped.append((model_tensors.PART, "what was found above comes first"))
            return
        for item in model_tensors.findings(file, tensors):
            if isinstance(item, Finding):
                found.findings.append(item)
            else:
                found.skipped.append(item)


def _vocabulary(file: GgufFile, found: Checking) -> None:
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


def _told_of(path: str, findings: Iterable[Finding]) -> Iterator[Finding]:
    """Say of another file's findings whose they are."""
    return (replace(finding, source=finding.source or path) for finding in findings)


def _data(files: Sequence[GgufFile], found: Checking) -> None:
    from mtkit.check.tensors import found_in

    broken = frozenset(finding.field for finding in found.findings if finding.is_error)
    unknown = 0
    for file in files:
        for item in found_in(file, broken):
            if isinstance(item, Finding):
                found.findings += [item] if file is files[0] else _told_of(file.name, [item])
            else:
                unknown += 1
    if unknown:
        found.skipped.append((f"data of {unknown} tensors", "no floats are looked for in its type"))
