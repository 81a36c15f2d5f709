"""How far one model's predictions are from another's, as llama-perplexity's --kl-divergence says.

Both go through a text together, a batch of windows each in turn, so that no file of logits stands
between them. The second half of each window counts.
Source: tools/perplexity/perplexity.cpp of llama.cpp.
"""

from __future__ import annotations

import math
import time
from array import array

from mtkit.base.record import Record
from mtkit.errors import UsageError
from mtkit.gguf import GgufArray
from mtkit.llm.perplexity import check_size
from mtkit.llm.windows import batches, second_half_logits

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.llama import SlotContext
    from mtkit.llm.runner import Runner

QUANTILES = (0.999, 0.99, 0.95, 0.9, 0.5, 0.1, 0.05, 0.01)
_FEW = 10
"""Up to so many tokens no error is given, as in llama-perplexity."""
_LEAST = math.exp(-16)
"""Probability up to which a token of the base does not count, as in llama-perplexity."""
_BINS = 16


class Estimate(Record):
    """A mean, or what follows from means."""

    value: float
    error: float


class Divergence(Record):
    """How far a model's predictions are from a base's.

    Attributes:
        ratio: The first divided by the second.
        difference: The first less the second.
        divergence: Kullback-Leibler divergence of the model from the base, in nats per token.
        quantiles: Part of the tokens -> the divergence that theirs does not exceed, of QUANTILES.
        histogram: From, to and number of tokens, of intervals of divergence that grow by a factor.
        change: How much more probable the model finds the token that follows, on average.
        same_top: Part of the tokens where both find the same token the most likely.
    """

    tokens: int
    windows: int
    n_ctx: int
    perplexity: Estimate
    base_perplexity: Estimate
    ratio: Estimate
    log_ratio: Estimate
    difference: Estimate
    correlation: float
    divergence: Estimate
    quantiles: dict[float, float]
    maximum: float
    minimum: float
    histogram: tuple[tuple[float, float, int], ...]
    change: Estimate
    change_rms: Estimate
    same_top: Estimate
    seconds: float


def check_same_vocabulary(model: Runner, base: Runner) -> None:
    """Check that ids mean the same to two models."""
    path, own, others = model.model.path, model.model.n_vocab, base.model.n_vocab
    if own != others:
        why = f"{others} tokens, {path} has {own}"
    elif _tokens(model) != _tokens(base):
        why = f"its tokens are not those of {path}"
    else:
        return
    raise UsageError(
        f"has another vocabulary: {why}", source=base.model.path,
        hint="compare a model with the one that it was quantized from",
    )  # fmt: skip


def _tokens(runner: Runner) -> bytes:
    tokens = runner.header.file.metadata.get("tokenizer.ggml.tokens")
    return tokens.raw_bytes() if isinstance(tokens, GgufArray) else b""


