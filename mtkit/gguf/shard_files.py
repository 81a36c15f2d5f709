"""Cutting a model into several files, and joining such files: ``mtkit split``, ``mtkit merge``.

The first file has all keys, the others those that number them and the alignment. Tensors keep their
order, so that joining gives the file that was cut.
Source: tools/gguf-split/gguf-split.cpp of llama.cpp; ``shards`` says how a set is read.
"""

from __future__ import annotations

import re

from mtkit.errors import UsageError
from mtkit.gguf.draft import Draft, kept_keys
from mtkit.gguf.joined import joined
from mtkit.gguf.rules import ALIGNMENT
from mtkit.gguf.shards import MAX_COUNT, SPLIT_KEYS
from mtkit.gguf.writer import Key

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtkit.gguf.file import GgufFile
    from mtkit.gguf.writer import NewTensor

NUMBER, COUNT, TENSORS = SPLIT_KEYS
_NUMBERED = re.compile(r"-[0-9]{5}-of-[0-9]{5}\Z")


def split(
    file: GgufFile,
    *,
    max_bytes: int | None = None,
    max_tensors: int | None = None,
    first_without_tensors: bool = False,
) -> list[Draft]:
    """Cut a model into files.

    Args:
        file: The model, of a set its first file.
        max_bytes: Of the tensors of one file, padding included; a larger tensor is one alone.
        max_tensors: Of one file.
        first_without_tensors: Keep the first file for the keys.

    Raises:
        UsageError: The file has no tensors, or makes too many files.
        UnsupportedError: It is of version 1 or big-endian.
    """
    whole = Draft.of(joined(file))
    if not whole.tensors:
        raise UsageError("holds no tensors: there is nothing to split", source=file.name)
    return cut(
        whole,
        file.alignment,
        max_bytes=max_bytes,
        max_tensors=max_tensors,
        first_without_tensors=first_without_tensors,
    )


def cut(
    whole: Draft,
    alignment: int,
    *,
    max_bytes: int | None = None,
    max_tensors: int | None = None,
    first_without_tensors: bool = False,
) -> list[Draft]:
    """Cut what is to be one file into several; as ``split``.

    Raises:
        UsageError: It makes too many files.
    """
    groups = _groups(list(whole.tensors.values()), alignment, max_bytes, max_tensors)
    if first_without_tensors:
        groups.insert(0, [])
    if len(groups) > MAX_COUNT:
        raise UsageError(f"{len(groups)} files would be needed, at most {MAX_COUNT} can be")
    plain = [key for name, key in whole.keys.items() if name not in SPLIT_KEYS]
    aligned = [key for key in plain if key.name == ALIGNMENT]
    return [
        Draft(
            [*(aligned if number else plain), *_numbered(number, len(groups), len(whole.tensors))],
            group,
            whole.version,
        )
        for number, group in enumerate(groups)
    ]


def _groups(
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


def _numbered(number: int, count: int, tensors: int) -> Iterable[Key]:
    yield Key(NUMBER, "u16", number)
    yield Key(COUNT, "u16", count)
    yield Key(TENSORS, "i32", tensors)


def merge(first: GgufFile) -> Draft:
    """Join the files of a set.

    Args:
        first: Its first file.

    Raises:
        UsageError: It is not the first, or not one of a set.
        FormatError: A file is missing or the set is damaged.
        UnsupportedError: It is of version 1 or big-endian.
    """
    whole = joined(first)
    if whole is first and first.metadata.get(COUNT) != 1:
        raise UsageError("is not a shard of a model (NAME-00001-of-0000N.gguf)", source=first.name)
    found = Draft.of(whole)
    found.keys = {name: key for name, key in found.keys.items() if name not in SPLIT_KEYS}
    return found


def own_keys(part: GgufFile, first: GgufFile) -> list[str]:
    """Return the keys that only a later file of a set has, or has otherwise: joining drops them."""
    known = {key.name: key.data for key in kept_keys(first)}
    return [
        key.name
        for key in kept_keys(part)
        if key.name not in SPLIT_KEYS and known.get(key.name) != key.data
    ]


def numbered(name: str, count: int) -> list[str]:
    """Return the names of the files of a set, as llama.cpp looks for them.

    Args:
        name: Of the model, or of a file of a set that it was in before.
        count: Files in the set.
    """
    return [f"{stem(name)}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]


def is_first(path: str) -> bool:
    """Tell whether a file is called as the first of a set."""
    return re.search(r"-00001-of-[0-9]{5}\.gguf\Z", path) is not None


def stem(path: str) -> str:
    """Return the path of the model that a file of a set is named after, without .gguf."""
    return _NUMBERED.sub("", path.removesuffix(".gguf"))
