"""The importance matrix of a model, made from texts as llama-imatrix makes it.

Whole windows of the texts go through the model; of what enters each matrix, the squares are added
up column by column, in 32-bit floats and in the order in which llama-imatrix adds them.
Source: tools/imatrix/imatrix.cpp of llama.cpp.
"""

from __future__ import annotations

import os
from contextlib import contextmanager

from mtkit.base.whole_files import check_target
from mtkit.errors import MtkitError, UsageError
from mtkit.gguf.importance import read_importance
from mtkit.llama import SlotContext
from mtkit.llama.products import Products
from mtkit.llm.importance_sums import ColumnSums
from mtkit.llm.open_model import open_model
from mtkit.llm.windows import WINDOW, batches, compute, open_windows, token_ids
from mtkit.settings import TextSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from mtkit.gguf.importance import Importance
    from mtkit.llama import Model

    Progress = Callable[[float], None]


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

    The file is written now and then, whole each time, so that ``resume`` can go on with it.

    Args:
        settings: The model, the size of a window, how many tokens are computed in one batch.
        texts: Name and content of each; a name that is empty or "-" is not told in the file. If
            there are none, ``in_files`` are added up alone.
        target: Where to write.
        chunks: Windows to compute at most.
        skip: Windows to leave out at the beginning.
        with_output: Of the output matrix, too.
        parse_special: Special tokens spelled in the texts are special tokens.
        in_files: Importance matrices to add to.
        resume: Go on where the run ended that wrote ``target``; from the beginning if it wrote
            none. The other arguments have to be the same.
        save_every: Windows after which the file is written.
        force: Replace the file.
        progress: Is told how much is done, 0 to 1.
        loading: The same of loading the model.

    Raises:
        UsageError: The target exists, a text is too short, or ``target`` is another run's.
        FormatError: The model, or a matrix, is damaged.
        UnsupportedError: The model cannot be computed so.
        ResourceError: There is not enough memory, or the disk is full.
    """
    force = force or resume
    check_target(target, force=force)
    sums, size = ColumnSums(), settings.context.n_ctx or WINDOW
    for path in in_files:
        sums.add(read_importance(path), path)
    if not texts:
        sums.chunks = sums.counted(size)
        return sums.write(target, size, force=force)
    datasets = [*sums.datasets, *(name for name, _ in texts if name not in ("", "-"))]
    with open_model(settings, loading, n_ctx=WINDOW) as runner:
        size = runner.n_ctx
        before = sums.chunks = sums.counted(size)
        if resume and os.path.exists(target):
            sums = _begun(target, size, datasets)
        sums.datasets = datasets
        done = sums.chunks - before
        products = Products(sums.take, with_output=with_output)
        context = open_windows(
            runner, lambda *given: SlotContext(*given, watched_by=products.callback)
        )
        products.is_on = True
        ids = [_ids(runner.model, *text, size, parse_special) for text in texts]
        left = sum(len(one) // size for one in ids) - skip - done
        left = left if chunks is None else min(left, chunks - done)
        if left + done < 1:
            raise UsageError("no windows of the text are left", hint="lower --from-chunk")
        unsaved, total = 0, left
        progress(0.0)
        for windows in _windows(context, ids, skip + done, left):
            for _ in compute(context, windows, 0):
                if products.error is not None:
                    raise products.error
            sums.chunks += len(windows)
            left -= len(windows)
            unsaved += len(windows)
            progress(1 - left / total)
            if unsaved >= save_every > 0 and left:
                sums.write(target, size, force=force)
                force, unsaved = True, 0
        progress(1.0)
    return sums.write(target, size, force=force)


def _begun(target: str, size: int, datasets: Sequence[str]) -> ColumnSums:
    """Return what a run that was ended has written.

    Raises:
        UsageError: It was another run.
    """
    found = read_importance(target)
    if found.chunk_size != size or list(found.datasets) != list(datasets):
        what = f"was made from {', '.join(found.datasets) or 'no text'} in windows of"
        raise UsageError(
            f"{what} {found.chunk_size}, not as now", source=target,
            hint="repeat that run's texts and --ctx, or start over with --force",
        )  # fmt: skip
    sums = ColumnSums()
    sums.add(found, target)
    sums.chunks = found.chunks
    return sums


def _ids(model: Model, name: str, text: bytes, size: int, parse_special: bool) -> list[int]:
    try:
        return token_ids(model, text, size, parse_special=parse_special)
    except MtkitError as error:
        raise error.located(name) from None


def _windows(
    context: SlotContext, texts: Sequence[list[int]], skip: int, most: int
) -> Iterator[list[list[int]]]:
    """Yield windows of texts, by batches, from one on."""
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
    """Make an importance matrix with llama-imatrix's defaults; yields the path of its file.

    Raises:
        MtkitError: As ``importance_matrix``.
    """
    from tempfile import TemporaryDirectory

    with TemporaryDirectory(prefix="mtkit-imatrix-") as folder:
        path = os.path.join(folder, "imatrix.gguf")
        importance_matrix(TextSettings(model=model), texts, path, progress=progress)
        yield path