def divergence(
    context: SlotContext,
    base: SlotContext,
    texts: Sequence[list[int]],
    *,
    progress: Callable[[float], object] = lambda _: None,
) -> Divergence:
    """Compute how far a model's predictions are from a base's.

    Args:
        progress: Called with the part that is done, 0 to 1.
    """
    size = check_size(context.n_slot)
    start = time.perf_counter()
    total = sum(len(ids) // size for ids in texts)
    rows = _Rows(context.model.n_vocab)
    count = 0
    progress(0.0)
    for ids in texts:
        for windows in batches(context, ids):
            pairs = zip(
                second_half_logits(context, windows), second_half_logits(base, windows), strict=True
            )
            for (logits, target), (others, _) in pairs:
                rows.add(logits, others, target)
            count += len(windows)
            progress(count / total)
    return rows.statistics(count, size, start)


class _Rows:
    """Losses and divergence of each token: 13 bytes."""

    def __init__(self, n_vocab: int) -> None:
        import numpy as np

        self._scratch = np.empty((3, n_vocab), np.float32)
        self._losses, self._base_losses = array("f"), array("f")
        self._divergences, self._same = array("f"), array("b")

    def add(self, logits: Any, base: Any, target: int) -> None:
        """Add a token and both models' logits for it, float32 of shape (n_vocab,)."""
        import numpy as np

        shifted, base_shifted, powers = self._scratch
        top, base_top = int(logits.argmax()), int(base.argmax())
        np.subtract(logits, logits[top], out=shifted)
        np.exp(shifted, out=powers)
        log_sum = math.log(powers.sum())
        np.subtract(base, base[base_top], out=base_shifted)
        np.exp(base_shifted, out=powers)
        total = float(powers.sum())
        base_log_sum = math.log(total)
        self._losses.append(log_sum - float(shifted[target]))
        self._base_losses.append(base_log_sum - float(base_shifted[target]))
        np.putmask(powers, powers <= total * _LEAST, 0)
        base_shifted -= shifted
        base_shifted += log_sum - base_log_sum
        base_shifted *= powers
        self._divergences.append(float(base_shifted.sum()) / total)
        self._same.append(top == base_top)

    def statistics(self, windows: int, n_ctx: int, start: float) -> Divergence:
        """Return the statistics of all rows."""
        import numpy as np

        losses, base_losses, divergences = (
            np.frombuffer(values, np.float32).astype(np.float64)
            for values in (self._losses, self._base_losses, self._divergences)
        )
        count = len(divergences)
        loss, base_loss = _mean(losses), _mean(base_losses)
        covariance = float((losses * base_losses).mean()) - loss.value * base_loss.value
        covariance = covariance / (count - 1) if count >= _FEW else 0.0
        errors = loss.error * base_loss.error
        log_ratio = Estimate(
            loss.value - base_loss.value, _difference_error(loss.error, base_loss.error, covariance)
        )
        value, base_value, ratio = map(_power, (loss, base_loss, log_ratio))
        apart = _difference_error(
            value.error, base_value.error, covariance * value.value * base_value.value
        )
        changes = np.exp(-losses) - np.exp(-base_losses)
        squares = _mean(changes**2)
        rms = math.sqrt(squares.value)
        same = sum(self._same) / count
        spread = math.sqrt(same * (1 - same) / (count - 1)) if count > 1 else 0.0
        return Divergence(
            tokens=count, windows=windows, n_ctx=n_ctx, perplexity=value,
            base_perplexity=base_value, ratio=ratio, log_ratio=log_ratio,
            difference=Estimate(value.value - base_value.value, apart),
            correlation=covariance / errors if errors else 0.0, divergence=_mean(divergences),
            quantiles={part: float(np.quantile(divergences, part)) for part in QUANTILES},
            maximum=float(divergences.max()), minimum=float(divergences.min()),
            histogram=_histogram(divergences), change=_mean(changes),
            change_rms=Estimate(rms, 0.5 / rms * squares.error if rms else 0.0),
            same_top=Estimate(same, spread), seconds=time.perf_counter() - start,
        )  # fmt: skip


def _mean(values: Any) -> Estimate:
    """Return the mean of float64 values; few have no error."""
    mean, count = float(values.mean()), len(values)
    variance = max(float((values * values).mean()) - mean * mean, 0.0)
    return Estimate(mean, math.sqrt(variance / (count - 1)) if count > _FEW else 0.0)


def _power(exponent: Estimate) -> Estimate:
    value = math.exp(min(exponent.value, 700.0))
    return Estimate(value, value * exponent.error)


def _difference_error(error: float, other: float, covariance: float) -> float:
    """Return the standard error of the difference of two estimates."""
    return math.sqrt(max(error * error + other * other - 2 * covariance, 0.0))


def _histogram(values: Any) -> tuple[tuple[float, float, int], ...]:
    """Count values in intervals that grow by a factor; what is below the first is in it."""
    import numpy as np

    low, high = (max(float(np.quantile(values, part)), 1e-9) for part in (0.01, 1.0))
    if not low < high:
        return ((low, high, len(values)),)
    edges = np.geomspace(low, high, _BINS + 1)
    places = np.clip(np.searchsorted(edges, values) - 1, 0, _BINS - 1)
    counts = np.bincount(places, minlength=_BINS)
    return tuple((float(edges[at]), float(edges[at + 1]), int(counts[at])) for at in range(_BINS))
