"""How long batches of a model take beside a token alone, where there is no text to measure in.

It depends on weight type, kernels, cores and memory: between almost nothing and as many times
longer as a batch has tokens.
"""

from __future__ import annotations

import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from mtkit.llama import Context
    from mtkit.llm.speculative.known import Known

SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
"""Tokens in a batch whose costs a table shows."""
_TURNS, _SECONDS = 5, 1.0
"""Times that each is measured at most; seconds after which no further turn begins."""
_PAST, _MANY = 32, 32
"""Tokens that a batch stands behind; that a draft reads at once."""


def clock(context: Context) -> Callable[[], float]:
    """Return what to measure a context's work with: of one thread, the time that it was running.

    What else the machine does lengthens everything by the wall clock. Several threads wait for
    each other, and a processor's time is not that of a graphics processor.
    """
    alone = context.settings.threads == 1 and not context.model.settings.gpu_layers
    return time.process_time if alone else time.perf_counter


def measure(context: Context, sizes: Sequence[int], known: Known) -> float:
    """Learn what batches cost; return the seconds of a token alone. Empties the context.

    Args:
        context: Of the target.
        sizes: Tokens in a batch; those that do not fit are left out.
        known: Learns.
    """
    now, bos = clock(context), max(context.model.bos, 0)
    past = min(_PAST, context.n_ctx // 2)
    room = min(context.n_ctx - past, context.n_batch)
    plain, began = [], time.perf_counter()
    context.clear()
    context.decode([bos] * past)
    for turn in range(_TURNS + 1):
        # One behind another, as in plain decoding: llama.cpp then keeps the graph.
        batch_seconds(context, [bos], now)
        alone = batch_seconds(context, [bos], now)
        for size in sizes:
            if 1 < size <= room:
                seconds = batch_seconds(context, [bos] * size, now)
                if turn:  # the first touches memory for the first time
                    known.saw_batch(size, seconds / alone)
        plain += [alone] * bool(turn)
        if plain and time.perf_counter() - began > _SECONDS:
            break
    context.clear()
    return min(plain)


def batch_seconds(context: Context, batch: Sequence[int], now: Callable[[], float]) -> float:
    """Return the seconds of a batch behind what is there, which it leaves as it was."""
    past, start = context.n_past, now()
    context.decode(batch, outputs="all")
    context.logits(0)
    seconds = now() - start
    context.truncate(past)
    return seconds


def measure_draft(context: Context, plain: float, known: Known) -> None:
    """Learn what drafting and reading cost; empties the draft's context.

    Args:
        context: Of the draft.
        plain: Seconds of a token of the target.
        known: Learns.
    """
    now, bos = clock(context), max(context.model.bos, 0)
    many = max(min(_MANY, context.n_ctx - 1, context.n_batch), 1)
    for turn in range(_TURNS):
        context.clear()
        reading = batch_seconds(context, [bos] * many, now)
        # A draft of two: the first comes behind the two tokens that the last round gave.
        drafting = [batch_seconds(context, [bos] * size, now) for size in (min(2, many), 1)]
        if turn:
            known.saw_reading(many, reading / plain)
            known.saw_draft(2, sum(drafting) / plain)
    context.clear()
