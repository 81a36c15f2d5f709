"""Tokens of similar meaning: an int8 copy of a model's embeddings, searched by cosine.

``quant_embeddings.bin`` is int8 of shape (n_vocab, n_embd), row after row; ``scales.bin`` is
float32 of shape (n_vocab,), little-endian: value = int8 * scale. The scale of a row is its largest
absolute value / 127; a row of zeros has scale 0. ``quant_embeddings.json`` names the source. A
cosine needs no scales: they cancel.
"""

from __future__ import annotations

import json
import os

from mtkit.base.files import folder_for, write_files
from mtkit.errors import FormatError, UnsupportedError, UsageError, system_message

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.gguf.values import Rows


EMBEDDINGS, SCALES, ABOUT = "quant_embeddings.bin", "scales.bin", "quant_embeddings.json"
_CHUNK = 4096
"""Rows processed at once."""


def quantize_rows(values: Any) -> tuple[Any, Any]:
    """Return int8 rows and float32 scales of float32 rows, rounded to the nearest, ties to even."""
    import numpy as np

    largest = np.abs(values).max(axis=1)
    scales = (largest / np.float32(127)).astype(np.float32)
    safe = np.where(scales > 0, scales, np.float32(1))
    return np.rint(values / safe[:, None]).clip(-127, 127).astype(np.int8), scales


def write(table: Rows, source: str, folder: str, *, force: bool = False) -> dict[str, object]:
    """Write the files of an embedding table; returns the content of the JSON."""
    import hashlib

    import numpy as np

    rows, scales = [], []
    for at in range(0, table.count, _CHUNK):
        values = table.values(slice(at, at + _CHUNK))
        if not np.isfinite(values).all():
            raise UnsupportedError(
                "holds what is not a number", source=source, field=table.tensor.name
            )
        row, scale = quantize_rows(values)
        rows.append(row.tobytes())
        scales.append(scale.astype("<f4").tobytes())
    embeddings, factors = b"".join(rows), b"".join(scales)
    about: dict[str, object] = {
        "schema": "mtkit.quant_embeddings/1",
        "source": os.path.basename(source),
        "tensor": table.tensor.name,
        "n_vocab": table.count,
        "n_embd": table.width,
        "sha256": {
            EMBEDDINGS: hashlib.sha256(embeddings).hexdigest(),
            SCALES: hashlib.sha256(factors).hexdigest(),
        },
    }
    with folder_for(folder):
        write_files(
            {
                os.path.join(folder, EMBEDDINGS): embeddings,
                os.path.join(folder, SCALES): factors,
                os.path.join(folder, ABOUT): (json.dumps(about, indent=1) + "\n").encode(),
            },
            force=force,
        )
    return about


class SemanticIndex:
    """An int8 table, searched row by row."""

    def __init__(
        self, rows: Any, queries: Rows, *, top_k: int = 50, threshold: float = 0.85
    ) -> None:
        """Take a table.

        Args:
            rows: int8 of shape (n_vocab, n_embd).
        """
        self._rows, self._queries = rows, queries
        self._top_k, self._threshold = top_k, threshold
        self._lengths = row_lengths(rows)
        try:
            from mtkit.base.native import native
        except ImportError:
            self._nearest: Callable[..., list[tuple[int, float]]] = nearest_rows
        else:
            self._nearest = native.nearest_rows

    def search(self, token_id: int) -> list[tuple[int, float]]:
        """Return ids and cosines, the nearest first."""
        import numpy as np

        query, _ = quantize_rows(self._queries.values([token_id]))
        length = float(row_lengths(query)[0])
        if not length or not self._top_k:
            return []
        return self._nearest(
            self._rows, self._lengths, query[0], np.float32(length), token_id, self._top_k,
            np.float32(self._threshold),
        )  # fmt: skip


def row_lengths(rows: Any) -> Any:
    """Return the lengths of int8 rows; float32."""
    import numpy as np

    lengths = np.empty(len(rows), np.float32)
    for at in range(0, len(rows), _CHUNK):
        part = rows[at : at + _CHUNK].astype(np.float32)
        lengths[at : at + _CHUNK] = np.sqrt((part * part).sum(axis=1, dtype=np.float64))
    return lengths


def nearest_rows(
    rows: Any, lengths: Any, query: Any, query_length: Any, skip: int, most: int, least: Any
) -> list[tuple[int, float]]:
    """Define the core's ``nearest_rows``, readable and slower."""
    import numpy as np

    products = np.empty(len(rows), np.float32)
    for at in range(0, len(rows), _CHUNK):
        products[at : at + _CHUNK] = rows[at : at + _CHUNK].astype(np.float64) @ query
    with np.errstate(divide="ignore", invalid="ignore"):
        cosines = np.where(lengths > 0, products / (lengths * query_length), np.float32(-2))
    cosines[skip] = -2
    near = np.flatnonzero(cosines >= least)
    order = near[np.lexsort((near, -cosines[near]))][:most]
    return [(int(i), float(cosines[i])) for i in order]


def read(embeddings: str, scales: str, queries: Rows) -> Any:
    """Return the int8 rows of a table, mapped; of its scales only the size is checked."""
    import numpy as np

    sizes = {embeddings: queries.count * queries.width, scales: 4 * queries.count}
    for path, size in sizes.items():
        try:
            with open(path, "rb") as file:
                n_bytes = os.fstat(file.fileno()).st_size
        except OSError as error:
            raise UsageError(system_message(error), source=path) from None
        if n_bytes != size:
            raise FormatError(
                f"has {n_bytes} bytes, not {size}: the model's table is {queries.count} x "
                f"{queries.width}",
                source=path,
            )
    return np.memmap(embeddings, np.int8, "r", shape=(queries.count, queries.width))
