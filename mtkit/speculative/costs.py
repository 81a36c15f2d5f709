"""The costs of drafting on a machine, and acceptance so far: measured, and saved in a file.

Costs are in plain tokens: the time of a batch is divided by that of a token alone at the same
moment, since the shortest times of each come from moments when the machine was not equally busy.
The median of the last times counts. A file in the cache folder keeps them, named by what they
depend on: both models' files, threads, cache, devices and the build of llama.cpp.

``measure_batches`` and ``measure_draft`` measure outside a text. A batch may take hardly longer
than a token, or as many times longer as it has tokens, depending on weight type, kernels, cores and
memory.
"""

from __future__ import annotations

import json
import math
import os
import time
from contextlib import suppress
from statistics import median

from mtkit.base.files import write_files
from mtkit.errors import MtkitError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any

    from mtkit.llama import Context
    from mtkit.llm.header import ModelHeader


BATCH_SIZES = (1, 2, 3, 4, 5, 6, 8, 9, 12, 16)
"""Tokens in a batch, for a table of costs."""
_TURNS, _SECONDS = 5, 1.0
"""Times that each is measured at most; seconds after which no further turn begins, by default."""
_PAST, _MANY = 32, 32
"""Tokens in the cache before a batch; tokens that a draft reads at once."""


def choose_clock(context: Context) -> Callable[[], float]:
    """Return the clock for a context's work: CPU time for one thread, else wall-clock time.

    Other programs do not add to CPU time. But several threads wait for each other, and a GPU's work
    is not in it.
    """
    alone = context.settings.threads == 1 and not context.model.settings.gpu_layers
    return time.process_time if alone else time.perf_counter


