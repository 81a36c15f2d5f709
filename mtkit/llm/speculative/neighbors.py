"""Neighbors of every id, found before anything is written: neighbors.bin.

int32 of shape (n_vocab, k), the ids nearest to each by cosine, the nearest first and -1 where there
are no more; then float32 of the same shape, their cosines. Both are little-endian. They are what
``SemanticIndex`` finds while text is written, without its table in memory. ``neighbors.json`` says
what they were made of.
"""

from __future__ import annotations

import json
import os

from mtkit.base.whole_files import check_target, write_files
from mtkit.errors import FormatError, UsageError
from mtkit.llm.speculative.semantic_index import EMBEDDINGS, SCALES, SemanticIndex, read

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.gguf.rows import Rows

NEIGHBORS, ABOUT = "neighbors.bin", "neighbors.json"
_BYTES = 8
"""Of a neighbor: id and cosine."""
_AT_ONCE = 256
"""Searches between two looks at how far it is."""


def write(
    table: Rows,
    about: dict[str, Any],
    folder: str,
    count: int,
    *,
    force: bool = False,
    progress: Callable[[float], None] = lambda _: None,
) -> dict[str, object]:
    """Search for the neighbors of every id; returns what the JSON says.

    Args:
        table: The embeddings in their own precision.
        about: What ``semantic_index.write`` said of the files in the folder.
        folder: Where the int8 table is, and the neighbors go.
        count: Neighbors of an id, at most.
        force: Replace a file that exists.
        progress: Called with the part that is done.

    Raises:
        UsageError: A file exists.
        ResourceError: The disk is full.
    """
    import hashlib
    from concurrent.futures import ThreadPoolExecutor

    import numpy as np

    targets = [os.path.join(folder, name) for name in (NEIGHBORS, ABOUT)]
    for path in targets:  # before it takes minutes
        check_target(path, force=force)
    rows = read(os.path.join(folder, EMBEDDINGS), os.path.join(folder, SCALES), table)
    index = SemanticIndex(rows, table, top_k=count, threshold=-1.0)
    ids = np.full((table.count, count), -1, "<i4")
    cosines = np.zeros((table.count, count), "<f4")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for start in range(0, table.count, _AT_ONCE):
            progress(start / table.count)
            some = range(start, min(start + _AT_ONCE, table.count))
            for token_id, found in zip(some, pool.map(index.search, some), strict=True):
                if found:
                    near, cosine = zip(*found, strict=True)
                    ids[token_id, : len(found)], cosines[token_id, : len(found)] = near, cosine
    progress(1)
    made = ids.tobytes() + cosines.tobytes()
    said: dict[str, object] = {
        "schema": "mtkit.neighbors/1",
        **{key: about[key] for key in ("source", "tensor", "n_vocab")},
        "neighbors": count,
        "sha256": {
            NEIGHBORS: hashlib.sha256(made).hexdigest(), EMBEDDINGS: about["sha256"][EMBEDDINGS],
        },
    }  # fmt: skip
    document = (json.dumps(said, indent=1) + "\n").encode()
    write_files(dict(zip(targets, (made, document), strict=True)), force=force)
    return said


class Neighbors:
    """What was found before; in place of a ``SemanticIndex``."""

    def __init__(
        self, path: str, n_vocab: int, *, top_k: int = 50, threshold: float = 0.85
    ) -> None:
        """Open a neighbors.bin.

        Args:
            path: The file.
            n_vocab: Ids of the target's table.
            top_k: Most neighbors.
            threshold: Least cosine.

        Raises:
            UsageError: It cannot be read, or holds fewer neighbors than are wanted.
            FormatError: Its size is not that of so many ids.
        """
        import numpy as np

        try:
            with open(path, "rb") as file:
                size = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise UsageError(error.strerror or str(error), source=path) from None
        count, rest = divmod(size, _BYTES * n_vocab)
        if rest or not count:
            raise FormatError(
                f"has {size} bytes, not {_BYTES * n_vocab} times a number: the model has "
                f"{n_vocab} ids",
                source=path,
            )
        if top_k > count:
            raise UsageError(
                f"holds {count} neighbors of an id, not {top_k}", source=path,
                hint=f"--sx-topk {count}, or mtkit sx quantize-embeddings --neighbors {top_k}",
            )  # fmt: skip
        shape = (n_vocab, count)
        self._path, self._n_vocab = path, n_vocab
        self._ids = np.memmap(path, "<i4", "r", shape=shape)
        self._cosines = np.memmap(path, "<f4", "r", offset=size // 2, shape=shape)
        self._top_k, self._threshold = top_k, np.float32(threshold)

    def forget(self) -> None:
        """Nothing is remembered."""

    def neighbors(self, token_id: int) -> list[int]:
        """Return the ids nearest to one, itself left out; of equals the lowest id first.

        Raises:
            FormatError: The file names an id that there is not.
        """
        if not 0 <= token_id < self._n_vocab:
            return []
        ids = self._ids[token_id, : self._top_k]
        near = self._cosines[token_id, : self._top_k] >= self._threshold
        found: list[int] = ids[near & (ids != -1)].tolist()
        if found and not 0 <= min(found) <= max(found) < self._n_vocab:
            raise FormatError(
                f"names an id that the model does not have, for id {token_id}", source=self._path
            )
        return found
