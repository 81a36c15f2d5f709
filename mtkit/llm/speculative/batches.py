"""Which batches a text has to measure before a policy knows what drafting costs."""

from __future__ import annotations

from mtkit.llm.speculative.promise import could_pay

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llm.speculative.known import Known

SIZES = (4, 8, 16)
"""Tokens in a batch that are measured, in this order: kernels compute four rows at a time."""
_OFTEN_ENOUGH, _SURELY = 2, 3
"""Times that a batch is measured before a draft is given up for it; before all steps of a text
compute as many rows."""


class Batches:
    """Sizes of batches that matter, and what is known of them.

    Attributes:
        width: Rows that a step computes at least.
    """

    def __init__(self, known: Known, most: int, width: int, *, checks: bool) -> None:
        """Begin.

        Args:
            known: What was measured.
            most: Largest number of drafted tokens.
            width: Rows that a step computes at least.
            checks: Only batches whose bits were compared with those of single tokens count.
        """
        self._known, self._most, self._checks, self.width = known, most, checks, width
        sizes = [min(size, most + 1) for size in SIZES]
        self._sizes = list(dict.fromkeys([*[width] * (width > 1), *sizes]))

    @property
    def is_measured(self) -> bool:
        """Whether enough is known to decide anything."""
        return self._has(self._sizes[0])

    @property
    def can_judge(self) -> bool:
        """Whether enough is known to give a draft up."""
        return self.is_measured and self._known.times(self._sizes[0]) >= _OFTEN_ENOUGH

    @property
    def limit(self) -> int:
        """Return the largest number of drafted tokens whose batch is known."""
        rows = max(self._known.sizes)
        return min(self._most, (min(rows, self._known.checked) if self._checks else rows) - 1)

    def next(self) -> int:
        """Return the size to measure next; 0 for none."""
        known, first = self._known, self._sizes[0]
        if self._checks and known.checked < 0:
            return 0
        if known.times(first) < _OFTEN_ENOUGH and not could_pay(known, self._most, self.width):
            return first
        return next((size for size in self._sizes if not self._has(size)), 0)

    def _has(self, size: int) -> bool:
        known, wide = self._known, 1 < size == self.width
        often = known.times(size) >= (_SURELY if wide else 1)
        return often and (not self._checks or known.checked >= size)
