"""Holding a GGUF, or a set of them, to the rules: container, model, tokenizer, data."""

from __future__ import annotations

from mtkit.base.rules import Finding
from mtkit.checks import gguf_keys, loader, model_tensors, running, vocabulary
from mtkit.checks.one_check import told_of
from mtkit.checks.report import surveyed
from mtkit.checks.tensor_types import TYPES
from mtkit.checks.tensors import UNFINISHED
from mtkit.errors import FormatError, UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.base.binary import Source
    from mtkit.checks.one_check import Checking
    from mtkit.gguf import GgufFile
    from mtkit.gguf.file import Tensor
    from mtkit.gguf.shards import ShardSet


def hold(source: Source, found: Checking) -> None:
    """Hold a GGUF to the rules."""
    from mtkit.gguf import open_gguf
    from mtkit.gguf.shards import shard_set

    file = open_gguf(source, strict=False)
    found.findings += file.findings
    if not file.is_whole:
        found.skipped.append(("everything after the damage", "reading stopped there"))
        return
    shards = shard_set(file, strict=False)
    found.findings += shards.findings if shards else ()
    found.findings += surveyed((*loader.CONTAINER, *loader.OPENED), file)
    others = _others(file, shards)
    for one in others:
        found.findings += told_of(one.name, (*one.findings, *surveyed(loader.CONTAINER, one)))
    if shards and shards.number:
        found.skipped.append(("model and tokenizer", "only the first shard has them"))
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


def _model(file: GgufFile, shards: ShardSet | None, found: Checking) -> None:
    files = [shard.file for shard in shards.shards if shard.file] if shards else [file]
    tensors = tuple(tensor for one in files for tensor in one.tensors)
    is_model = loader.is_model(file, tensors)
    if is_model or loader.has_tokenizer(file) or loader.is_of_no_kind(file, tensors):
        found.findings += surveyed(loader.ARCHITECTURES_RULE, file)
    if not is_model:
        return
    if "://" not in file.name:  # of a file on a server the header alone is there
        found.findings += surveyed(UNFINISHED, file)
        others = (one for one in files if one is not file)
        found.findings += (
            finding for one in others for finding in told_of(one.name, surveyed(UNFINISHED, one))
        )
    if shards is None or shards.is_complete:
        _tensors(file, tensors, found)
        if running.PROGRAM in found.asked.runs_on:
            found.take(running.tried(found.source))


def _tensors(file: GgufFile, tensors: tuple[Tensor, ...], found: Checking) -> None:
    wrong = list(surveyed(loader.MODEL, file, tensors))
    found.findings += wrong
    beside = (loader.NO_TOKENIZER, *TYPES)
    if any(finding.rule not in beside for finding in wrong):
        found.skipped.append((model_tensors.PART, "the problems above have to be solved first"))
        return
    for item in model_tensors.findings(file, tensors):
        found.take(item)


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
            why = "not all of its keys could be read" if errors else "--deep checks them"
            found.skipped.append(("merges, chat templates, a test run", why))
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


def _data(files: Sequence[GgufFile], found: Checking) -> None:
    from mtkit.checks.tensors import found_in

    broken = frozenset(finding.field for finding in found.findings if finding.is_error)
    unknown = 0
    for file in files:
        for item in found_in(file, broken):
            if isinstance(item, Finding):
                found.findings += [item] if file is files[0] else told_of(file.name, [item])
            else:
                unknown += 1
    if unknown:
        found.skipped.append((f"data of {unknown} tensors", "no floats are looked for in its type"))
