"""A model in several files, ``NAME-00001-of-00003.gguf`` and so on: read, joined, cut.

Each file has ``split.no`` (u16, from 0), ``split.count`` (u16) and ``split.tensors.count`` (i32, of
all files together); only the first has the rest of the metadata. As llama.cpp does, a set is judged
from its first file: there a wrong set is an error, in a later one a finding. A missing file is
reported; it is up to the caller whether that matters. llama.cpp finds the files of a set by the
name of the first: one that has another name, or is alone, cannot be loaded.

``JoinedGguf`` reads a set as the one file that joining gives: the keys of the first file but for
those that number it, the tensors in the order of the files, their data where it is. ``split_model``
cuts: the first file has all keys, the others those that number them and the alignment, so that
joining gives the file that was cut.

Source: llama-model-loader.cpp, ``llama_split_path`` and ``llama_split_prefix`` of llama.cpp.
Source: tools/gguf-split/gguf-split.cpp of llama.cpp (cutting, joining).
"""

from __future__ import annotations

import os

from mtkit.base.record import Record
from mtkit.base.rules import AGAIN, Finding, Findings, Rule
from mtkit.errors import FormatError, MtkitError, UnsupportedError, UsageError
from mtkit.gguf.file import MAGIC, GgufFile, Metadata, Tensors
from mtkit.gguf.reader import open_gguf
from mtkit.gguf.rules import ALIGNMENT, INTEGERS, LLAMA_CPP

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from mtkit.base.binary import Source
    from mtkit.gguf.draft import Draft
    from mtkit.gguf.file import Tensor
    from mtkit.gguf.writer import Key, NewTensor


MAX_COUNT = 65535
SPLIT_KEYS = ("split.no", "split.count", "split.tensors.count")


def _check_number(number: int, count: int) -> str:
    return (
        ""
        if count <= MAX_COUNT and 0 <= number < count
        else f"is {number}, but there are {count} shards, numbered from 0"
    )


def _check_name(name: str, suffix: str) -> str:
    what = f"the file name does not end in {suffix}, so the other shards cannot be found"
    return "" if name.endswith(suffix) else what


def _check_stated(value: object, number: int) -> str:
    stated = "missing" if value is None else value
    return "" if value == number else f"is {stated}, but its name says {number}"


def _check_owner(owner: str) -> str:
    return f"is in {owner}, too" if owner else ""


def _check_tensor_count(stated: int, count: int) -> str:
    return "" if stated == count else f"is {stated}, but the files of the set have {count}"


def _check_readable(error: str) -> str:
    return error


# fmt: off
NUMBER_RULE = Rule("split-number", "warning", LLAMA_CPP, "split.no",
                   "split.no is not below split.count; shards are numbered from 0.", _check_number)
NAME_RULE = Rule("split-name", "warning", LLAMA_CPP, "split.count",
                 "A shard has been renamed; its name should be like NAME-00001-of-00003.gguf.",
                 _check_name)
READABLE_RULE = Rule("split-file", "error", LLAMA_CPP, "split.count",
                     f"A shard cannot be read. {AGAIN}", _check_readable)
STATED_RULE = Rule("split-said", "error", LLAMA_CPP, "split.no",
                   "split.no and split.count do not agree with the file name.", _check_stated)
TENSOR_RULE = Rule("split-tensor", "error", LLAMA_CPP, "",
                   "A tensor is in more than one shard: shards of two models are mixed.",
                   _check_owner)
TENSOR_COUNT_RULE = Rule("split-tensor-count", "error", LLAMA_CPP, "split.tensors.count",
                         "The shards do not have as many tensors as the first one announces.",
                         _check_tensor_count)
# fmt: on
SHARD_RULES = (NUMBER_RULE, NAME_RULE, READABLE_RULE, STATED_RULE, TENSOR_RULE, TENSOR_COUNT_RULE)


class Shard(Record):
    """One file of a set.

    Attributes:
        file: What it holds; None when it is missing or damaged.
    """

    path: str
    file: GgufFile | None


