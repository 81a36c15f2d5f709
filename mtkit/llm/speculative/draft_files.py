"""The files of a draft: the model as it is, or pruned together with the one it was made of."""

from __future__ import annotations

import os
from contextlib import suppress

from mtkit.errors import FormatError, UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.vocabulary_rows import EMBEDDING
from mtkit.llm.speculative import static_vocabulary
from mtkit.llm.speculative.prune import IDS, SOURCE, SOURCE_BYTES, prune

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.gguf import GgufFile

_MOST_KEPT = 8
"""Pruned drafts in the cache folder; the oldest leave first."""


def find(file: GgufFile, vocabulary: str | None) -> tuple[GgufFile, list[int] | None]:
    """Return what a draft consists of.

    Args:
        file: The draft that was named.
        vocabulary: A vocab.txt; None for all ids of the draft.

    Returns:
        The file with all rows, and the ids of the rows that the model to load has; None for all.

    Raises:
        UsageError: A pruned draft has its vocabulary, or lacks the file that it was made of.
        FormatError: The vocabulary is damaged.
    """
    ids = _pruned_ids(file)
    if ids is not None:
        if vocabulary is not None:
            raise UsageError("is pruned already", source=file.name, hint="omit --sx-static-vocab")
        return open_gguf(_source_of(file)), ids
    if vocabulary is None:
        return file, None
    tensor = file.names.get(EMBEDDING)
    ids = static_vocabulary.read(vocabulary, tensor.shape[-1] if tensor else 0)
    if not ids:
        raise UsageError("has no ids: a draft has to have some", source=vocabulary)
    return file, ids


def model_of(file: GgufFile, ids: Sequence[int] | None) -> str:
    """Return the model to load of a draft that was named; it is pruned first where it has to be."""
    return file.name if ids is None or IDS in file.metadata else _cached(file.name, ids)


def _pruned_ids(file: GgufFile) -> list[int] | None:
    found = file.metadata.get(IDS)
    if found is None:
        return None
    ids = [int(i) for i in found]
    tensor = file.names.get(EMBEDDING)
    if tensor is None or tensor.shape[-1] != len(ids) or len(set(ids)) != len(ids) or min(ids) < 0:
        raise FormatError("does not fit the rows of the embedding", source=file.name, field=IDS)
    return ids


def _source_of(file: GgufFile) -> str:
    """Return the file that a pruned draft was made of, which lies beside it."""
    name = os.path.basename(str(file.metadata.get(SOURCE, "")))
    found = os.path.join(os.path.dirname(file.name), name)
    if not name or not os.path.isfile(found):
        raise UsageError(
            f"needs {name or 'the file that it was made of'} beside it", source=file.name,
            hint="tokens outside the vocabulary are read from the draft model there",
        )  # fmt: skip
    if os.path.getsize(found) != file.metadata.get(SOURCE_BYTES):
        raise UsageError(f"was made of another {name} than lies beside it", source=file.name)
    return found


def _cached(source: str, ids: Sequence[int]) -> str:
    """Return the path of a pruned draft in the cache folder; it is made if it is not there yet."""
    import hashlib

    from mtkit.base.cache import folder

    found = os.stat(source)
    key = os.path.abspath(source), found.st_size, found.st_mtime_ns, list(ids)
    name = hashlib.sha256(repr(key).encode()).hexdigest() + ".gguf"
    path = os.path.join(folder("drafts"), name)
    if _is_whole(path):
        return path
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
    except OSError as error:
        raise UsageError(
            f"the cache folder cannot be made: {error.strerror}", source=os.path.dirname(path),
            hint="set XDG_CACHE_HOME, or write the draft elsewhere with mtkit sx prune",
        ) from None  # fmt: skip
    _make_room(os.path.dirname(path))
    prune(source, ids, path, force=True)
    return path


def _is_whole(path: str) -> bool:
    """Whether a pruned draft is there, and not cut."""
    try:
        return _pruned_ids(open_gguf(path)) is not None
    except (FormatError, UsageError):
        return False


def _make_room(folder: str) -> None:
    """Delete the oldest drafts; another process may be doing the same."""
    kept = []
    for name in os.listdir(folder):
        if name.endswith(".gguf"):
            with suppress(OSError):
                kept.append((os.path.getmtime(os.path.join(folder, name)), name))
    for _, name in sorted(kept)[: max(len(kept) - _MOST_KEPT + 1, 0)]:
        with suppress(OSError):
            os.unlink(os.path.join(folder, name))
