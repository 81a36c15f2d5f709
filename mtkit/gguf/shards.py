"""A model cut into several files, ``NAME-00001-of-00003.gguf`` and so on.

Each file has ``split.no`` (u16, from 0), ``split.count`` (u16) and ``split.tensors.count`` (i32, of
all files together); only the first has the rest of the metadata. As llama.cpp does, a set is judged
from its first file: there a wrong set is an error, in a later one a finding. A file that is not
there is reported; it is up to the caller whether that matters.
Source: llama-model-loader.cpp, ``llama_split_path`` and ``llama_split_prefix`` of llama.cpp.
"""

from __future__ import annotations

import os

from mtkit.base.record import Record
from mtkit.base.rules import Finding, Findings, Rule
from mtkit.errors import FormatError, MtkitError, UsageError
from mtkit.gguf.magic import MAGIC
from mtkit.gguf.reader import open_gguf
from mtkit.gguf.rules import INTEGERS, LLAMA_CPP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.gguf.file import GgufFile

MAX_COUNT = 65535
SPLIT_KEYS = ("split.no", "split.count", "split.tensors.count")


def _number(number: int, count: int) -> str:
    return (
        ""
        if count <= MAX_COUNT and 0 <= number < count
        else f"is {number}, but there are {count} shards, numbered from 0"
    )


def _name(name: str, suffix: str) -> str:
    what = f"the file name does not end in {suffix}, so the other shards cannot be found"
    return "" if name.endswith(suffix) else what


def _said(value: object, wanted: int) -> str:
    said = "missing" if value is None else value
    return "" if value == wanted else f"is {said}, but its name says {wanted}"


def _one_file(owner: str) -> str:
    return f"is in {owner}, too" if owner else ""


def _all_tensors(wanted: int, count: int) -> str:
    return "" if wanted == count else f"is {wanted}, but the files of the set have {count}"


def _readable(error: str) -> str:
    return error


NUMBER = Rule("split-number", "warning", LLAMA_CPP, "split.no", _number)
NAME = Rule("split-name", "warning", LLAMA_CPP, "split.count", _name)
READABLE = Rule("split-file", "error", LLAMA_CPP, "split.count", _readable)
SAID = Rule("split-said", "error", LLAMA_CPP, "split.no", _said)
ONE_FILE = Rule("split-tensor", "error", LLAMA_CPP, "", _one_file)
ALL_TENSORS = Rule("split-tensor-count", "error", LLAMA_CPP, "split.tensors.count", _all_tensors)
RULES = (NUMBER, NAME, READABLE, SAID, ONE_FILE, ALL_TENSORS)


class Shard(Record):
    """One file of a set.

    Attributes:
        path: Where it is, or should be.
        file: What it holds; None when it is missing or damaged.
    """

    path: str
    file: GgufFile | None


class ShardSet(Record):
    """A set of files.

    Attributes:
        number: Which file was opened, from 0.
        count: Files in the set.
        tensor_count: Tensors in the whole set as the opened file says; None where it does not.
        shards: All files in order; empty when the name of the opened one does not lead to them.
        findings: What is odd about the set.
    """

    number: int
    count: int
    tensor_count: int | None
    shards: tuple[Shard, ...]
    findings: tuple[Finding, ...]

    @property
    def is_complete(self) -> bool:
        """Whether every file of the set has been read."""
        return bool(self.shards) and all(shard.file for shard in self.shards)


