"""Perplexity: how well a model predicts a text.

The text is cut into windows of the context's length, each ``stride`` tokens after the one before.
A token counts once: in the first window that holds it. With a stride of half a window every token
but the first ones has at least half a window before it. BOS, where the model adds one, begins
every window and does not count; where it adds none, a token that begins a window and has not
counted before never does.
"""

from __future__ import annotations

import time

from mtkit.base.record import Record
from mtkit.errors import UsageError, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mtkit.llama import Context


class Perplexity(Record):
    """How well a model predicts a text.

    Attributes:
        tokens: Tokens that count.
        loss: Mean of their negative logarithms of probability, in nats.
        perplexity: e to the power of the loss.
        error: Standard error of the perplexity.
        windows: Windows computed.
        n_ctx: Tokens of a window, BOS among them.
        stride: Tokens from one to the next.
        seconds: Time that took.
    """

    tokens: int
    loss: float
    perplexity: float
    error: float
    windows: int
    n_ctx: int
    stride: int
    seconds: float


def perplexity(
    context: Context,
    ids: list[int],
    *,
    stride: int | None = None,
    progress: Callable[[float], None] | None = None,
) -> Perplexity:
    """Compute the perplexity of tokens; the context's size is the window's.

    Args:
        context: Whose size and batches are used; it is cleared.
        ids: The tokens, without BOS.
        stride: Tokens between the beginnings of windows; None for half a window.
        progress: Called with the part that is done, 0 to 1.

    Raises:
        UsageError: There are too few tokens, or the stride makes no sense.
    """
    import math

    size = context.n_ctx - context.model.add_bos
    if context.n_ctx < 2:
        raise UsageError(f"a window of {context.n_ctx} token predicts none", hint="raise --ctx")
    stride = max(size // 2, 1) if stride is None else stride
    if not 1 <= stride <= size:
        raise UsageError(f"--stride {stride}: not 1 to {size}")
    losses = 0.0
    squares = 0.0
    count = windows = 0
    start = time.perf_counter()
    if progress is not None:
        progress(0.0)
    for window, (begin, end, fresh) in enumerate(_windows(context, ids, stride)):
        for loss in _losses(context, ids[begin:end], fresh - begin):
            losses += loss
            squares += loss * loss
            count += 1
        windows = window + 1
        if progress is not None:
            progress(end / len(ids))
    mean = losses / count
    variance = max(squares / count - mean * mean, 0.0)
    value = math.exp(mean) if mean < 700 else float("inf")
    error = value * math.sqrt(variance / (count - 1)) if count > 1 else 0.0
    seconds = time.perf_counter() - start
    return Perplexity(count, mean, value, error, windows, context.n_ctx, stride, seconds)


def together(parts: Sequence[Perplexity]) -> Perplexity:
    """Return the perplexity of several texts: every token counts alike."""
    import math

    first, *others = parts
    if not others:
        return first
    count = sum(one.tokens for one in parts)
    mean = sum(one.loss * one.tokens for one in parts) / count
    squares = 0.0
    for one in parts:
        deviation = one.error / one.perplexity if one.perplexity < float("inf") else 0.0
        variance = deviation * deviation * max(one.tokens - 1, 0)
        squares += one.tokens * (variance + one.loss * one.loss)
    value = math.exp(mean) if mean < 700 else float("inf")
    variance = max(squares / count - mean * mean, 0.0)
    error = value * math.sqrt(variance / (count - 1)) if count > 1 else 0.0
    windows = sum(one.windows for one in parts)
    seconds = sum(one.seconds for one in parts)
    return Perplexity(count, mean, value, error, windows, first.n_ctx, first.stride, seconds)


def _windows(context: Context, ids: list[int], stride: int) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, end, first that counts) of each window, in tokens of the text."""
    size = context.n_ctx - context.model.add_bos
    first = 0 if context.model.add_bos else 1  # nothing predicts a token without one before it
    if len(ids) <= first:
        raise UsageError(f"the text has {counted(len(ids), 'token')}, that is too few")
    begin, following = 0, first
    while following < len(ids):
        end = min(begin + size, len(ids))
        yield begin, end, following
        begin += stride
        following = max(end, begin + first)


def _losses(context: Context, ids: list[int], first: int) -> Iterator[float]:
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
        for row in range(len(part)):
            yield -_log_probability(context.logits(row), whole[at + row + 1])


def _log_probability(logits: Any, token_id: int) -> float:
    import numpy as np

    shifted = logits - logits.max()
    return float(shifted[token_id]) - float(np.log(np.exp(shifted).sum(dtype=np.float64)))
