"""What drafting costs on a machine, and how much is accepted: measured, and remembered in a file.

Costs are in plain tokens: what a batch takes is held against a token alone of the same moment,
since the least of each by itself are of moments when the machine was not equally busy. Of each the
median of the last times counts. A small file in the cache folder remembers it all, under what costs
depend on: both models' files, threads, cache, devices and the build of llama.cpp.

``measure_batches`` and ``measure_draft`` measure where there is no text to measure in. How long a
batch takes depends on weight type, kernels, cores and memory: between almost nothing and as many
times longer as a batch has tokens.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from statistics import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.llama import Context
    from mtkit.llm.header import ModelHeader


BATCH_SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
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


def measure_batches(context: Context, sizes: Sequence[int], known: Costs) -> float:
    """Learn what batches cost; return the seconds of a token alone. Empties the context.

    Args:
        sizes: Tokens in a batch; those that do not fit are left out.
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


def measure_draft(context: Context, plain: float, known: Costs) -> None:
    """Learn what drafting and reading cost; empties the draft's context."""
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


_KEPT = 15
"""Times of each kind that count."""
_DAY = 24 * 3600
"""Seconds after which it is measured anew: the machine may have been busy."""
_FEW = 2
"""Times that say little."""
_MEMORY = 0.99
"""What a round's acceptance counts against the next one's: a hundred are remembered."""
_MOST_TOKENS = 1e4
"""Plain tokens that nothing takes: a file that says so is damaged."""


