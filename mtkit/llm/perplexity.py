"""Perplexity as llama.cpp's llama-perplexity counts it: the second half of each whole window.

Source: tools/perplexity/perplexity.cpp of llama.cpp.
"""

from __future__ import annotations

import math
import time

from mtkit.base.record import Record
from mtkit.errors import UsageError
from mtkit.llm.windows import batches, scored

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.llama import SlotContext

_MOST_EXPONENT = 700
"""A greater one is beyond a 64-bit float."""


class Perplexity(Record):
    """How well a model predicts a text.

    Attributes:
        tokens: Tokens that count.
        loss: Mean of their negative logarithms of probability, in nats.
        perplexity: e to the power of the loss.
        error: Standard error of the perplexity.
        windows: Windows computed.
        n_ctx: Tokens of a window, BOS among them.
        stride: Tokens from the beginning of one to that of the next, where they overlap; None
            for whole windows whose second halves count.
        seconds: Time that took.
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
    context: SlotContext,
    ids: list[int],
    *,
    progress: Callable[[float], object] = lambda _: None,
) -> Perplexity:
    """Compute the perplexity of a text; a slot's size is the window's.

    Args:
        context: Is cleared.
        ids: The tokens, as ``windows.token_ids`` returns them.
        progress: Called with the part that is done, 0 to 1.

    Raises:
        UsageError: A window is too small.
    """
    import numpy as np

    size = check_size(context.n_slot)
    start = time.perf_counter()
    progress(0.0)
    scratch = np.empty(context.model.n_vocab, np.float32)
    sums = Losses()
    for windows in batches(context, ids):
        for logits, target in scored(context, windows):
            sums.add(log_total(logits, scratch) - float(logits[target]))
        sums.windows += len(windows)
        progress(sums.windows * size / len(ids))
    progress(1.0)
    return sums.perplexity(size, None, time.perf_counter() - start)


def check_size(size: int) -> int:
    """Return the size of a window.

    Raises:
        UsageError: Its second half predicts no token.
    """
    if size < 3:
        raise UsageError(f"a window of {size} has no token to predict", hint="raise --ctx")
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
    """Losses added up.

    Attributes:
        windows: Windows computed.
    """

    def __init__(self) -> None:
        self.windows = 0
        self._count, self._losses, self._squares = 0, 0.0, 0.0

    def add(self, loss: float) -> None:
        """Add the loss of a token."""
        self._count += 1
        self._losses += loss
        self._squares += loss * loss

    def perplexity(self, n_ctx: int, stride: int | None, seconds: float) -> Perplexity:
        """Return what they come to."""
        mean = self._losses / self._count
        value, error = _of_mean(self._count, mean, self._squares)
        return Perplexity(self._count, mean, value, error, self.windows, n_ctx, stride, seconds)


def together(parts: Sequence[Perplexity]) -> Perplexity:
    """Return the perplexity of several texts: every token counts alike."""
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
    value, error = _of_mean(count, mean, squares)
    windows = sum(one.windows for one in parts)
    seconds = sum(one.seconds for one in parts)
    return Perplexity(count, mean, value, error, windows, first.n_ctx, first.stride, seconds)


def _of_mean(count: int, mean: float, squares: float) -> tuple[float, float]:
    """Return perplexity and standard error of a mean loss and a sum of squared losses."""
    value = math.exp(mean) if mean < _MOST_EXPONENT else float("inf")
    variance = max(squares / count - mean * mean, 0.0)
    return value, value * math.sqrt(variance / (count - 1)) if count > 1 else 0.0