class ShardSet(Record):
    """A set of files.

    Attributes:
        number: Which file was opened, from 0.
        tensor_count: Tensors in the whole set as the opened file says; None where it does not.
        shards: All files in order; empty when the name of the opened one does not lead to them.
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
        strict: Raise the first error, if the file is the first of its set; otherwise keep it.
    """
    count = _integer_value(file, "split.count")
    if count is None or count <= 1:  # gguf-split --merge leaves the key, as 0
        return None
    if "://" in file.name:  # of files on a server only the one that was named is known
        return None
    number = _integer_value(file, "split.no") or 0
    findings = Findings(strict=strict and number == 0)
    suffix = _shard_ending(number, count)
    shards: list[Shard] = []
    if _ask_rule(findings, NUMBER_RULE, file, "split.no", number, count) and _ask_rule(
        findings, NAME_RULE, file, "split.count", file.name, suffix
    ):
        prefix = file.name.removesuffix(suffix)
        for index in range(count):
            path = prefix + _shard_ending(index, count)
            shards.append(Shard(path, file if index == number else _open_shard(path, findings)))
    tensors = _compare_shards(shards, findings)
    tensor_count = _integer_value(file, "split.tensors.count")
    if shards and all(shard.file for shard in shards) and tensor_count is not None:
        _ask_rule(findings, TENSOR_COUNT_RULE, file, "split.tensors.count", tensor_count, tensors)
    return ShardSet(number, count, tensor_count, tuple(shards), tuple(findings.entries))


def all_files(file: GgufFile) -> tuple[GgufFile, ...]:
    """Return the files of a model: all of a set that was opened by its first, or the file alone."""
    shards = shard_set(file)
    if shards is None:
        return (file,)
    if bytes(file.data[len(file.data) - file.trailing_bytes :][:4]) == MAGIC:
        what = "has another GGUF behind its tensors, as cat puts files one behind the other"
        hint = "take the files as they were: mtkit merge NAME-00001-of-0000N.gguf joins them"
        raise FormatError(what, source=file.name, hint=hint)
    if not shards.shards:
        what = f"is file {shards.number + 1} of {shards.count}, but its name does not say so"
        name = f"NAME{_shard_ending(shards.number, shards.count)}"
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


def _open_shard(path: str, findings: Findings) -> GgufFile | None:
    """Read another file of the set; None where it is missing or damaged."""
    if not os.path.isfile(path):
        return None
    try:
        return open_gguf(path)
    except MtkitError as error:
        if findings.strict:
            raise
        findings.add(Finding(READABLE_RULE, "split.count", str(error), 0))
        return None


def _compare_shards(shards: list[Shard], findings: Findings) -> int:
    """Compare the files of a set with each other; return how many tensors they have."""
    owners: dict[str, str] = {}
    for index, shard in enumerate(shards):
        if shard.file is None:
            continue
        for key, number in (("split.no", index), ("split.count", len(shards))):
            _ask_rule(findings, STATED_RULE, shard.file, key, shard.file.metadata.get(key), number)
        for tensor in shard.file.tensors:
            owner = owners.setdefault(tensor.name, shard.path)
            if owner != shard.path:
                field, offset = tensor.place("name")
                other = os.path.basename(owner)
                findings.hold(TENSOR_RULE, other, field=field, offset=offset, source=shard.path)
    return len(owners)


def _ask_rule(findings: Findings, rule: Rule, file: GgufFile, key: str, *values: object) -> bool:
    entry = file.metadata.entries.get(key)
    offset = entry.value_offset if entry else None
    return findings.hold(rule, *values, field=key, offset=offset, source=file.name)


def _integer_value(file: GgufFile, key: str) -> int | None:
    entry = file.metadata.entries.get(key)
    return int(entry.value) if entry and entry.type in INTEGERS else None


