"""What verifying and drafting cost on this machine.

How long a batch of k tokens takes against one token depends on weight type, kernels, cores and
memory: between almost nothing and k times as long. It is measured, remembered for a model, and
corrected by what is seen while it runs.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress

from mtkit.llm.speculative.costs import Costs

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from mtkit.llama import Context
    from mtkit.llm.preflight import ModelHeader

SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
"""Tokens in a batch that are measured; between them the time is taken to be straight."""
_TURNS, _REMEMBERED, _NOW = 8, 32, 5
"""Times that all is measured at first; those that are remembered; those of what it takes now."""
_PAST = 32
_MANY = 32
"""Tokens that a draft reads at once."""
_SECONDS = 1.0
"""After which no further turn begins."""
_QUICK = 0.1
"""Seconds that measuring once more may take where it was done before."""


def clock(context: Context) -> Callable[[], float]:
    """Return what to measure a context's work with: of one thread, the time that it was running.

    What else the machine does lengthens everything by the wall clock. Several threads wait for
    each other, and a processor's time is not that of a graphics processor.
    """
    alone = context.settings.threads == 1 and not context.model.settings.gpu_layers
    return time.process_time if alone else time.perf_counter


def measure(
    context: Context, most: int, *, pairs: bool = False, turns: int = _TURNS
) -> list[dict[int, float]]:
    """Return tokens in a batch -> seconds, for each turn; empties the context.

    A token alone comes behind another one alone, as in plain decoding: llama.cpp then keeps the
    graph that it computes. It makes one anew where the size of a batch changes, as it does between
    rounds.

    Args:
        context: Of the target.
        most: Largest batch that will be verified.
        pairs: A round without a draft computes two tokens (``exactness``), like the one before.
        turns: How often each size is measured, at most.
    """
    _begin(context)
    sizes = _sizes(context, most, pairs=pairs)
    found: list[dict[int, float]] = []
    now, began = clock(context), time.perf_counter()
    for turn in range(turns + 1):
        times = {size: _batch_seconds(context, size, size <= 1 + pairs, now) for size in sizes}
        if turn:  # the first touches memory for the first time
            found.append(times)
        if found and time.perf_counter() - began > _SECONDS:
            break
    context.clear()
    return found


def combined(turns: Sequence[Mapping[int, float]]) -> dict[int, float]:
    """Return tokens in a batch -> seconds, of what ``measure`` returned.

    Of a token alone it is the least: what takes longer is what else the machine does. What a batch
    takes beside that is the median of the turns, in each of which the machine was equally busy: the
    least of each size are of moments when it was not.
    """
    plain = min(turn[1] for turn in turns)
    return {size: plain * _middle(turn[size] / turn[1] for turn in turns) for size in turns[0]}


def step_seconds(context: Context) -> float:
    """Return the seconds of a drafted token, the least of some; empties the context."""
    return min(_drafted_seconds(context) for _ in range(_NOW))


def costs_now(
    by_size: Mapping[int, float],
    target: Context,
    draft: Context | None,
    *,
    pairs: bool,
    mixed: bool = False,
) -> Costs:
    """Return costs as they are now, which is slower than they were measured on a busy machine.

    Empties the contexts.
    """
    now = clock(target)
    _begin(target)
    plain, drafted, read = [], [], []
    for turn in range(_NOW + 1):
        plain.append(_batch_seconds(target, 1, True, now))
        if draft is not None:
            drafted.append(_drafted_seconds(draft) / plain[-1])
            read.append(_read_seconds(draft) / plain[-1])
        if not turn:
            plain, drafted, read = [], [], []
    target.clear()
    least = min(plain)
    costs = Costs(by_size, _middle(drafted or [0.0]) * least, _middle(read or [0.0]) * least,
                  pairs=pairs, mixed=mixed)  # fmt: skip
    costs.by_size = {size: least / costs.plain * each for size, each in by_size.items()}
    return costs


def _middle(values: Iterable[float]) -> float:
    ordered = sorted(values)
    return ordered[len(ordered) // 2]


def _sizes(context: Context, most: int, *, pairs: bool) -> list[int]:
    room = min(max(most, 1 + pairs), context.n_ctx - _past(context), context.n_batch)
    return sorted({size for size in (*SIZES, room) if size <= room} or {1})


def _past(context: Context) -> int:
    return min(_PAST, context.n_ctx // 2)


def _begin(context: Context) -> None:
    """Empty a context and read something."""
    context.clear()
    context.decode([max(context.model.bos, 0)] * _past(context))


def _batch_seconds(context: Context, size: int, again: bool, now: Callable[[], float]) -> float:
    """Return the seconds of a batch behind what is there; ``again``: behind one of its size."""
    past, batch = context.n_past, [max(context.model.bos, 0)] * size
    if again:
        context.decode(batch, outputs="all")
        context.truncate(past)
    start = now()
    context.decode(batch, outputs="all")
    context.logits(0)
    seconds = now() - start
    context.truncate(past)
    return seconds


def _drafted_seconds(context: Context) -> float:
    """Return the seconds of a drafted token; empties the context.

    A draft of two: the first comes behind the two tokens that the last round gave.
    """
    now, token_id = clock(context), max(context.model.bos, 0)
    context.clear()
    start = now()
    context.decode([token_id] * min(2, context.n_ctx))
    context.logits()
    if context.n_ctx > 2:
        context.decode([token_id])
        context.logits()
    seconds = now() - start
    context.clear()
    return seconds / 2


def _read_seconds(context: Context) -> float:
    """Return the seconds of one token among many; empties the context."""
    now, many = clock(context), max(min(_MANY, context.n_ctx, context.n_batch), 1)
    context.clear()
    start = now()
    context.decode([max(context.model.bos, 0)] * many)
    context.logits()
    seconds = now() - start
    context.clear()
    return seconds / many


# -- what is remembered


def remembered(
    header: ModelHeader, context: Context, most: int, *, pairs: bool
) -> dict[int, float]:
    """Return tokens in a batch -> seconds: ``combined`` of the last turns that were measured.

    Where a turn is quick some more are: the machine may have been busy before.
    """
    path = _path(header, context, most, pairs=pairs)
    turns: list[dict[int, float]] = []
    sizes = set(_sizes(context, most, pairs=pairs))
    with suppress(OSError, ValueError, TypeError, AttributeError, OverflowError, RecursionError):
        with open(path, encoding="utf-8") as file:
            read = [{int(size): float(s) for size, s in turn.items()} for turn in json.load(file)]
        if all(0 < seconds < 3600 for turn in read for seconds in turn.values()):
            turns = [turn for turn in read if turn.keys() == sizes]
    if turns and sum(turns[-1].values()) > _QUICK / 3:
        return combined(turns)
    made = measure(context, most, pairs=pairs, turns=2 if turns else _TURNS)
    turns = [*turns, *made][-_REMEMBERED:]
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.{os.getpid()}"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(turns, file)
        os.replace(part, path)
    return combined(turns)


def _path(header: ModelHeader, context: Context, most: int, *, pairs: bool) -> str:
    import hashlib

    from mtkit.base.cache import folder
    from mtkit.llama import library_file

    files = (header.path, library_file(), *(one.path for one in header.adapters))
    stamps = [(os.path.abspath(f), os.stat(f)) for f in files]
    s, load = context.settings, context.model.settings
    key = (
        [(path, found.st_size, found.st_mtime_ns) for path, found in stamps],
        s.threads, s.kv_type, s.flash_attention, s.n_ubatch, most, pairs,
        (load.gpu_layers, load.devices, load.tensor_split, load.repack, load.backends),
        clock(context).__name__, "graph kept, one alone, turns",
    )  # fmt: skip
    name = hashlib.sha256(repr(key).encode()).hexdigest()
    return os.path.join(folder("calibration"), name + ".json")