def shard_set(file: GgufFile, *, strict: bool = True) -> ShardSet | None:
    """Return the set that a file belongs to, or None when it stands alone.

    Args:
        file: One of the set.
        strict: Raise the first error, if the file is the first of its set; otherwise keep it.

    Raises:
        FormatError: The file is the first of its set and the set is wrong.
    """
    count = _integer(file, "split.count")
    if count is None or count <= 1:  # gguf-split --merge leaves the key, as 0
        return None
    if "://" in file.name:  # of files on a server only the one that was named is known
        return None
    number = _integer(file, "split.no") or 0
    findings = Findings(strict=strict and number == 0)
    suffix = f"-{number + 1:05d}-of-{count:05d}.gguf"
    shards: list[Shard] = []
    if _hold(findings, NUMBER, file, "split.no", number, count) and _hold(
        findings, NAME, file, "split.count", file.name, suffix
    ):
        prefix = file.name.removesuffix(suffix)
        for index in range(count):
            path = f"{prefix}-{index + 1:05d}-of-{count:05d}.gguf"
            shards.append(Shard(path, file if index == number else _open(path, findings)))
    tensors = _compare(shards, findings)
    tensor_count = _integer(file, "split.tensors.count")
    if shards and all(shard.file for shard in shards) and tensor_count is not None:
        _hold(findings, ALL_TENSORS, file, "split.tensors.count", tensor_count, tensors)
    return ShardSet(number, count, tensor_count, tuple(shards), tuple(findings.found))


def all_files(file: GgufFile) -> tuple[GgufFile, ...]:
    """Return the files of a model: those of a set that is opened by its first, or the file alone.

    Raises:
        UsageError: The file is a later one of a set.
        FormatError: A file of the set is missing or damaged, or the set is wrong.
    """
    shards = shard_set(file)
    if shards is None:
        return (file,)
    if bytes(file.data[len(file.data) - file.trailing_bytes :][:4]) == MAGIC:
        what = "has another GGUF behind its tensors, as cat puts files one behind the other"
        hint = "take the files as they were: mtkit merge NAME-00001-of-0000N.gguf joins them"
        raise FormatError(what, source=file.name, hint=hint)
    if not shards.shards:
        what = f"is file {shards.number + 1} of {shards.count}, but its name does not say so"
        name = f"NAME-{shards.number + 1:05d}-of-{shards.count:05d}.gguf"
        raise FormatError(what, source=file.name, hint=f"rename it to {name}, the others likewise")
    if shards.number:
        what = f"is file {shards.number + 1} of {shards.count}"
        raise UsageError(what, source=file.name, hint=f"name {shards.shards[0].path}")
    missing = [shard.path for shard in shards.shards if shard.file is None]
    if missing:
        are = "is missing:" if len(missing) == 1 else "are missing, such as"
        what = f"{len(missing)} of {shards.count} files {are} {missing[0]}"
        hint = "all shards must be in one folder"
        raise FormatError(what, source=file.name, hint=hint)
    return tuple(shard.file for shard in shards.shards if shard.file)


def _open(path: str, findings: Findings) -> GgufFile | None:
    """Read another file of the set; None where it is missing or damaged."""
    if not os.path.isfile(path):
        return None
    try:
        return open_gguf(path)
    except MtkitError as error:
        if findings.strict:
            raise
        findings.add(Finding(READABLE, "split.count", str(error), 0))
        return None


def _compare(shards: list[Shard], findings: Findings) -> int:
    """Compare the files of a set with each other; return how many tensors they have."""
    owners: dict[str, str] = {}
    for index, shard in enumerate(shards):
        if shard.file is None:
            continue
        for key, wanted in (("split.no", index), ("split.count", len(shards))):
            _hold(findings, SAID, shard.file, key, shard.file.metadata.get(key), wanted)
        for tensor in shard.file.tensors:
            owner = owners.setdefault(tensor.name, shard.path)
            if owner != shard.path:
                field, offset = tensor.place("name")
                other = os.path.basename(owner)
                findings.hold(ONE_FILE, other, field=field, offset=offset, source=shard.path)
    return len(owners)


def _hold(findings: Findings, rule: Rule, file: GgufFile, key: str, *asked: object) -> bool:
    """Ask a rule about a key of a file."""
    entry = file.metadata.entries.get(key)
    offset = entry.value_offset if entry else None
    return findings.hold(rule, *asked, field=key, offset=offset, source=file.name)


def _integer(file: GgufFile, key: str) -> int | None:
    entry = file.metadata.entries.get(key)
    return int(entry.value) if entry and entry.type in INTEGERS else None