class JoinedGguf(GgufFile):
    """The files of a set as one."""

    def __init__(self, files: Sequence[GgufFile]) -> None:
        first = files[0]
        super().__init__(first.name, first.data)
        self.files = tuple(files)
        self.version, self.byte_order = first.version, first.byte_order
        self.alignment, self.is_whole = first.alignment, True
        self.metadata_end, self.data_offset = first.metadata_end, first.data_offset
        entries = first.metadata.entries
        self.metadata = Metadata({key: entries[key] for key in entries if key not in SPLIT_KEYS})
        self._owners = {id(tensor): file for file in files for tensor in file.tensors}
        self.tensors = Tensors(tensor for file in files for tensor in file.tensors)
        self.names = {tensor.name: tensor for tensor in self.tensors}
        self.findings = tuple(finding for file in files for finding in file.findings)
        self.trailing_bytes = sum(file.trailing_bytes for file in files)

    def tensor_data(self, tensor: Tensor | str) -> memoryview:
        """Return the bytes of a tensor, in the file that has it."""
        if isinstance(tensor, str):
            tensor = self.tensors[tensor]
        return self._owners[id(tensor)].tensor_data(tensor)

    def key_bytes(self) -> Iterator[tuple[str, memoryview]]:
        """Yield each key with the bytes that the first file has for it."""
        return (key for key in self.files[0].key_bytes() if key[0] not in SPLIT_KEYS)


def open_whole(model: str | Source) -> GgufFile:
    """Open a GGUF, or all files of a set that is named by its first."""
    return join_shards(open_gguf(model))


def parts_of(file: GgufFile) -> tuple[GgufFile, ...]:
    """Return the files of a model that ``open_whole`` has opened."""
    return file.files if isinstance(file, JoinedGguf) else (file,)


def join_shards(first: GgufFile) -> GgufFile:
    """Return the first file of a set with all others; a file that stands alone as it is."""
    files = all_files(first)
    if len(files) == 1:
        return first
    for other in files:
        if (other.version, other.byte_order) != (first.version, first.byte_order):
            what = "is of another version or byte order than the first file of its set"
            raise UnsupportedError(what, source=other.name)
    return JoinedGguf(files)


NUMBER_KEY, COUNT_KEY, TENSORS_KEY = SPLIT_KEYS


def split_model(
    file: GgufFile,
    *,
    max_bytes: int | None = None,
    max_tensors: int | None = None,
    first_without_tensors: bool = False,
) -> list[Draft]:
    """Cut a model into files."""
    from mtkit.gguf.draft import Draft

    whole = Draft.of(join_shards(file))
    if not whole.tensors:
        raise UsageError("holds no tensors: there is nothing to split", source=file.name)
    return cut_draft(
        whole,
        file.alignment,
        max_bytes=max_bytes,
        max_tensors=max_tensors,
        first_without_tensors=first_without_tensors,
    )


def cut_draft(
    whole: Draft,
    alignment: int,
    *,
    max_bytes: int | None = None,
    max_tensors: int | None = None,
    first_without_tensors: bool = False,
) -> list[Draft]:
    """Cut one file that is to be written into several, as ``split_model`` does."""
    groups = _group_tensors(list(whole.tensors.values()), alignment, max_bytes, max_tensors)
    if first_without_tensors:
        groups.insert(0, [])
    if len(groups) > MAX_COUNT:
        raise UsageError(f"{len(groups)} files would be needed, at most {MAX_COUNT} can be")
    return _drafts(whole, groups)


def cut_by_names(whole: Draft, names: Sequence[Sequence[str]]) -> list[Draft]:
    """Cut one file that is to be written into several that have tensors of these names."""
    return _drafts(whole, [[whole.tensors[name] for name in group] for group in names])


def _drafts(whole: Draft, groups: Sequence[Sequence[NewTensor]]) -> list[Draft]:
    from mtkit.gguf.draft import Draft

    plain = [key for name, key in whole.keys.items() if name not in SPLIT_KEYS]
    aligned = [key for key in plain if key.name == ALIGNMENT]
    return [
        Draft(
            [
                *(aligned if number else plain),
                *_shard_keys(number, len(groups), len(whole.tensors)),
            ],
            group,
            whole.version,
        )
        for number, group in enumerate(groups)
    ]


