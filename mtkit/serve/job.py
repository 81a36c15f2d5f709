"""Jobs for the slots, the events of a job, and the times of an answer.

Thinking can end after a number of tokens: what closes a reasoning is then written for the model.

Source: llama.cpp, common/reasoning-budget.cpp, for what such a budget does;
tools/server/server-common.cpp (``server_slot_stats``) for the words of the times.
"""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import ResourceError, format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal

    from mtkit.llm.sampling import Sampler
    from mtkit.settings import SamplerSettings
    from mtkit.speculative.verification import Proposal, Verification

    End = Literal["eog", "length", "stop", "grammar"]


_MOST_SIGN_TEXT = 200
"""Characters in which a sign is looked for; none has as many."""


class ThinkingBudget(Record):
    """How long a model may think."""

    tokens: int
    is_open: bool
    opening: str
    closings: tuple[str, ...]
    ids: tuple[int, ...]


class BudgetVerification:
    """Chooses as another does, and ends the reasoning where its tokens are spent."""

    def __init__(
        self,
        inner: Verification,
        sampler: Sampler,
        budget: ThinkingBudget,
        piece: Callable[[int], bytes],
    ) -> None:
        """Begin an answer."""
        self._inner, self._sampler, self._budget, self._piece = inner, sampler, budget, piece
        self._forced: list[int] = []
        self._text, self._spent = "", 0
        self._is_open, self._is_over = budget.is_open, False

    def choose(self, proposal: Proposal, place: int, row: int) -> int:
        """Return the next token: the one that is due, or the one that is chosen."""
        if self._forced:
            token = self._forced.pop(0)
            self._sampler.accept((token,))
            return token
        token = self._inner.choose(proposal, place, row)
        if token >= 0 and not self._is_over:
            self._follow(token)
        return token

    def _follow(self, token: int) -> None:
        budget = self._budget
        self._text = (self._text + self._piece(token).decode("utf-8", "ignore"))[-_MOST_SIGN_TEXT:]
        if not self._is_open:
            self._is_open = bool(budget.opening) and budget.opening in self._text
            start = self._text.lstrip()
            self._is_over = not self._is_open and not budget.opening.startswith(start)
            self._text = "" if self._is_open else self._text
            return
        self._spent += 1
        if any(closing in self._text for closing in budget.closings):
            self._is_over = True
        elif self._spent >= budget.tokens:
            self._forced, self._is_over = list(budget.ids), True


class QueueFull(ResourceError):
    """All slots are taken and the queue is full."""

    def __init__(self, what: str, seconds: int) -> None:
        super().__init__(what, hint=f"try again in {seconds} s")
        self.seconds = seconds


class PromptTooLong(ResourceError):
    """A prompt does not fit a slot."""

    def __init__(self, tokens: int, n_slot: int) -> None:
        super().__init__(
            f"a prompt of {format_count(tokens, 'token')} exceeds the available context size of "
            f"{n_slot}",
            hint="shorten it, or start the server with a higher --ctx or fewer --slots",
        )
        self.tokens, self.n_slot = tokens, n_slot


class ServerClosed(ResourceError):
    """The server is ending."""


class CacheBreak(Record):
    """Where a prompt and what its slot remembered part.

    Attributes:
        cached: The token that the slot remembered there; None where it remembered none.
        prompt: The token that the prompt has there; None where it ends.
    """

    position: int
    cached: int | None
    prompt: int | None


class JobStart(Record):
    """A slot has taken the job."""

    slot: int
    cached: int
    broken: CacheBreak


class JobProgress(Record):
    """How far a prompt is computed."""

    total: int
    cached: int
    processed: int
    seconds: float

    def fields(self) -> dict[str, int]:
        """Return llama-server's ``prompt_progress``."""
        return {
            "total": self.total, "cache": self.cached, "processed": self.processed,
            "time_ms": round(1e3 * self.seconds),
        }  # fmt: skip


class Chances(Record):
    """How probable a token was, before any sampler or behind them all.

    Attributes:
        top: The most probable tokens with theirs; behind the samplers those alone that are left.
    """

    logprob: float
    top: list[tuple[int, float]]


class Piece:
    """One generated token; made for each, so no record.

    Attributes:
        raw: The bytes that it stands for.
        chances: None unless asked for, and of the token that ends an answer.
    """

    __slots__ = ("chances", "id", "raw", "seconds", "text")

    def __init__(
        self, token_id: int, raw: bytes, text: str, chances: Chances | None, seconds: float
    ) -> None:
        self.id, self.raw, self.text, self.chances = token_id, raw, text, chances
        self.seconds = seconds


