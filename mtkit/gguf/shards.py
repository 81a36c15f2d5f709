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
from mtkit.errors import FormatError, MtkitError
from mtkit.gguf.file import Finding
from mtkit.gguf.names import shown
from mtkit.gguf.reader import open_gguf
from mtkit.gguf.types import I8, I16, I32, I64, U8, U16, U32, U64

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.gguf.file import GgufFile

_INTEGERS = {value_type.name for value_type in (U8, I8, U16, I16, U32, I32, U64, I64)}
MAX_COUNT = 65535


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


def shard_set(file: GgufFile) -> ShardSet | None:
    """Return the set that a file belongs to, or None when it stands alone.

    Raises:
        FormatError: The file is the first of its set and the set is wrong.
    """
    findings: list[Finding] = []
    count = _integer(file, "split.count", findings, wanted="u16")
    if count is None or count <= 1:  # gguf-split --merge leaves the key, as 0
        alone = (Shard(file.name, file),)
        return ShardSet(0, 1, None, alone, tuple(findings)) if findings else None
    number = _integer(file, "split.no", findings, wanted="u16") or 0
    tensor_count = _integer(file, "split.tensors.count", findings, wanted="i32")
    suffix = f"-{number + 1:05d}-of-{count:05d}.gguf"
    shards: list[Shard] = []
    if count > MAX_COUNT or not 0 <= number < count:
        findings.append(_finding(file, "split.no", f"is {number} of {count}"))
    elif not file.name.endswith(suffix):
        findings.append(
            _finding(file, "split.count", f"the others cannot be found: no name in {suffix}")
        )
    else:
        prefix = file.name.removesuffix(suffix)
        for index in range(count):
            path = f"{prefix}-{index + 1:05d}-of-{count:05d}.gguf"
            shards.append(_open(path, file, index == number, number == 0, findings))
    found = ShardSet(number, count, tensor_count, tuple(shards), ())
    for path, field, what in _faults(found):
        if number == 0:
            raise FormatError(what, source=path, field=field)
        findings.append(Finding(field, f"{os.path.basename(path)}: {what}", 0))
    return ShardSet(number, count, tensor_count, tuple(shards), tuple(findings))


def _open(
    path: str, opened: GgufFile, is_opened: bool, is_strict: bool, findings: list[Finding]
) -> Shard:
    if is_opened:
        return Shard(path, opened)
    if not os.path.isfile(path):
        return Shard(path, None)
    try:
        return Shard(path, open_gguf(path))
    except MtkitError as error:
        if is_strict:
            raise
        findings.append(Finding("split.count", str(error), 0))
        return Shard(path, None)


def _faults(found: ShardSet) -> list[tuple[str, str, str]]:
    """What contradicts the set: (path, field, what)."""
    faults: list[tuple[str, str, str]] = []
    owners: dict[str, str] = {}
    for index, shard in enumerate(found.shards):
        if shard.file is None:
            continue
        for field, wanted in (("split.no", index), ("split.count", found.count)):
            value = shard.file.metadata.get(field)
            if value != wanted:
                faults.append((shard.path, field, f"is {value}, its name says {wanted}"))
        for tensor in shard.file.tensors:
            if tensor.name in owners:
                label = f"tensor {shown(tensor.name)!r}"
                where = os.path.basename(owners[tensor.name])
                faults.append((shard.path, label, f"is in {where}, too"))
            owners[tensor.name] = shard.path
    if found.is_complete and found.tensor_count not in (None, len(owners)):
        what = f"is {found.tensor_count}, the files of the set have {len(owners)}"
        faults.append((found.shards[found.number].path, "split.tensors.count", what))
    return faults


def _integer(file: GgufFile, key: str, findings: list[Finding], *, wanted: str) -> int | None:
    entry = file.metadata.entries.get(key)
    if entry is None:
        return None
    if entry.type.name != wanted:
        findings.append(Finding(key, f"is of type {entry.type.name}, not {wanted}", entry.offset))
    return int(entry.value) if entry.type.name in _INTEGERS else None


def _finding(file: GgufFile, key: str, what: str) -> Finding:
    entry = file.metadata.entries.get(key)
    return Finding(key, what, entry.offset if entry else 0)
