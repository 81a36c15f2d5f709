"""The sums of an importance matrix while it is made."""

from __future__ import annotations

from mtkit.errors import MtkitError, UnsupportedError, UsageError
from mtkit.gguf.importance import Importance, write_importance

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_ROWS = 64
"""Squared at once: what they take stays in the cache."""


class ColumnSums:
    """Squares of what enters each matrix, added up by column.

    Attributes:
        datasets: Names of the texts.
        chunks: Windows that have entered.
    """

    def __init__(self) -> None:
        import numpy as np

        self.chunks = 0
        self.datasets: list[str] = []
        self._entries: dict[str, tuple[Any, Any]] = {}
        self._scratch = np.empty(0, np.float32)

    def counted(self, size: int) -> int:
        """Return how many windows of that size have entered, by their counts."""
        return max((int(counts.max()) for _, counts in self._entries.values()), default=0) // size

    def add(self, other: Importance, path: str) -> None:
        """Add an importance matrix that was made before.

        Raises:
            UsageError: It is of another model.
        """
        for name, (sums, counts) in other.entries.items():
            try:
                own, own_counts = self._entry(name, *sums.shape)
            except MtkitError as error:
                raise error.located(path) from None
            own += sums
            own_counts += counts
        self.datasets += other.datasets

    def take(self, name: str, axes: tuple[int, int], entering: Any, chosen: Any) -> None:
        """Add what enters a matrix; as ``Products`` shows it.

        Raises:
            UsageError: What was added before is of another model.
        """
        import numpy as np

        width = entering.shape[-1]
        if chosen is None:
            outer, inner = axes
            sums, counts = self._entry(name, 1, outer * inner * width)
            rows = sums.reshape(outer, inner, width)
            for at in np.ndindex(entering.shape[:2]):
                self._add(rows[at[0] % outer, at[1] % inner], entering[at])
            counts += entering[..., 0].size // (outer * inner)
            return
        sums, counts = self._entry(name, axes[1], width)
        tokens = len(chosen)
        # The first choices of all tokens come before the second ones, as there.
        experts = chosen.T.ravel()
        for expert in np.unique(experts):
            choice, token = divmod(np.flatnonzero(experts == expert), tokens)
            self._add(sums[expert], entering[0, token, choice % entering.shape[2]])
            counts[expert] += len(token)

    def _entry(self, name: str, experts: int, width: int) -> tuple[Any, Any]:
        """Return the sums and counts of a tensor; one count stands for all experts alike."""
        import numpy as np

        found = self._entries.get(name)
        if found is None:
            found = np.zeros((experts, width), np.float32), np.zeros(experts, np.int64)
        sums, counts = found
        if sums.shape != (experts, width):
            if sums.size != experts * width or (counts != counts[0]).any():
                what = f"has {sums.shape[1]} columns in the matrix to add to, {width} in this model"
                raise UsageError(what, field=name, hint="use an --in-file of the same model")
            found = sums.reshape(experts, width), np.resize(counts, experts)
        self._entries[name] = found
        return found

    def _add(self, sums: Any, rows: Any) -> None:
        """Add the squares of rows, one after the other: in 32 bits the order counts.

        Source: collect_imatrix of tools/imatrix/imatrix.cpp of llama.cpp.
        """
        import numpy as np

        width = len(sums)
        if self._scratch.size < (_ROWS + 1) * width:
            self._scratch = np.empty((_ROWS + 1) * width, np.float32)
        for at in range(0, len(rows), _ROWS):
            part = rows[at : at + _ROWS]
            room = self._scratch[: (len(part) + 1) * width].reshape(-1, width)
            room[0] = sums
            np.multiply(part, part, out=room[1:])
            np.add.reduce(room, axis=0, out=sums)

    def write(self, path: str, size: int, *, force: bool) -> Importance:
        """Write the matrix; it appears whole or not at all.

        Raises:
            UnsupportedError: Something is no number.
        """
        import numpy as np

        for name, (sums, _) in self._entries.items():
            if not np.isfinite(sums).all():
                what = "the model computes values that are not finite numbers"
                raise UnsupportedError(what, field=name, source=path)
        made = Importance(self._entries, tuple(self.datasets), self.chunks, size)
        write_importance(path, made, force=force)
        return made
