"""Perplexity with windows that overlap: every token of a text counts, once.

Windows of the context's length begin ``stride`` tokens after each other. A token counts in the
first window that holds it. With a stride of half a window every token but the first ones has at
least half a window before it. BOS, where the model adds one, begins every window and does not
count; where it adds none, a token that begins a window and has not counted before never does.
"""

from __future__ import annotations

import time

from mtkit.errors import UsageError, counted
from mtkit.llm.perplexity import Losses, Perplexity, log_total

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from mtkit.llama import Context


def sliding_perplexity(
    context: Context,
    ids: list[int],
    stride: int,
    *,
    progress: Callable[[float], object] = lambda _: None,
) -> Perplexity:
    """Compute the perplexity of tokens; the context's size is the window's.

    Args:
        context: Whose size and batches are used; it is cleared.
        ids: The tokens, without BOS.
        stride: Tokens between the beginnings of windows.
        progress: Called with the part that is done, 0 to 1.

    Raises:
        UsageError: There are too few tokens, or the stride makes no sense.
    """
    import numpy as np

    size = context.n_ctx - context.model.add_bos
    if context.n_ctx < 2:
        raise UsageError(f"a window of {context.n_ctx} has no token to predict", hint="raise --ctx")
    if not 1 <= stride <= size:
        raise UsageError(f"is {stride}, not in the range 1 to {size}", field="--stride")
    scratch = np.empty(context.model.n_vocab, np.float32)
    sums = Losses()
    start = time.perf_counter()
    progress(0.0)
    for begin, end, fresh in _windows(context, ids, stride):
        for loss in _losses(context, ids[begin:end], fresh - begin, scratch):
            sums.add(loss)
        sums.windows += 1
        progress(end / len(ids))
    return sums.perplexity(context.n_ctx, stride, time.perf_counter() - start)


def _windows(context: Context, ids: list[int], stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, end, first that counts) of each window, in tokens of the text."""
    size = context.n_ctx - context.model.add_bos
    first = 0 if context.model.add_bos else 1  # nothing predicts a token without one before it
    if len(ids) <= first:
        raise UsageError(f"the text has only {counted(len(ids), 'token')}, which is too few")
    begin, following = 0, first
    while following < len(ids):
        end = min(begin + size, len(ids))
        yield begin, end, following
        begin += stride
        following = max(end, begin + first)


def _losses(context: Context, ids: list[int], first: int, scratch: Any) -> Iterator[float]:
    """Yield the negative logarithm of the probability of each token of a window from one on."""
    model = context.model
    whole = [model.bos, *ids] if model.add_bos else ids
    first += model.add_bos
    context.clear()
    quiet = first - 1  # rows before these predict tokens that have counted
    context.decode(whole[:quiet], outputs="none")
    for at in range(quiet, len(whole) - 1, context.n_batch):
        part = whole[at : min(at + context.n_batch, len(whole) - 1)]
        context.decode(part, outputs="all")
        for row, target in enumerate(whole[at + 1 : at + 1 + len(part)]):
            logits = context.logits(row)
            yield log_total(logits, scratch) - float(logits[target])
