"""Tokens that a grammar chooses, in a thread of their own: a slow one holds up only its own answer.

The scheduler waits for the token as long as others can wait; then it goes on without the slot,
which keeps a copy of its logits, until the token is there. llguidance holds Python's lock for a
short time only: what it does under the lock ends an answer where it takes long (``sampling``).
"""

from __future__ import annotations

import time
from concurrent.futures import wait

TYPE_CHECKING = False
if TYPE_CHECKING:
    from concurrent.futures import Executor, Future

    from mtkit.llm.sampling import Sampler
    from mtkit.llm.speculative.proposal import Proposal


class Late(Exception):
    """A token is not chosen yet."""


class Aside:
    """Chooses the tokens of one answer, as ``Verification`` says.

    Attributes:
        until: When the scheduler goes on, as ``time.monotonic`` counts.
    """

    def __init__(self, sampler: Sampler, executor: Executor) -> None:
        self._sampler, self._executor = sampler, executor
        self._future: Future[int] | None = None
        self.until = 0.0

    def choose(self, proposal: Proposal, place: int, row: int) -> int:  # noqa: ARG002
        """Return what the sampler chooses behind a row, or chose behind that of the last call.

        Raises:
            Late: Not in time; call it again, with any row.
        """
        if self._future is None:
            self._future = self._executor.submit(self._sampler.follow, self._sampler.copied(row))
        if not self.is_ready(max(0.0, self.until - time.monotonic())):
            raise Late
        future, self._future = self._future, None
        return future.result()

    @property
    def is_late(self) -> bool:
        """Whether the token of the last call is still to be fetched."""
        return self._future is not None

    def is_ready(self, seconds: float = 0.0) -> bool:
        """Whether that token is there; waits for it so long."""
        return self._future is not None and bool(wait((self._future,), seconds).done)

    def close(self) -> None:
        """Close the sampler, once it does not choose any more."""
        future, self._future = self._future, None
        if future is None or future.cancel():
            self._sampler.close()
        else:
            future.add_done_callback(lambda _: self._sampler.close())
