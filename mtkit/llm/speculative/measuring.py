"""Batches that are measured between the plain steps of a text, and compared with them."""

from __future__ import annotations

import time
from collections import deque

from mtkit.errors import UnsupportedError
from mtkit.llm.speculative import calibration
from mtkit.llm.speculative.batches import SIZES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from mtkit.llama import Context
    from mtkit.llm.speculative.policy import Policy


def cut(context: Context, end: int) -> None:
    """Forget a context's tokens from a position on.

    Raises:
        UnsupportedError: Its memory cannot do that.
    """
    if not context.truncate(end):
        raise UnsupportedError("its memory cannot be cut", source=context.model.path)


class Measuring:
    """Measures what a policy wants to know, as soon as there were plain steps enough."""

    def __init__(self, policy: Policy, clock: Callable[[], float], *, checks: bool) -> None:
        """Begin.

        Args:
            policy: Says what to measure, and learns it.
            clock: What to measure with.
            checks: Compare the bits of batches with those of plain steps.
        """
        self._policy, self._clock, self._checks = policy, clock, checks
        # Plain steps in a row, and the logits of the last ones where bits are to be compared.
        self._steps = 0
        self._rows: deque[Any] = deque(maxlen=max(SIZES))

    def forget(self) -> None:
        """Forget all steps: what comes next does not follow them."""
        self._steps = 0
        self._rows.clear()

    def keeps(self) -> bool:
        """Whether the logits of the next plain steps are wanted; else those told are forgotten."""
        keeps = self._checks and self._policy.waits
        if not keeps:
            self._rows.clear()
        return keeps

    def stepped(self, logits: Any) -> None:
        """Count a plain step; ``logits`` are None where ``keeps`` does not want them."""
        self._steps += 1
        if logits is not None:
            self._rows.append(logits)

    def measure(self, context: Context, ids: list[int]) -> float:
        """Measure a batch where that is due; return the seconds it took by the wall, or 0.

        The context is left as it was. Where a bit differs, ``known.checked`` becomes -1.
        """
        policy, clock = self._policy, self._clock
        size = policy.size_to_measure(len(self._rows) if self._checks else self._steps)
        past = context.n_past
        if not size or past + size > context.n_ctx:
            return 0.0
        start, began = time.perf_counter(), clock()
        if self._checks:  # what was just computed one by one, together
            again = ids[past - size : past]
            cut(context, past - size)
            context.decode(again, outputs="all")
            same = all((context.logits(row) == one).all()
                       for row, one in enumerate(list(self._rows)[-size:]))  # fmt: skip
            seconds = clock() - began
            policy.known.checked = max(policy.known.checked, size) if same else -1
            if not same:
                cut(context, past - size)
                for token_id in again:
                    context.step(token_id)
        else:
            seconds = calibration.batch_seconds(context, [ids[-1]] * size, clock)
        policy.measured(size, seconds)
        self.forget()
        return time.perf_counter() - start