class JobEnd(Record):
    """The answer is complete.

    Attributes:
        stop: The stop string that ended it; None where none did.
        truncated: The slot was full: the answer ends there, or text before it was forgotten.
        drafting: Figures of what was drafted; None where nothing was to be.
    """

    end: End
    stop: str | None
    text: str
    generated: int
    prompt_seconds: float
    seconds: float
    truncated: bool = False
    drafting: dict[str, float] | None = None


class JobFailure(Record):
    """The answer cannot be given, or not to its end."""

    error: Exception


class Terms(Record):
    """How a prompt is to be answered.

    Attributes:
        limit: Tokens at most; None: as many as fit.
        top: How many of the most probable tokens come with each; None: no probabilities.
        sampled: Probabilities are those behind the samplers, with which the token was drawn.
        speculative: Tokens may be drafted; None: where anything drafts.
        slot: Number of the slot that is to answer; None: any.
        cached: What a slot remembers of the prompt need not be computed again.
        keep: Tokens from the start, BOS left out, that stay where a slot's text is shortened; -1:
            the prompt.
        seconds: After so long the answer ends, once it has a whole line; None: never.
        progress: Events say how far the prompt is computed.
        budget: How long the model may think; None: as long as it wants.
    """

    sampler: SamplerSettings
    limit: int | None = None
    stops: Sequence[str] = ()
    top: int | None = None
    markers: frozenset[int] = frozenset()
    speculative: bool | None = None
    sampled: bool = False
    slot: int | None = None
    cached: bool = True
    keep: int = 0
    seconds: float | None = None
    indent: int = 0
    progress: bool = False
    budget: ThinkingBudget | None = None


class Job:
    """A prompt to be answered.

    Attributes:
        emit: Called in the scheduler's thread with events: ``JobStart``, ``JobProgress`` if asked
            for, ``Piece`` … and at last ``JobEnd`` or ``JobFailure``; must not wait.
        cancelled: Set from any thread, ends it before its next token, without an event.
    """

    def __init__(
        self, ids: Sequence[int], terms: Terms, limit: int, emit: Callable[[Any], None]
    ) -> None:
        self.ids, self.terms, self.limit, self.emit = list(ids), terms, limit, emit
        self.cancelled = False


class Timings:
    """The times of one answer."""

    def __init__(self, prompt: int) -> None:
        self._prompt, self._cached, self._processed = prompt, 0, 0
        self._prompt_seconds = self._seconds = 0.0
        self._drafting: dict[str, float] | None = None
        self.generated = 0

    def add(self, event: JobStart | JobProgress | Piece | JobEnd) -> None:
        """Add an event."""
        if isinstance(event, JobProgress):
            self._processed, self._prompt_seconds = event.processed - event.cached, event.seconds
        elif isinstance(event, JobEnd):
            self._first(event.prompt_seconds)
            self.generated, self._seconds = event.generated, event.seconds
            self._drafting = event.drafting
        elif isinstance(event, JobStart):
            self._cached = event.cached
        else:
            if not self.generated:
                self._first(event.seconds)
            self.generated += 1
            self._seconds = event.seconds - self._prompt_seconds

    def _first(self, seconds: float) -> None:
        self._processed, self._prompt_seconds = self._prompt - self._cached, seconds

    def fields(self) -> dict[str, Any]:
        """Return llama-server's ``timings``; the first token's time is the prompt's."""
        prompt, answer = round(1e3 * self._prompt_seconds, 3), round(1e3 * self._seconds, 3)
        steps = max(self.generated - 1, 0)
        fields: dict[str, Any] = {"cache_n": self._cached}
        for name, count, timed_count, ms in (
            ("prompt", self._processed, self._processed, prompt),
            ("predicted", self.generated, steps, answer),
        ):
            fields |= {
                f"{name}_n": count,
                f"{name}_ms": ms,
                f"{name}_per_token_ms": ms / timed_count if timed_count else 0.0,
                f"{name}_per_second": 1e3 * timed_count / ms if ms > 0 else 0.0,
            }
        if self._drafting:
            fields |= {
                "draft_n": self._drafting["drafted"],
                "draft_n_accepted": self._drafting["accepted"],
                "drafting": self._drafting,
            }
        return fields
