"""The importance matrix of a model, made from texts as llama-imatrix makes it.

Whole windows of the texts go through the model; of what enters each matrix, the squares are added
up column by column (``ColumnSums``), in 32-bit floats and in the order in which llama-imatrix adds
them.
Source: tools/imatrix/imatrix.cpp of llama.cpp.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from mtkit.base.files import check_target, temporary_folder
from mtkit.errors import MtkitError, UnsupportedError, UsageError
from mtkit.llama import SlotContext
from mtkit.llama.importance import Importance, Products, read_importance, write_importance
from mtkit.llm.runner import open_model
from mtkit.llm.windows import WINDOW, batches, compute, open_windows, token_ids
from mtkit.settings import TextSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mtkit.llama import Model

    Progress = Callable[[float], None]


_ROWS = 64
"""Rows squared at once: their squares stay in the cache."""


class ColumnSums:
    """Squares of what enters each matrix, added up by column."""

    def __init__(self) -> None:
        import numpy as np

        self.chunks = 0
        self.datasets: list[str] = []
        self._entries: dict[str, tuple[Any, Any]] = {}
        self._scratch = np.empty(0, np.float32)

    def count_windows(self, size: int) -> int:
        """Return how many windows of that size the counts amount to."""
        return max((int(counts.max()) for _, counts in self._entries.values()), default=0) // size

    def add(self, other: Importance, path: str, size: int) -> None:
        """Add an importance matrix that was made before.

        Args:
            size: Tokens of a window.
        """
        import numpy as np

        factor = size if other.is_legacy else 1
        for name, (sums, counts) in other.entries.items():
            try:
                own, own_counts = self._entry(name, *sums.shape)
            except MtkitError as error:
                raise error.located(path) from None
            own += sums * np.float32(factor)
            own_counts += counts * factor
        self.datasets += other.datasets

    def take(self, name: str, axes: tuple[int, int], entering: Any, experts_of: Any) -> None:
        """Add what enters a matrix, as ``Products`` passes it."""
        import numpy as np

        width = entering.shape[-1]
        if experts_of is None:
            outer, inner = axes
            sums, counts = self._entry(name, 1, outer * inner * width)
            rows = sums.reshape(outer, inner, width)
            for at in np.ndindex(entering.shape[:2]):
                self._add(rows[at[0] % outer, at[1] % inner], entering[at])
            counts += entering[..., 0].size // (outer * inner)
            return
        sums, counts = self._entry(name, axes[1], width)
        tokens = len(experts_of)
        # As in llama-imatrix, the first choices of all tokens come before the second ones.
        experts = experts_of.T.ravel()
        for expert in np.unique(experts):
            choice, token = divmod(np.flatnonzero(experts == expert), tokens)
            self._add(sums[expert], entering[0, token, choice % entering.shape[2]])
            counts[expert] += len(token)

    def _entry(self, name: str, experts: int, width: int) -> tuple[Any, Any]:
        """Return the sums and counts of a tensor; one count stands for all experts alike."""
        import numpy as np

        entry = self._entries.get(name)
        if entry is None:
            entry = np.zeros((experts, width), np.float32), np.zeros(experts, np.int64)
        sums, counts = entry
        if sums.shape != (experts, width):
            if sums.size != experts * width or (counts != counts[0]).any():
                what = f"has {sums.shape[1]} columns in the matrix to add to, {width} in this model"
                raise UsageError(what, field=name, hint="use an --in-file of the same model")
            entry = sums.reshape(experts, width), np.resize(counts, experts)
        self._entries[name] = entry
        return entry

    def _add(self, sums: Any, rows: Any) -> None:
        """Add the squares of rows, one after the other: in 32 bits the order counts.

        Source: collect_imatrix of tools/imatrix/imatrix.cpp of llama.cpp.
        """
        import numpy as np

        width = len(sums)
        if self._scratch.size < (_ROWS + 1) * width:
            self._scratch = np.empty((_ROWS + 1) * width, np.float32)
        for at in range(0, len(rows), _ROWS):
            part = rows[at : at + _ROWS]
            room = self._scratch[: (len(part) + 1) * width].reshape(-1, width)
            room[0] = sums
            np.multiply(part, part, out=room[1:])
            np.add.reduce(room, axis=0, out=sums)

    def write(self, path: str, size: int, *, force: bool) -> Importance:
        """Write the matrix; it appears whole or not at all."""
        import numpy as np

        for name, (sums, _) in self._entries.items():
            if not np.isfinite(sums).all():
                what = "the model computes values that are not finite numbers"
                raise UnsupportedError(what, field=name, source=path)
        matrix = Importance(self._entries, tuple(self.datasets), self.chunks, size)
        write_importance(path, matrix, force=force)
        return matrix


def importance_matrix(
    settings: TextSettings,
    texts: Sequence[tuple[str, bytes]],
    target: str,
    *,
    chunks: int | None = None,
    skip: int = 0,
    with_output: bool = False,
    parse_special: bool = False,
    in_files: Sequence[str] = (),
    resume: bool = False,
    save_every: int = 10,
    force: bool = False,
    progress: Progress = lambda _: None,
    loading: Progress = lambda _: None,
) -> Importance:
    """Write the importance matrix of a model, and return it.

    The file is written every ``save_every`` windows, whole each time, for ``resume`` to go on with.

    Args:
        texts: Name and content of each; a name that is empty or "-" does not go into the file. If
            there are none, ``in_files`` are only added up.
        resume: Go on where the run that wrote ``target`` ended, from the beginning if there is
            none. The other arguments have to be the same.
        progress: Called with the part that is done, 0 to 1.
    """
    force = force or resume
    check_target(target, force=force)
    sums, size = ColumnSums(), settings.context.n_ctx or WINDOW
    for path in in_files:
        sums.add(read_importance(path), path, size)
    if not texts:
        sums.chunks = sums.count_windows(size)
        return sums.write(target, size, force=force)
    datasets = [*sums.datasets, *(name for name, _ in texts if name not in ("", "-"))]
    with open_model(settings, loading, n_ctx=WINDOW) as runner:
        size = runner.n_ctx
        before = sums.chunks = sums.count_windows(size)
        if resume and os.path.exists(target):
            sums = _read_partial_sums(target, size, datasets)
        sums.datasets = datasets
        n_resumed = sums.chunks - before
        products = Products(sums.take, with_output=with_output)
        context = open_windows(
            runner, lambda *arguments: SlotContext(*arguments, watched_by=products.callback)
        )
        products.is_on = True
        ids = [_text_ids(runner.model, *text, size, parse_special) for text in texts]
        n_left = sum(len(text_ids) // size for text_ids in ids) - skip - n_resumed
        n_left = n_left if chunks is None else min(n_left, chunks - n_resumed)
        if n_left + n_resumed < 1:
            raise UsageError("no windows of the text are left", hint="lower --from-chunk")
        unsaved, total = 0, n_left
        progress(0.0)
        for windows in _text_windows(context, ids, skip + n_resumed, n_left):
            for _ in compute(context, windows, 0):
                if products.error is not None:
                    raise products.error
            sums.chunks += len(windows)
            n_left -= len(windows)
            unsaved += len(windows)
            progress(1 - n_left / total)
            if unsaved >= save_every > 0 and n_left:
                sums.write(target, size, force=force)
                force, unsaved = True, 0
        progress(1.0)
    return sums.write(target, size, force=force)


def _read_partial_sums(target: str, size: int, datasets: Sequence[str]) -> ColumnSums:
    matrix = read_importance(target)
    if matrix.chunk_size != size or list(matrix.datasets) != list(datasets):
        what = f"was made from {', '.join(matrix.datasets) or 'no text'} in windows of"
        raise UsageError(
            f"{what} {matrix.chunk_size}, not as now", source=target,
            hint="repeat that run's texts and --ctx, or start over with --force",
        )  # fmt: skip
    sums = ColumnSums()
    sums.add(matrix, target, size)
    sums.chunks = matrix.chunks
    return sums


def _text_ids(model: Model, name: str, text: bytes, size: int, parse_special: bool) -> list[int]:
    try:
        return token_ids(model, text, size, parse_special=parse_special)
    except MtkitError as error:
        raise error.located(name) from None


def _text_windows(
    context: SlotContext, texts: Sequence[list[int]], skip: int, most: int
) -> Iterator[list[list[int]]]:
    size = context.n_slot
    for ids in texts:
        count = len(ids) // size
        begin, end = min(skip, count), min(skip + most, count)
        yield from batches(context, ids[: end * size], begin)
        skip -= begin
        most -= end - begin


@contextmanager
def temporary_matrix(
    model: str, texts: Sequence[tuple[str, bytes]], *, progress: Progress = lambda _: None
) -> Iterator[str]:
    """Make an importance matrix with llama-imatrix's defaults; yields the path of its file."""
    with temporary_folder() as folder:
        path = os.path.join(folder, "imatrix.gguf")
        importance_matrix(TextSettings(model=model), texts, path, progress=progress)
        yield path
