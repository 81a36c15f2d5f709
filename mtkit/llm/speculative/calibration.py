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
    from collections.abc import Mapping

    from mtkit.llama import Context
    from mtkit.llm.preflight import ModelHeader

SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
"""Tokens in a batch that are measured; between them the time is taken to be straight."""
_TURNS = 3
_PAST = 32
_SECONDS = 1.0
"""After which no further turn begins."""
_NEWS = 0.1
"""What the last time counts against all before."""


class Costs:
    """Seconds that the parts of a round take.

    Attributes:
        by_size: Tokens in a batch -> seconds of verifying it, for some sizes.
        draft_seconds: Seconds of one drafted token.
    """

    def __init__(self, by_size: Mapping[int, float], draft_seconds: float) -> None:
        """Begin with what was measured.

        Args:
            by_size: For size 1 at least.
            draft_seconds: Of one token.
        """
        self.by_size = dict(by_size)
        self.draft_seconds = draft_seconds

    def verify(self, size: int) -> float:
        """Return the seconds of a batch."""
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

    def break_even(self, count: int) -> float | None:
        """Return the acceptance at every place from which on drafting so many tokens pays.

        None where it never does, and for a count of 0.
        """
        if not count:
            return None
        wanted = (self.verify(count + 1) + self.draft(count)) / self.verify(1)
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

    def saw(self, drafted: int, draft_seconds: float, verify_seconds: float) -> None:
        """Learn from a round."""
        size = drafted + 1
        before = self.verify(size)
        # One slow round is the machine's affair: it may have had other things to do.
        self.by_size[size] = before + _NEWS * (min(verify_seconds, 2 * before) - before)
        if drafted and self.draft_seconds:
            a_token = min(draft_seconds / drafted, 2 * self.draft_seconds)
            self.draft_seconds += _NEWS * (a_token - self.draft_seconds)


def measure(context: Context, most: int, *, pairs: bool = False) -> dict[int, float]:
    """Return tokens in a batch -> seconds, the least of interleaved turns; empties the context.

    The least, because what takes longer is what else the machine does.

    Args:
        context: Of the target.
        most: Largest batch that will be verified.
        pairs: A token is never computed alone (``exactness``): one costs as much as two.
    """
    token_id = max(context.model.bos, 0)
    past = min(_PAST, context.n_ctx // 2)
    room = min(most, context.n_ctx - past, context.n_batch)
    sizes = sorted({size for size in (*SIZES, room) if size <= room} or {1})
    context.clear()
    context.decode([token_id] * past)
    times: dict[int, list[float]] = {size: [] for size in sizes}
    began = time.perf_counter()
    for turn in range(_TURNS + 1):
        for size in sizes:
            start = time.perf_counter()
            context.decode([token_id] * (max(size, 2) if pairs else size), outputs="all")
            context.logits(0)
            if turn or size == sizes[-1]:  # the first touches memory for the first time
                times[size].append(time.perf_counter() - start)
            context.truncate(past)
        if turn and time.perf_counter() - began > _SECONDS:
            break
    context.clear()
    return {size: min(found) for size, found in times.items()}


def step_seconds(context: Context) -> float:
    """Return the seconds of one token, the least of some; empties the context."""
    found = []
    token_id = max(context.model.bos, 0)
    context.clear()
    for _ in range(min(6, context.n_ctx)):
        start = time.perf_counter()
        context.decode([token_id])
        context.logits()
        found.append(time.perf_counter() - start)
    context.clear()
    return min(found)


# -- what is remembered


def remembered(
    header: ModelHeader, context: Context, most: int, *, pairs: bool
) -> dict[int, float]:
    """Return what ``measure`` gives, from the cache folder where it was measured before."""
    path = _path(header, context, most, pairs=pairs)
    with suppress(OSError, ValueError, TypeError, AttributeError):
        with open(path, encoding="utf-8") as file:
            found = {int(size): float(seconds) for size, seconds in json.load(file).items()}
        if 1 in found and all(0 < seconds < 3600 for seconds in found.values()):
            return found
    found = measure(context, most, pairs=pairs)
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
    )  # fmt: skip
    name = hashlib.sha256(repr(key).encode()).hexdigest()
    return os.path.join(folder("calibration"), name + ".json")