def _group_tensors(
    tensors: Sequence[NewTensor], alignment: int, max_bytes: int | None, max_tensors: int | None
) -> list[list[NewTensor]]:
    groups: list[list[NewTensor]] = [[]]
    used = 0
    for tensor in tensors:
        size = -(-tensor.n_bytes // alignment) * alignment
        full = max_tensors is not None and len(groups[-1]) >= max_tensors
        full = full or (max_bytes is not None and used + size > max_bytes)
        if groups[-1] and full:
            groups.append([])
            used = 0
        groups[-1].append(tensor)
        used += size
    return groups


def _shard_keys(number: int, count: int, tensors: int) -> Iterable[Key]:
    from mtkit.gguf.writer import Key

    yield Key(NUMBER_KEY, "u16", number)
    yield Key(COUNT_KEY, "u16", count)
    yield Key(TENSORS_KEY, "i32", tensors)


def merge_shards(first: GgufFile) -> Draft:
    """Join the files of a set."""
    from mtkit.gguf.draft import Draft

    whole = join_shards(first)
    if whole is first and first.metadata.get(COUNT_KEY) != 1:
        raise UsageError("is not a shard of a model (NAME-00001-of-0000N.gguf)", source=first.name)
    draft = Draft.of(whole)
    draft.keys = {name: key for name, key in draft.keys.items() if name not in SPLIT_KEYS}
    return draft


def dropped_keys(part: GgufFile, first: GgufFile) -> list[str]:
    """Return the keys that only a later file of a set has, or has otherwise: joining drops them."""
    from mtkit.gguf.draft import kept_keys

    known = {key.name: key.data for key in kept_keys(first)}
    return [
        key.name
        for key in kept_keys(part)
        if key.name not in SPLIT_KEYS and known.get(key.name) != key.data
    ]


def shard_file_names(name: str, count: int) -> list[str]:
    """Return the names of the files of a set, as llama.cpp looks for them."""
    return [model_stem(name) + _shard_ending(number, count) for number in range(count)]


def is_first_shard(path: str) -> bool:
    """Tell whether a file has the name of the first of a set."""
    import re

    return re.search(r"-00001-of-[0-9]{5}\.gguf\Z", path) is not None


def model_stem(path: str) -> str:
    """Return the path of the model that a file of a set is named after, without .gguf."""
    import re

    return re.sub(r"-[0-9]{5}-of-[0-9]{5}\Z", "", path.removesuffix(".gguf"))


def _shard_place(file: GgufFile) -> tuple[int, int]:
    """Return which file of how many it is, from 0; (0, 1) where it stands alone."""
    number, count = (file.metadata.get(f"split.{name}") for name in ("no", "count"))
    if not isinstance(count, int) or count < 2:
        return 0, 1
    return number if isinstance(number, int) else 0, count


def _shard_ending(number: int, count: int) -> str:
    return f"-{number + 1:05d}-of-{count:05d}.gguf"


def is_whole_model(file: GgufFile, new: str | None) -> bool:
    """Tell by the name of a new file, made of the first of a set, whether it has the whole set."""
    number, count = _shard_place(file)
    return count > 1 and number == 0 and not (new or "").endswith(_shard_ending(number, count))


def shard_oddities(file: GgufFile, new: str) -> Iterator[str]:
    """Yield why a new file of a set will not load where it is to be written."""
    number, count = _shard_place(file)
    if count == 1:
        return
    end = _shard_ending(number, count)
    if not new.endswith(end):
        yield f"is file {number + 1} of {count}: llama.cpp finds it only as NAME{end}"
        return
    start = new.removesuffix(end)
    others = (f"{start}{_shard_ending(other, count)}" for other in range(count) if other != number)
    missing = [path for path in others if not os.path.exists(path)]
    if missing:
        yield f"is file {number + 1} of {count}: it loads once {missing[0]} is there, too"
