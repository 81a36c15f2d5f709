"""How long an answer takes, in llama-server's words.

Source: llama.cpp, tools/server/server-common.cpp (``server_slot_stats``).
"""

from __future__ import annotations

from mtkit.serve.job import Begun, Done, Progress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from mtkit.serve.job import Piece


class Timings:
    """The times of one answer.

    Attributes:
        generated: Tokens so far.
    """

    def __init__(self, prompt: int) -> None:
        """Begin.

        Args:
            prompt: Tokens of the prompt.
        """
        self._prompt, self._cached, self._processed = prompt, 0, 0
        self._prompt_seconds = self._seconds = 0.0
        self._drafting: dict[str, float] | None = None
        self.generated = 0

    def see(self, told: Begun | Progress | Piece | Done) -> None:
        """Take what a slot told."""
        if isinstance(told, Progress):
            self._processed, self._prompt_seconds = told.processed - told.cached, told.seconds
        elif isinstance(told, Done):
            self._first(told.prompt_seconds)
            self.generated, self._seconds = told.generated, told.seconds
            self._drafting = told.drafting
        elif isinstance(told, Begun):
            self._cached = told.cached
        else:
            if not self.generated:
                self._first(told.seconds)
            self.generated += 1
            self._seconds = told.seconds - self._prompt_seconds

    def _first(self, seconds: float) -> None:
        self._processed, self._prompt_seconds = self._prompt - self._cached, seconds

    def told(self) -> dict[str, Any]:
        """Return them; the first token is none of those whose speed is told: it is the prompt's."""
        prompt, answer = round(1e3 * self._prompt_seconds, 3), round(1e3 * self._seconds, 3)
        steps = max(self.generated - 1, 0)
        found: dict[str, Any] = {"cache_n": self._cached}
        for name, count, steps_of, taken in (
            ("prompt", self._processed, self._processed, prompt),
            ("predicted", self.generated, steps, answer),
        ):
            found |= {
                f"{name}_n": count,
                f"{name}_ms": taken,
                f"{name}_per_token_ms": taken / steps_of if steps_of else 0.0,
                f"{name}_per_second": 1e3 * steps_of / taken if taken > 0 else 0.0,
            }
        if self._drafting:
            found |= {
                "draft_n": self._drafting["drafted"],
                "draft_n_accepted": self._drafting["accepted"],
                "drafting": self._drafting,
            }
        return found
