"""Pearson's test, and models whose distributions are known exactly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from mtkit.settings import ContextSettings

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

LEAST_EXPECTED = 8.0


def p_value(seen: Mapping[Any, int], expected: Mapping[Any, float]) -> float:
    """Return how likely counts at least as far from a distribution are by chance.

    Outcomes that are expected less than eight times count as one; one that cannot be gives 0.
    """
    if any(key not in expected for key in seen):
        return 0.0
    total = sum(seen.values())
    statistic, cells = 0.0, 0
    rare_seen = rare_expected = 0.0
    for key, chance in expected.items():
        wanted, got = chance * total, seen.get(key, 0)
        if wanted < LEAST_EXPECTED:
            rare_seen, rare_expected = rare_seen + got, rare_expected + wanted
            continue
        statistic += (got - wanted) ** 2 / wanted
        cells += 1
    if rare_expected >= 1:
        statistic += (rare_seen - rare_expected) ** 2 / rare_expected
        cells += 1
    return upper_gamma((cells - 1) / 2, statistic / 2)


def upper_gamma(a: float, x: float) -> float:
    """Return the regularized upper incomplete gamma function (series, or continued fraction)."""
    if x <= 0:
        return 1.0
    front = math.exp(a * math.log(x) - x - math.lgamma(a))
    if x < a + 1:
        term = total = 1 / a
        for n in range(1, 10_000):
            term *= x / (a + n)
            total += term
            if term < total * 1e-15:
                break
        return 1 - front * total
    b, c = x + 1 - a, 1e300
    d = 1 / b
    total = d
    for n in range(1, 10_000):
        factor = n * (a - n)
        b += 2
        d = 1 / (factor * d + b)
        c = b + factor / c
        total *= c * d
        if abs(c * d - 1) < 1e-15:
            break
    return front * total


class TableModel:
    """A model whose next token depends on the last two."""

    def __init__(self, seed: int, n_vocab: int = 7, spread: float = 1.5) -> None:
        random = np.random.default_rng(seed)
        self.n_vocab = n_vocab
        self.logits = random.normal(0, spread, (n_vocab, n_vocab, n_vocab)).astype(np.float32)

    def row(self, ids: Sequence[int]) -> Any:
        """Return the logits behind some ids."""
        before = ids[-2] if len(ids) > 1 else 0
        return self.logits[before, ids[-1]]


class TableContext:
    """What the loop needs of a context, over a table."""

    def __init__(self, table: TableModel, n_ctx: int = 64) -> None:
        self.table, self.n_ctx, self.is_open = table, n_ctx, True
        self.settings = ContextSettings(threads=1)
        self.ids: list[int] = []
        self._rows: list[Any] = []
        self.batches: list[int] = []

    @property
    def n_past(self) -> int:
        """Tokens in the memory."""
        return len(self.ids)

    def decode(self, ids: Sequence[int], *, outputs: str = "last") -> None:
        """Compute tokens."""
        assert outputs in ("all", "last")
        assert len(self.ids) + len(ids) <= self.n_ctx
        self.batches.append(len(ids))
        self._rows = []
        for token_id in ids:
            self.ids.append(token_id)
            self._rows.append(self.table.row(self.ids))

    def step(self, token_id: int) -> None:
        """Compute one token."""
        self.decode([token_id])

    def logits(self, row: int = -1) -> Any:
        """Return a row of the last batch."""
        return self._rows[row]

    def truncate(self, end: int) -> bool:
        """Forget tokens."""
        del self.ids[end:]
        return True


class TableSampler:
    """What the loop needs of a sampler: temperature and top-k."""

    def __init__(
        self,
        context: TableContext,
        temperature: float = 1.0,
        top_k: int = 0,
        random: Any = None,
    ) -> None:
        self._context, self._temperature, self._top_k = context, temperature, top_k
        self._random = random
        self.taken: list[int] = []

    def distribution(self, row: int = -1) -> tuple[Any, Any]:
        """Return ids and logits of what may be chosen."""
        return warped(self._context.logits(row), self._temperature, self._top_k)

    def sample(self, row: int = -1) -> int:
        """Draw an id, and remember it; the most likely one without random numbers."""
        logits = self._context.logits(row)
        if self._random is None:
            return int(logits.argmax())
        found = chances(logits, self._temperature, self._top_k)
        self.taken.append(int(self._random.choice(len(found), p=found)))
        return self.taken[-1]

    def accept(self, ids: Sequence[int]) -> None:
        """Remember what was chosen."""
        self.taken += ids


def warped(logits: Any, temperature: float, top_k: int) -> tuple[Any, Any]:
    """Return ids and logits that temperature and top-k leave, the most likely first."""
    order = np.argsort(-logits, kind="stable")
    order = order[: top_k or len(order)]
    return order, logits[order] / np.float32(temperature)


def chances(logits: Any, temperature: float, top_k: int) -> Any:
    """Return the probabilities of all ids; float64."""
    ids, left = warped(logits, temperature, top_k)
    found = np.zeros(len(logits))
    weights = np.exp(left.astype(np.float64) - left.max())
    found[ids] = weights / weights.sum()
    return found


def joint(
    table: TableModel, prompt: Sequence[int], length: int, temperature: float, top_k: int
) -> dict[tuple[int, ...], float]:
    """Return the probability of every continuation of a length."""
    found: dict[tuple[int, ...], float] = {(): 1.0}
    for _ in range(length):
        longer: dict[tuple[int, ...], float] = {}
        for ids, chance in found.items():
            row = chances(table.row([*prompt, *ids]), temperature, top_k)
            for token_id in np.flatnonzero(row):
                longer[(*ids, int(token_id))] = chance * float(row[token_id])
        found = longer
    return found
