"""The files of a draft: a whole model, or a pruned one together with its source.

A pruned draft has fewer rows: its head and embedding are cut to a static vocabulary. llama.cpp
refuses a model whose head and vocabulary differ in size. So the file says that it has no vocabulary
(``tokenizer.ggml.model`` is ``no_vocab``) but ``{architecture}.vocab_size`` ids.

Tokens outside the vocabulary enter as embeddings, which are read from the source: the pruned file
names it, and which id each row had (``mtkit.draft.d2t``; d2t is llama.cpp's own name for it).
"""

from __future__ import annotations

import os
from contextlib import suppress

from mtkit.base.packed import Numbers
from mtkit.errors import FormatError, UsageError, wording
from mtkit.gguf import open_gguf
from mtkit.gguf.in_place import settle_journal
from mtkit.gguf.values import EMBEDDING, count_rows, cut_rows
from mtkit.gguf.writer import Key, write_gguf
from mtkit.llm import frequencies

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from mtkit.gguf import GgufFile


IDS_KEY = "mtkit.draft.d2t"
SOURCE_KEY = "mtkit.draft.source"
SOURCE_BYTES_KEY = "mtkit.draft.source_bytes"


def prune(source: str, ids: Sequence[int], target: str, *, force: bool = False) -> None:
    """Write a draft with the rows of these ids only."""
    file = open_gguf(source)
    if SOURCE_KEY in file.metadata:
        raise UsageError("is a pruned draft already", source=source)
    n_vocab = count_rows(file)
    if os.path.exists(target) and os.path.samefile(source, target):
        raise UsageError(
            "is the draft itself, which the pruned one needs beside it", source=target,
            hint="name another file",
        )  # fmt: skip
    if not ids:
        raise UsageError("no ids: a draft has to have some")
    outside = next((i for i in ids if i >= n_vocab), None)
    if outside is not None:
        raise UsageError(f"there is no id {outside}", source=source)
    architecture = str(file.metadata["general.architecture"])
    keys = [
        Key(name, file.metadata.type_name(name), entry.value)
        for name, entry in file.metadata.entries.items()
        if not name.startswith(("tokenizer.", "mtkit.draft.", "split."))
        and name != f"{architecture}.vocab_size"
    ]
    keys += [
        Key("tokenizer.ggml.model", "string", "no_vocab"),
        Key(f"{architecture}.vocab_size", "u32", len(ids)),
        Key(IDS_KEY, "i64[]", Numbers.of("q", ids)),
        Key(SOURCE_KEY, "string", os.path.basename(source)),
        Key(SOURCE_BYTES_KEY, "u64", len(file.data)),
    ]
    settle_journal(target, force=force)
    write_gguf(target, keys, cut_rows(file, ids), force=force)


_MOST_KEPT = 8
"""Most pruned drafts in the cache folder; the oldest leave first."""


def find_draft(file: GgufFile, vocabulary: str | None) -> tuple[GgufFile, list[int] | None]:
    """Return the file with all rows of a draft, and the ids of its static vocabulary; None: all.

    Args:
        vocabulary: A vocab.txt; None for all ids of the draft.
    """
    ids = _pruned_ids(file)
    if ids is not None:
        if vocabulary is not None:
            raise UsageError(
                "is pruned already",
                source=file.name,
                hint=f"omit {wording('--sx-static-vocab', 'sx_static_vocab')}",
            )
        return open_gguf(_source_of(file)), ids
    if vocabulary is None:
        return file, None
    tensor = file.names.get(EMBEDDING)
    ids = frequencies.read_vocabulary(vocabulary, tensor.shape[-1] if tensor else 0)
    if not ids:
        raise UsageError("has no ids: a draft has to have some", source=vocabulary)
    return file, ids


def model_path(file: GgufFile, ids: Sequence[int] | None) -> str:
    """Return the path of the model to load for a draft, after pruning it if need be."""
    return file.name if ids is None or IDS_KEY in file.metadata else _cached_path(file.name, ids)


def _pruned_ids(file: GgufFile) -> list[int] | None:
    numbers = file.metadata.get(IDS_KEY)
    if numbers is None:
        return None
    ids = [int(i) for i in numbers]
    tensor = file.names.get(EMBEDDING)
    if tensor is None or tensor.shape[-1] != len(ids) or len(set(ids)) != len(ids) or min(ids) < 0:
        raise FormatError("does not fit the rows of the embedding", source=file.name, field=IDS_KEY)
    return ids


def _source_of(file: GgufFile) -> str:
    """Return the source of a pruned draft, which has to be in the same folder."""
    name = os.path.basename(str(file.metadata.get(SOURCE_KEY, "")))
    path = os.path.join(os.path.dirname(file.name), name)
    if not name or not os.path.isfile(path):
        raise UsageError(
            f"needs {name or 'the file that it was made of'} beside it", source=file.name,
            hint="tokens outside the vocabulary are read from the draft model there",
        )  # fmt: skip
    if os.path.getsize(path) != file.metadata.get(SOURCE_BYTES_KEY):
        raise UsageError(f"was made of another {name} than lies beside it", source=file.name)
    return path


def _cached_path(source: str, ids: Sequence[int]) -> str:
    """Return the path of a pruned draft in the cache folder, after making it if need be."""
    import hashlib

    from mtkit.base.process import cache_folder

    status = os.stat(source)
    key = os.path.abspath(source), status.st_size, status.st_mtime_ns, list(ids)
    name = hashlib.sha256(repr(key).encode()).hexdigest() + ".gguf"
    path = os.path.join(cache_folder("drafts"), name)
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
    """Whether there is a pruned draft, complete."""
    try:
        return _pruned_ids(open_gguf(path)) is not None
    except (FormatError, UsageError):
        return False


def _make_room(folder: str) -> None:
    """Delete the oldest drafts; another process may be doing the same."""
    drafts = []
    for name in os.listdir(folder):
        if name.endswith(".gguf"):
            with suppress(OSError):
                drafts.append((os.path.getmtime(os.path.join(folder, name)), name))
    for _, name in sorted(drafts)[: max(len(drafts) - _MOST_KEPT + 1, 0)]:
        with suppress(OSError):
            os.unlink(os.path.join(folder, name))
