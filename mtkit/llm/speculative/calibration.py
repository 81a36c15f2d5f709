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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mtkit.llama import Context
    from mtkit.llm.preflight import ModelHeader

SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
"""Tokens in a batch that are measured; between them the time is taken to be straight."""
_TURNS = 8
_PAST = 32
_MANY = 32
"""Tokens that a draft reads at once."""
_SECONDS = 1.0
"""After which no further turn begins."""
_QUICK = 0.1
"""Seconds that measuring once more may take where it was done before."""
_NEWS = 0.1
"""What the last time counts against all before."""


class Costs:
    """Seconds that the parts of a round take.

    Attributes:
        by_size: Tokens in a batch -> seconds of computing it, for some sizes.
        draft_seconds: Seconds of one drafted token.
        read_seconds: Seconds that the draft takes to read a token of the text.
        pairs: A round never computes a token alone (``exactness``).
        mixed: Some of what is drafted costs nothing: a lookup is asked before a model.
    """

    def __init__(
        self,
        by_size: Mapping[int, float],
        draft_seconds: float,
        read_seconds: float = 0.0,
        *,
        pairs: bool = False,
        mixed: bool = False,
    ) -> None:
        """Begin with what was measured.

        Args:
            by_size: For size 1 at least.
            draft_seconds: Of one token.
            read_seconds: Of one token among many.
            pairs: As the attribute.
            mixed: As the attribute.
        """
        self.by_size = dict(by_size)
        self.draft_seconds, self.read_seconds = draft_seconds, read_seconds
        self.pairs, self.mixed = pairs, mixed

    @property
    def plain(self) -> float:
        """Return the seconds of a token without drafting."""
        return self.by_size[1]

    @property
    def step(self) -> float:
        """Return how many times as long a round without a draft takes as plain decoding."""
        return self.verify(1) / self.plain

    def verify(self, size: int) -> float:
        """Return the seconds of a round's batch."""
        size = max(size, 1 + self.pairs)
        known = self.by_size.get(size)
        if known is not None:
            return known
        below = max(k for k in self.by_size if k < size)
        above = min((k for k in self.by_size if k > size), default=0)
        if not above:
            return self.by_size[below] * size / below
        part = (size - below) / (above - below)
        return self.by_size[below] * (1 - part) + self.by_size[above] * part

    def draft(self, count: int) -> float:
        """Return the seconds of drafting so many tokens."""
        return count * self.draft_seconds

    def break_even(self, count: int, other: float | None = None) -> float | None:
        """Return the acceptance at every place from which on drafting so many tokens pays.

        None where it never does, and for a count of 0.

        Args:
            count: Tokens drafted a round.
            other: Seconds of a token otherwise; None: of plain decoding.
        """
        if not count:
            return None
        wanted = (self.verify(count + 1) + self.draft(count)) / (other or self.plain)
        low, high = 0.0, 1.0
        if wanted >= count + 1:
            return None
        for _ in range(40):
            middle = (low + high) / 2
            if sum(middle**n for n in range(count + 1)) < wanted:
                low = middle
            else:
                high = middle
        return high

    def scale(self, factor: float) -> None:
        """Let everything take so many times longer."""
        self.by_size = {size: factor * seconds for size, seconds in self.by_size.items()}
        self.draft_seconds *= factor
        self.read_seconds *= factor

    def saw(self, drafted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Learn from a round.

        A plain one says how fast the machine is now: it counts for every size and for the draft.
        """
        size = max(drafted + 1, 1 + self.pairs)
        before = self.verify(size)
        # One slow round is the machine's affair: it may have had other things to do.
        change = _NEWS * (min(verify_seconds / before, 2) - 1)
        if not drafted:
            self.scale(1 + change)
            return
        self.by_size[size] = before * (1 + change)
        if self.draft_seconds:
            a_token = min(draft_seconds / drafted, 2 * self.draft_seconds)
            self.draft_seconds += _NEWS * (a_token - self.draft_seconds)


def clock(context: Context) -> Callable[[], float]:
    """Return what to measure a context's work with: of one thread, the time that it was running.

    What else the machine does lengthens everything by the wall clock. Several threads wait for
    each other, and a processor's time is not that of a graphics processor.
    """
    alone = context.settings.threads == 1 and not context.model.settings.gpu_layers
    return time.process_time if alone else time.perf_counter


def measure(
    context: Context, most: int, *, pairs: bool = False, turns: int = _TURNS
) -> dict[int, float]:
    """Return tokens in a batch -> seconds, the least of interleaved turns; empties the context.

    The least, because what takes longer is what else the machine does. A token alone comes behind
    another one alone, as in plain decoding: llama.cpp then keeps the graph that it computes. It
    makes one anew where the size of a batch changes, as it does between rounds.

    Args:
        context: Of the target.
        most: Largest batch that will be verified.
        pairs: A round without a draft computes two tokens (``exactness``), like the one before.
        turns: How often each size is measured, at most.
    """
    token_id = max(context.model.bos, 0)
    past = min(_PAST, context.n_ctx // 2)
    room = min(max(most, 1 + pairs), context.n_ctx - past, context.n_batch)
    sizes = sorted({size for size in (*SIZES, room) if size <= room} or {1})
    context.clear()
    context.decode([token_id] * past)
    times: dict[int, list[float]] = {size: [] for size in sizes}
    now, began = clock(context), time.perf_counter()
    for turn in range(turns + 1):
        for size in sizes:
            batch = [token_id] * size
            if size <= 1 + pairs:
                context.decode(batch, outputs="all")
                context.truncate(past)
            start = now()
            context.decode(batch, outputs="all")
            context.logits(0)
            if turn or size == sizes[-1]:  # the first touches memory for the first time
                times[size].append(now() - start)
            context.truncate(past)
        if turn and time.perf_counter() - began > _SECONDS:
            break
    context.clear()
    return {size: min(found) for size, found in times.items()}


def step_seconds(context: Context) -> float:
    """Return the seconds of a drafted token, the least of some; empties the context.

    A draft of two: the first comes behind the two tokens that the last round gave.
    """
    now, token_id, found = clock(context), max(context.model.bos, 0), []
    context.clear()
    for _ in range(4):
        start = now()
        context.decode([token_id] * min(2, context.n_ctx))
        context.logits()
        if context.n_ctx > 2:
            context.decode([token_id])
            context.logits()
        found.append((now() - start) / 2)
        context.clear()
    return min(found)


def read_seconds(context: Context) -> float:
    """Return the seconds of one token among many, the least of some; empties the context."""
    now, token_id, found = clock(context), max(context.model.bos, 0), []
    many = max(min(_MANY, context.n_ctx, context.n_batch), 1)
    for _ in range(3):
        context.clear()
        start = now()
        context.decode([token_id] * many)
        context.logits()
        found.append((now() - start) / many)
    context.clear()
    return min(found)


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
    drafting = (step_seconds(draft), read_seconds(draft)) if draft is not None else (0.0, 0.0)
    costs = Costs(by_size, *drafting, pairs=pairs, mixed=mixed)
    factor = measure(target, 1, turns=3)[1] / costs.plain
    costs.by_size = {size: factor * seconds for size, seconds in by_size.items()}
    return costs


# -- what is remembered


def remembered(
    header: ModelHeader, context: Context, most: int, *, pairs: bool
) -> dict[int, float]:
    """Return what ``measure`` gives, the least of all times that it was done for this model.

    Where that is quick it is done again: the machine may have been busy before.
    """
    path = _path(header, context, most, pairs=pairs)
    before: dict[int, float] = {}
    with suppress(OSError, ValueError, TypeError, AttributeError):
        with open(path, encoding="utf-8") as file:
            read = {int(size): float(seconds) for size, seconds in json.load(file).items()}
        if 1 in read and all(0 < seconds < 3600 for seconds in read.values()):
            before = read
    if sum(before.values()) > _QUICK / 3:
        return before
    found = measure(context, most, pairs=pairs, turns=2 if before else _TURNS)
    found = {size: min(seconds, before.get(size, seconds)) for size, seconds in found.items()}
    with suppress(OSError):
        os.makedirs(os.path.dirname(path), exist_ok=True)
        part = f"{path}.{os.getpid()}"
        with open(part, "w", encoding="utf-8") as file:
            json.dump(found, file)
        os.replace(part, path)
    return found


def _path(header: ModelHeader, context: Context, most: int, *, pairs: bool) -> str:
    import hashlib

    from mtkit.base.cache import folder
    from mtkit.llama import library_file

    stamps = [(os.path.abspath(f), os.stat(f)) for f in (header.path, library_file())]
    s = context.settings
    key = (
        [(path, found.st_size, found.st_mtime_ns) for path, found in stamps],
        s.threads, s.kv_type, s.flash_attention, s.n_ubatch, most, pairs,
        clock(context).__name__, "graph kept, one alone, no looks",
    )  # fmt: skip
    name = hashlib.sha256(repr(key).encode()).hexdigest()
    return os.path.join(folder("calibration"), name + ".json")
