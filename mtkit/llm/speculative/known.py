"""What is known of a target and a draft on a machine: costs, and how much is accepted.

Costs are in plain tokens: what a batch takes is held against a token alone of the same moment,
since the least of each by itself are of moments when the machine was not equally busy. Of each the
median of the last times counts. A small file in the cache folder remembers it all, under what costs
depend on: both models' files, threads, cache, devices and the build of llama.cpp.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from statistics import median

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from mtkit.llama import Context
    from mtkit.llm.preflight import ModelHeader

_KEPT = 15
"""Times of each kind that count."""
_DAY = 24 * 3600
"""Seconds after which it is measured anew: the machine may have been busy."""
_FEW = 2
"""Times that say little."""
_MEMORY = 0.99
"""What a round's acceptance counts against the next one's: a hundred are remembered."""
_MOST = 1e4
"""Plain tokens that nothing takes: a file that says so is damaged."""


class Known:
    """Costs in plain tokens, and acceptance.

    Attributes:
        tried: Places where a draft was right so far, or wrong for the first time.
        accepted: Of them, where it was right; older rounds count less.
        free: The same two of what cost nothing, where a lookup is asked before a model.
        checked: Largest batch that was seen to give the bits of single tokens.
        guess: Cost of a drafted token while none was seen: no draft is cheaper.
        changes: How often costs changed.
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
            batches = {int(size): _times(each) for size, each in document["batches"].items()}
            drafted, read = _times(document["drafted"]), _times(document["read"])
            tried, accepted = float(document["tried"]), float(document["accepted"])
            checked = int(document["checked"])
            free, right = map(float, document.get("free", (0, 0)))
            sound = 0 <= accepted <= tried <= _MOST and 0 <= right <= free <= _MOST
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


def _times(values: Sequence[object]) -> list[float]:
    found = [float(value) for value in values]  # type: ignore[arg-type]
    if not all(0 <= value < _MOST for value in found):
        raise ValueError
    return found[-_KEPT:]


def path_of(target: ModelHeader, context: Context, more: Sequence[object]) -> str:
    """Return where it is remembered.

    Args:
        target: Of the model that verifies.
        context: Its context.
        more: What else costs depend on; a path of a file stands for its state, too.
    """
    import hashlib

    from mtkit.base.cache import folder
    from mtkit.llama import library_file

    s, load = context.settings, context.model.settings
    files = (target.path, library_file(), *(one.path for one in target.adapters))
    key = (
        [_state(path) for path in files],
        [_state(one) if isinstance(one, str) else one for one in more],
        s.threads, s.kv_type, s.flash_attention, s.n_ubatch,
        (load.gpu_layers, load.devices, load.tensor_split, load.repack, load.backends), 3,
    )  # fmt: skip
    name = hashlib.sha256(repr(key).encode()).hexdigest()
    return os.path.join(folder("drafting"), name + ".json")


def _state(path: str) -> object:
    try:
        found = os.stat(path)
    except OSError:
        return path
    return os.path.abspath(path), found.st_size, found.st_mtime_ns