class Costs:
    """Costs in plain tokens, and acceptance.

    Attributes:
        tried: Places where a draft was right so far, or wrong for the first time.
        accepted: Of them, where it was right; older rounds count less.
        free: The same two of what cost nothing, where a lookup is asked before a model.
        checked: Largest batch that was seen to give the bits of single tokens.
        guess: Cost of a drafted token while none was seen: no draft is cheaper.
    """

    def __init__(self, path: str | None = None) -> None:
        """Begin with what a file remembers, with nothing where there is none."""
        self._path, self._told = path, ""
        self._batches: dict[int, list[float]] = {}
        self._drafted: list[float] = []
        self._read: list[float] = []
        self.tried = self.accepted = self.guess = 0.0
        self.free = 0.0, 0.0
        self.checked = self.changes = 0
        self._table: dict[int, float] = {1: 1.0}
        if path is not None:
            with (
                suppress(OSError, ValueError, RecursionError),
                open(path, encoding="utf-8") as file,
            ):
                if time.time() - os.fstat(file.fileno()).st_mtime < _DAY:
                    self._told = file.read()
                    self.take(json.loads(self._told))

    def take(self, document: Any) -> None:
        """Take what ``document`` gave; nothing where that is damaged."""
        with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
            batches = {int(size): _parse_times(each) for size, each in document["batches"].items()}
            drafted, read = _parse_times(document["drafted"]), _parse_times(document["read"])
            tried, accepted = float(document["tried"]), float(document["accepted"])
            checked = int(document["checked"])
            free, right = map(float, document.get("free", (0, 0)))
            sound = 0 <= accepted <= tried <= _MOST_TOKENS and 0 <= right <= free <= _MOST_TOKENS
            if not sound or any(size < 2 for size in batches):
                return
            self.free = free, right
            self._batches, self._drafted, self._read = batches, drafted, read
            self.tried, self.accepted, self.checked = tried, accepted, checked
            self._sum_up()

    def document(self) -> dict[str, object]:
        """Return everything for JSON."""
        return {
            "batches": {str(size): each for size, each in sorted(self._batches.items())},
            "drafted": self._drafted, "read": self._read,
            "tried": self.tried, "accepted": self.accepted, "free": list(self.free),
            "checked": self.checked,
        }  # fmt: skip

    def save(self) -> None:
        """Remember it, where it has a file and that can be written."""
        told = json.dumps(self.document())
        if self._path is None or told == self._told:
            return
        with suppress(OSError):
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            part = f"{self._path}.{os.getpid()}"
            with open(part, "w", encoding="utf-8") as file:
                file.write(told)
            os.replace(part, self._path)
            self._told = told

    @property
    def sizes(self) -> Mapping[int, float]:
        """Return tokens in a batch -> cost, as far as it was measured; 1 -> 1 always."""
        return self._table

    @property
    def has_draft(self) -> bool:
        """Whether drafted tokens were timed."""
        return bool(self._drafted)

    def times(self, size: int) -> int:
        """Return how often a batch was measured, as far as that is remembered."""
        return len(self._batches.get(size, ()))

    def verify(self, size: int) -> float:
        """Return the cost of a batch: straight between those known, beyond in proportion."""
        table = self._table
        if size in table:
            return table[size]
        below = max(known for known in table if known < size)
        above = min((known for known in table if known > size), default=0)
        if not above:
            return table[below] * size / below
        part = (size - below) / (above - below)
        return table[below] * (1 - part) + table[above] * part

    def draft(self, count: int, *, free: bool = False) -> float:
        """Return the cost of drafting so many tokens."""
        if free:
            return 0.0
        return count * (sum(self._drafted) / len(self._drafted) if self._drafted else self.guess)

    def reading(self, count: int) -> float:
        """Return the cost of letting the draft read so many tokens."""
        return count * (median(self._read) if self._read else self.guess / 4)

    def saw_batch(self, size: int, cost: float) -> None:
        """Learn what a batch took."""
        self._batches.setdefault(size, []).append(round(cost, 4))
        del self._batches[size][:-_KEPT]
        self._sum_up()

    def saw_draft(self, count: int, cost: float) -> None:
        """Learn what drafting so many tokens took; 0 where a text drafted them."""
        self._drafted = [*self._drafted, round(cost / count, 4)][-_KEPT:]
        self.changes += 1

    def saw_reading(self, count: int, cost: float) -> None:
        """Learn what reading so many tokens took."""
        self._read = [*self._read, round(cost / count, 4)][-_KEPT:]

    def saw_round(self, drafted: int, accepted: int, *, free: bool = False) -> None:
        """Learn how much of a proposal was accepted."""
        tried, right = self.free if free else (self.tried, self.accepted)
        tried = _MEMORY * tried + min(accepted + 1, drafted)
        right = _MEMORY * right + accepted
        if free:
            self.free = tried, right
        else:
            self.tried, self.accepted = tried, right

    def _sum_up(self) -> None:
        self.changes += 1
        # Of one or two the least: what takes longer may be the first of its kind, or bad luck.
        self._table = {1: 1.0, **{
            size: median(each) if len(each) > _FEW else min(each)
            for size, each in self._batches.items()
        }}  # fmt: skip


def _parse_times(values: Sequence[object]) -> list[float]:
    found = [float(value) for value in values]  # type: ignore[arg-type]
    if not all(0 <= value < _MOST_TOKENS for value in found):
        raise ValueError
    return found[-_KEPT:]


def costs_path(target: ModelHeader, context: Context, more: Sequence[object]) -> str:
    """Return where it is remembered.

    Args:
        more: What else costs depend on; a path of a file stands for its state, too.
    """
    import hashlib

    from mtkit.base.process import cache_folder
    from mtkit.llama import library_file

    s, load = context.settings, context.model.settings
    files = (target.path, library_file(), *(one.path for one in target.adapters))
    key = (
        [_file_state(path) for path in files],
        [_file_state(one) if isinstance(one, str) else one for one in more],
        s.threads, s.kv_type, s.flash_attention, s.n_ubatch,
        (load.gpu_layers, load.devices, load.tensor_split, load.repack, load.backends), 3,
    )  # fmt: skip
    name = hashlib.sha256(repr(key).encode()).hexdigest()
    return os.path.join(cache_folder("drafting"), name + ".json")


def _file_state(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return path
    return os.path.abspath(path), found.st_size, found.st_mtime_ns