def measure_batches(
    context: Context, sizes: Sequence[int], costs: Costs, seconds: float = _SECONDS
) -> float:
    """Learn what batches cost; return the seconds of a token alone. Empties the context.

    Sizes that do not fit are left out. After so many ``seconds``, no further turn begins.
    """
    now, bos = choose_clock(context), max(context.model.bos, 0)
    past = min(_PAST, context.n_ctx // 2)
    room = min(context.n_ctx - past, context.n_batch)
    plain, began = [], time.perf_counter()
    context.clear()
    context.decode([bos] * past)
    for turn in range(_TURNS + 1):
        # Two in a row, as in plain decoding: llama.cpp then keeps the graph.
        batch_seconds(context, [bos], now)
        alone = batch_seconds(context, [bos], now)
        for size in sizes:
            if 1 < size <= room:
                elapsed = batch_seconds(context, [bos] * size, now)
                if turn:  # the first touches memory for the first time
                    costs.saw_batch(size, elapsed / alone)
        plain += [alone] * bool(turn)
        if plain and time.perf_counter() - began > seconds:
            break
    context.clear()
    return min(plain)


def batch_seconds(context: Context, batch: Sequence[int], now: Callable[[], float]) -> float:
    """Return the seconds of a batch; the context is left as it was."""
    past, start = context.n_past, now()
    context.decode(batch, outputs="all")
    context.logits(0)
    seconds = now() - start
    context.truncate(past)
    return seconds


def measure_draft(context: Context, plain: float, costs: Costs) -> None:
    """Learn what drafting and reading cost; empties the draft's context."""
    now, bos = choose_clock(context), max(context.model.bos, 0)
    many = max(min(_MANY, context.n_ctx - 1, context.n_batch), 1)
    for turn in range(_TURNS):
        context.clear()
        reading = batch_seconds(context, [bos] * many, now)
        # A draft of two: before the first, it reads the two tokens of the last round.
        drafting = [batch_seconds(context, [bos] * size, now) for size in (min(2, many), 1)]
        if turn:
            costs.saw_reading(many, reading / plain)
            costs.saw_draft(2, sum(drafting) / plain)
    context.clear()


_KEPT = 15
"""Times of each kind that count."""
_DAY = 24 * 3600
"""Seconds after which to measure anew: the machine may have been busy."""
_FEW = 2
"""Up to so many times the least counts, not the median."""
_MEMORY = 0.99
"""Weight of a round's acceptance against the next one's: a hundred are remembered."""
_MOST_TOKENS = 1e4
"""Plain tokens that nothing costs: a file that says so is damaged."""


class Costs:
    """Costs in plain tokens, and acceptance.

    Attributes:
        tried: Drafted tokens up to the first wrong one of each round; older rounds count less.
        free: The same two of a lookup that drafts before a model.
        checked: Largest batch that gave the bits of single tokens; -1 if one did not.
        guess: Least cost of a drafted token, while none is measured.
        load: Cost of loading the draft model; 0 if unknown.
    """

    def __init__(self, path: str | None = None) -> None:
        """Read a file of costs, if there is one of today."""
        self._path, self._saved_text = path, ""
        self._batches: dict[int, list[float]] = {}
        self._drafted: list[float] = []
        self._read: list[float] = []
        self.tried = self.accepted = self.guess = self.load = 0.0
        self.free = 0.0, 0.0
        self.checked = self.changes = 0
        self._table: dict[int, float] = {1: 1.0}
        if path is not None:
            with (
                suppress(OSError, ValueError, RecursionError),
                open(path, encoding="utf-8") as file,
            ):
                if abs(time.time() - os.fstat(file.fileno()).st_mtime) < _DAY:
                    self._saved_text = file.read()
                    self.take(json.loads(self._saved_text))

    def take(self, document: Any) -> None:
        """Take the values of a ``document()``; a damaged one changes nothing."""
        with suppress(KeyError, TypeError, ValueError, AttributeError, OverflowError):
            batches = {int(n): _parse_times(times) for n, times in document["batches"].items()}
            drafted, read = _parse_times(document["drafted"]), _parse_times(document["read"])
            tried, accepted = float(document["tried"]), float(document["accepted"])
            checked, load = int(document["checked"]), float(document.get("load", 0))
            free, right = map(float, document.get("free", (0, 0)))
            sound = 0 <= accepted <= tried <= _MOST_TOKENS and 0 <= right <= free <= _MOST_TOKENS
            if not sound or not 0 <= load < math.inf or any(size < 2 for size in batches):
                return
            self.free, self.load = (free, right), load
            self._batches, self._drafted, self._read = batches, drafted, read
            self.tried, self.accepted, self.checked = tried, accepted, checked
            self._sum_up()

    def document(self) -> dict[str, object]:
        """Return all values for JSON."""
        return {
            "batches": {str(size): times for size, times in sorted(self._batches.items())},
            "drafted": self._drafted, "read": self._read,
            "tried": self.tried, "accepted": self.accepted, "free": list(self.free),
            "checked": self.checked, "load": self.load,
        }  # fmt: skip

    def save(self) -> None:
        """Write the file, if there is one and it can be written."""
        text = json.dumps(self.document())
        if self._path is None or text == self._saved_text:
            return
        with suppress(OSError, MtkitError):
            os.makedirs(os.path.dirname(self._path), exist_ok=True)
            write_files({self._path: text.encode()}, force=True)
            self._saved_text = text

    @property
    def sizes(self) -> Mapping[int, float]:
        """Tokens in a batch -> cost, of the batches measured; 1 -> 1 always."""
        return self._table

    @property
    def has_draft(self) -> bool:
        """Whether drafted tokens were timed."""
        return bool(self._drafted)

    def times(self, size: int) -> int:
        """Return how often a batch was measured, of the last times that are kept."""
        return len(self._batches.get(size, ()))

    def verify(self, size: int) -> float:
        """Return the cost of a batch: interpolated between sizes, proportional beyond the last."""
        table = self._table
        if size in table:
            return table[size]
        below = max(measured for measured in table if measured < size)
        above = min((measured for measured in table if measured > size), default=0)
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
        """Return the cost of reading so many tokens with the draft."""
        return count * (median(self._read) if self._read else self.guess / 4)

    def saw_batch(self, size: int, cost: float) -> None:
        """Learn the cost of a batch."""
        self._batches.setdefault(size, []).append(round(cost, 4))
        del self._batches[size][:-_KEPT]
        self._sum_up()

    def saw_draft(self, count: int, cost: float) -> None:
        """Learn the cost of drafting so many tokens."""
        self._drafted = [*self._drafted, round(cost / count, 4)][-_KEPT:]
        self.changes += 1

    def saw_reading(self, count: int, cost: float) -> None:
        """Learn the cost of reading so many tokens."""
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
        # Of one or two the least: the longer one may be a first run, or bad luck.
        self._table = {1: 1.0, **{
            size: median(times) if len(times) > _FEW else min(times)
            for size, times in self._batches.items()
        }}  # fmt: skip


def _parse_times(values: Sequence[object]) -> list[float]:
    times = [float(value) for value in values]  # type: ignore[arg-type]
    if not all(0 <= value < _MOST_TOKENS for value in times):
        raise ValueError
    return times[-_KEPT:]


def costs_path(target: ModelHeader, context: Context, more: Sequence[object]) -> str:
    """Return the path of the file of costs."""
    import hashlib

    from mtkit.base.process import cache_folder
    from mtkit.llama import library_file

    s, load = context.settings, context.model.settings
    files = (target.path, library_file(), *(adapter.path for adapter in target.adapters))
    key = (
        [_file_state(path) for path in files],
        [_file_state(value) if isinstance(value, str) else value for value in more],
        s.threads, s.kv_type, s.flash_attention, s.n_ubatch,
        (load.gpu_layers, load.devices, load.tensor_split, load.repack, load.backends), 3,
    )  # fmt: skip
    name = hashlib.sha256(repr(key).encode()).hexdigest()
    return os.path.join(cache_folder("drafting"), name + ".json")


def _file_state(path: str) -> object:
    try:
        status = os.stat(path)
    except OSError:
        return path
    return os.path.abspath(path), status.st_size, status.st_mtime_ns
