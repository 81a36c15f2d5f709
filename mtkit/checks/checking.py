"""Holding a file, or a model folder, to every rule that is about it."""

from __future__ import annotations

import os

from mtkit.architectures import packed_classes
from mtkit.base.binary import Source
from mtkit.checkpoints import folder_survey, safetensors, safetensors_index
from mtkit.checkpoints.kind import kind_of
from mtkit.checks import (
    folder,
    folder_reading,
    gguf_file,
    gguf_keys,
    loader,
    model_tensors,
    running,
    templates,
    tensors,
    vocabulary,
)
from mtkit.checks.one_check import READABLE, SUPPORTED, TABLES, Asked, Checking, told_of
from mtkit.checks.programs import findings as programs
from mtkit.errors import FormatError, UnsupportedError, UsageError
from mtkit.sources import hub
from mtkit.sources.remote import MOST_BYTES, is_remote, open_remote

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from mtkit.checkpoints.safetensors import Header
    from mtkit.checkpoints.safetensors_index import Index
    from mtkit.checks.report import Report

RULES = (
    *loader.CONTAINER,
    *loader.OPENED,
    *loader.ARCHITECTURES_RULE,
    *loader.MODEL,
    *model_tensors.RULES,
    running.MODEL,
    *tensors.UNFINISHED,
    *gguf_keys.PARTS.values(),
    *gguf_keys.KEYS,
    *gguf_keys.MERGES,
    READABLE,
    SUPPORTED,
    *vocabulary.VOCABULARY,
    *vocabulary.TOKENIZER,
    *vocabulary.RUN,
    TABLES,
    *folder_reading.FOLDER,
    *templates.TEMPLATE,
    *templates.AGAINST,
    *programs.RULES,
    *safetensors.RULES,
    *safetensors_index.RULES,
    *folder_survey.RULES,
    *folder.RULES,
)
"""All rules of ``mtkit check`` except those of tensor data, which need ``--deep``."""


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
        deep: Also read the tensor data of a GGUF, and test its whole tokenizer: merges, a test
            run, chat templates.
        against: A tokenizer (file, folder or ORG/NAME) to compare the chat templates with.
        runs_on: Programs to compare with, such as "llama.cpp": their ids and decoded texts.
        most: Maximum bytes to fetch of a remote file.

    Raises:
        UsageError: A file does not exist, or ``deep`` is requested for a URL.
        FormatError: ``against`` is damaged.
    """
    from mtkit.programs import program_named
    from mtkit.sources.locate import locate

    path = os.fspath(path)
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
        source = Source.open(locate(path).path)
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
        found.findings += told_of(name, inner.findings)
        found.skipped += inner.skipped
        found.has_run = found.has_run or inner.has_run
        seen |= {os.path.basename(name), *source.read}
        ids = max(ids or 0, inner.ids) if inner.ids is not None else ids
    found.findings += folder.of_tokenizer(survey, ids)
    if all(finding.rule.severity == "note" for finding in found.findings):
        found.findings += folder.of_conversion(survey) if survey.tensors else ()
    else:
        found.skipped.append(("conversion", "not tried because of the findings"))
    found.skipped = [*dict.fromkeys((*found.skipped, *folder.left_out(survey, seen)))]
    return found.report("folder")


def check_source(source: Source, asked: Asked) -> Report:
    """Hold an open file to every rule, as ``check`` does."""
    found = Checking(source, asked)
    kind = kind_of(source)
    if kind == "gguf":
        gguf_file.hold(source, found)
        return found.report("gguf")
    if kind in ("index", "safetensors"):
        _safetensors(source, found, (safetensors_index if kind == "index" else safetensors).read)
        return found.report("safetensors")
    return found.report(_tokenizer(source, found))


def _tokenizer(source: Source, found: Checking) -> str:
    """Hold a tokenizer file to the rules; return its format."""
    from mtkit import formats

    try:
        module = formats.recognize(source)
    except FormatError as error:
        found.hold(READABLE, error)
        found.skipped.append(("the file", "its format is unknown"))
        return ""
    try:
        spec = module.read(source, {}).spec
    except FormatError as error:
        found.hold(READABLE, error)
        found.skipped.append(("tokenizer", "it could not be read completely"))
    except UnsupportedError as error:
        found.hold(SUPPORTED, error)
        found.skipped.append(("tokenizer", "it has parts that mtkit does not support"))
    else:
        found.tokenizer(spec, module.NAME)
        found.tables(spec)
    return module.NAME


def _safetensors(source: Source, found: Checking, read: Callable[..., Index | Header]) -> None:
    try:
        found.findings += read(source, strict=False).findings
    except FormatError as error:
        found.hold(READABLE, error)
        found.skipped.append(("everything after the damage", "reading stopped there"))
    found.skipped.append(("tensor data", "mtkit checks tensor data in GGUF files only"))
