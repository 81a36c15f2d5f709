"""A draft with fewer rows: its head and embedding cut to a static vocabulary.

llama.cpp refuses a model whose head has another number of rows than its vocabulary. So both are
cut, and the file says that it has no vocabulary (``tokenizer.ggml.model`` is ``no_vocab``) but
``{architecture}.vocab_size`` ids.

Tokens outside the vocabulary enter as embeddings, from the file that it was made of: the pruned
file names it, and which id each row had (``mtkit.draft.d2t``; d2t is llama.cpp's own name for it).
"""

from __future__ import annotations

import os

from mtkit.base.packed import Numbers
from mtkit.errors import UsageError
from mtkit.gguf import open_gguf
from mtkit.gguf.in_place import settle
from mtkit.gguf.vocabulary_rows import count_rows, cut_rows
from mtkit.gguf.writer import Key, write_gguf

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

IDS = "mtkit.draft.d2t"
SOURCE = "mtkit.draft.source"
SOURCE_BYTES = "mtkit.draft.source_bytes"


def prune(source: str, ids: Sequence[int], target: str, *, force: bool = False) -> None:
    """Write a draft that has the rows of these ids alone.

    Raises:
        FormatError: The source is damaged.
        UnsupportedError: Its architecture keeps its vocabulary in another way, or it is in shards.
        UsageError: There are no ids, an id is not in it, or the file exists or is the source.
        ResourceError: The disk is full.
    """
    file = open_gguf(source)
    if SOURCE in file.metadata:
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
        Key(IDS, "i64[]", Numbers.of("q", ids)),
        Key(SOURCE, "string", os.path.basename(source)),
        Key(SOURCE_BYTES, "u64", len(file.data)),
    ]
    settle(target, force=force)
    write_gguf(target, keys, cut_rows(file, ids), force=force)
