"""Perplexity: of the second half of each whole window, or of every token once.

``perplexity`` counts as llama.cpp's llama-perplexity does.
Source: tools/perplexity/perplexity.cpp of llama.cpp.

``sliding_perplexity``: windows overlap. Those of the context's length begin ``stride`` tokens after
each other. A token counts in the first window that holds it. With a stride of half a window every
token but the first ones has at least half a window before it. BOS, where the model adds one, begins
every window and does not count; where it adds none, a token that begins a window and has not
counted before never does.
"""

from __future__ import annotations

import math
import time

from mtkit.base.record import Record
from mtkit.errors import UsageError, format_count, wording
from mtkit.llm.windows import batches, second_half_logits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from mtkit.llama import Context, SlotContext


_MOST_EXPONENT = 700
"""The power of e is beyond a 64-bit float above it."""


class Perplexity(Record):
    """How well a model predicts a text.

    Attributes:
        loss: Mean of their negative logarithms of probability, in nats.
        stride: Tokens from the beginning of one to that of the next, where they overlap; None
            for whole windows whose second halves count.
    """

    tokens: int
    loss: float
    perplexity: float
    error: float
    windows: int
    n_ctx: int
    stride: int | None
    seconds: float


def perplexity(
    context: SlotContext, ids: list[int], *, progress: Callable[[float], object] = lambda _: None
) -> Perplexity:
    """Compute the perplexity of a text; a slot's size is the window's.

    Args:
        progress: Called with the part that is done, 0 to 1.
    """
    import numpy as np

    size = check_size(context.n_slot)
    start = time.perf_counter()
    progress(0.0)
    scratch = np.empty(context.model.n_vocab, np.float32)
    sums = Losses()
    for windows in batches(context, ids):
        for logits, target in second_half_logits(context, windows):
            sums.add(log_total(logits, scratch) - float(logits[target]))
        sums.windows += len(windows)
        progress(sums.windows * size / len(ids))
    progress(1.0)
    return sums.perplexity(size, None, time.perf_counter() - start)


def _too_small(size: int) -> UsageError:
    hint = wording("raise --ctx", "raise window")
    return UsageError(f"a window of {size} has no token to predict", hint=hint)


def check_size(size: int) -> int:
    """Return the size of a window."""
    if size < 3:
        raise _too_small(size)
    return size


def log_total(logits: Any, scratch: Any) -> float:
    """Return the logarithm of the sum of the powers of e: what is taken from each logit.

    Args:
        logits: float32 of shape (n_vocab,).
        scratch: Overwritten, of the same shape: new memory for each row costs more than the work.
    """
    import numpy as np

    top = logits.max()
    np.subtract(logits, top, out=scratch)
    np.exp(scratch, out=scratch)
    return float(top) + math.log(scratch.sum())


class Losses:
    """Sums of losses and of their squares."""

    def __init__(self) -> None:
        self.windows = 0
        self._count, self._losses, self._squares = 0, 0.0, 0.0

    def add(self, loss: float) -> None:
        """Add the loss of a token."""
        self._count += 1
        self._losses += loss
        self._squares += loss * loss

    def perplexity(self, n_ctx: int, stride: int | None, seconds: float) -> Perplexity:
        """Return the perplexity of all tokens so far."""
        mean = self._losses / self._count
        value, error = _of_mean(self._count, mean, self._squares)
        return Perplexity(self._count, mean, value, error, self.windows, n_ctx, stride, seconds)


def combine(parts: Sequence[Perplexity]) -> Perplexity:
    """Return the perplexity of several texts: every token counts alike."""
    first, *others = parts
    if not others:
        return first
    count = sum(part.tokens for part in parts)
    mean = sum(part.loss * part.tokens for part in parts) / count
    squares = 0.0
    for part in parts:
        deviation = part.error / part.perplexity if part.perplexity < float("inf") else 0.0
        variance = deviation * deviation * max(part.tokens - 1, 0)
        squares += part.tokens * (variance + part.loss * part.loss)
    value, error = _of_mean(count, mean, squares)
    windows = sum(part.windows for part in parts)
    seconds = sum(part.seconds for part in parts)
    return Perplexity(count, mean, value, error, windows, first.n_ctx, first.stride, seconds)


def _of_mean(count: int, mean: float, squares: float) -> tuple[float, float]:
    """Return perplexity and standard error of a mean loss and a sum of squared losses."""
    value = math.exp(mean) if mean < _MOST_EXPONENT else float("inf")
    variance = max(squares / count - mean * mean, 0.0)
    return value, value * math.sqrt(variance / (count - 1)) if count > 1 else 0.0


def sliding_perplexity(
    context: Context,
    ids: list[int],
    stride: int,
    *,
    progress: Callable[[float], object] = lambda _: None,
) -> Perplexity:
    """Compute the perplexity of tokens; the context's size is the window's.

    Args:
        progress: Called with the part that is done, 0 to 1.
    """
    import numpy as np

    size = context.n_ctx - context.model.add_bos
    if context.n_ctx < 2:
        raise _too_small(context.n_ctx)
    if not 1 <= stride <= size:
        raise UsageError(
            f"is {stride}, not in the range 1 to {size}", field=wording("--stride", "stride")
        )
    scratch = np.empty(context.model.n_vocab, np.float32)
    sums = Losses()
    start = time.perf_counter()
    progress(0.0)
    for begin, end, fresh in _sliding_windows(context, ids, stride):
        for loss in _window_losses(context, ids[begin:end], fresh - begin, scratch):
            sums.add(loss)
        sums.windows += 1
        progress(end / len(ids))
    return sums.perplexity(context.n_ctx, stride, time.perf_counter() - start)


def _sliding_windows(
    context: Context, ids: list[int], stride: int
) -> Iterator[tuple[int, int, int]]:
    """Yield (begin, end, first that counts) of each window, in tokens of the text."""
    size = context.n_ctx - context.model.add_bos
    first = 0 if context.model.add_bos else 1  # nothing predicts a token without one before it
    if len(ids) <= first:
        raise UsageError(f"the text has only {format_count(len(ids), 'token')}, which is too few")
    begin, following = 0, first
    while following < len(ids):
        end = min(begin + size, len(ids))
        yield begin, end, following
        begin += stride
        following = max(end, begin + first)


def _window_losses(context: Context, ids: list[int], first: int, scratch: Any) -> Iterator[float]:
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
