"""What a slot has to do, and what it tells while it does it."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import ResourceError, counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal

    from mtkit.serve.thinking_budget import Budget
    from mtkit.settings import SamplerSettings

    End = Literal["eog", "length", "stop", "grammar"]


class Busy(ResourceError):
    """All slots are taken and the queue is full.

    Attributes:
        seconds: When it is worth trying again.
    """

    def __init__(self, what: str, seconds: int) -> None:
        super().__init__(what, hint=f"try again in {seconds} s")
        self.seconds = seconds


class TooLong(ResourceError):
    """A prompt does not fit a slot.

    Attributes:
        tokens: That it has.
        n_slot: That a slot holds.
    """

    def __init__(self, tokens: int, n_slot: int) -> None:
        super().__init__(
            f"a prompt of {counted(tokens, 'token')} exceeds the available context size of "
            f"{n_slot}",
            hint="shorten it, or start the server with a higher --ctx or fewer --slots",
        )
        self.tokens, self.n_slot = tokens, n_slot


class Closed(ResourceError):
    """The server is ending."""


class Broken(Record):
    """Where a prompt and what its slot remembered part.

    Attributes:
        position: Of the first token that differs.
        cached: The token that the slot remembered there; None where it remembered none.
        prompt: The token that the prompt has there; None where it ends.
    """

    position: int
    cached: int | None
    prompt: int | None


class Begun(Record):
    """A slot has taken the job.

    Attributes:
        slot: Which.
        cached: Tokens of the prompt that need not be computed.
        broken: Why not more.
    """

    slot: int
    cached: int
    broken: Broken


class Progress(Record):
    """How far a prompt is computed.

    Attributes:
        total: Tokens of the prompt.
        cached: Tokens that need not be computed.
        processed: Tokens that are there, with those.
        seconds: Since the job's begin.
    """

    total: int
    cached: int
    processed: int
    seconds: float

    def shown(self) -> dict[str, int]:
        """Return it as llama-server's ``prompt_progress``."""
        return {
            "total": self.total, "cache": self.cached, "processed": self.processed,
            "time_ms": round(1e3 * self.seconds),
        }  # fmt: skip


class Chances(Record):
    """How probable a token was, before any sampler or behind them all.

    Attributes:
        logprob: Natural logarithm of its probability.
        top: The most probable tokens with theirs; behind the samplers those alone that are left.
    """

    logprob: float
    top: list[tuple[int, float]]


class Piece:
    """One generated token; made for each, so no record.

    Attributes:
        id: Its id.
        raw: The bytes that it stands for.
        text: What of the text is settled since the token before.
        chances: None unless asked for, and of the token that ends an answer.
        seconds: From the job's begin to it.
    """

    __slots__ = ("chances", "id", "raw", "seconds", "text")

    def __init__(
        self, token_id: int, raw: bytes, text: str, chances: Chances | None, seconds: float
    ) -> None:
        self.id, self.raw, self.text, self.chances = token_id, raw, text, chances
        self.seconds = seconds


class Done(Record):
    """The answer is complete.

    Attributes:
        end: Why.
        stop: The stop string that ended it; None where none did.
        text: Text that was held back until now.
        generated: Tokens of the answer.
        prompt_seconds: From the job's begin to its first token.
        seconds: From its first token to the last.
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


class Failed(Record):
    """The answer cannot be given, or not to its end."""

    error: Exception


class Terms(Record):
    """How a prompt is to be answered.

    Attributes:
        sampler: How tokens are chosen.
        limit: Tokens at most; None: as many as fit.
        stops: Strings that end the answer.
        top: How many of the most probable tokens are told with each; None: no probabilities.
        sampled: Probabilities are those behind the samplers, with which the token was drawn.
        shown: Control tokens that are text of the answer.
        speculative: Tokens may be drafted; None: where anything drafts.
        slot: Number of the slot that is to answer; None: any.
        cached: What a slot remembers of the prompt need not be computed again.
        keep: Tokens from the start, BOS left out, that stay where a slot's text is shortened; -1:
            the prompt.
        seconds: After so long the answer ends, once it has a whole line; None: never.
        indent: It ends before a line that is indented less.
        progress: ``Progress`` is told while the prompt is computed.
        budget: How long the model may think; None: as long as it wants.
    """

    sampler: SamplerSettings
    limit: int | None = None
    stops: Sequence[str] = ()
    top: int | None = None
    shown: frozenset[int] = frozenset()
    speculative: bool | None = None
    sampled: bool = False
    slot: int | None = None
    cached: bool = True
    keep: int = 0
    seconds: float | None = None
    indent: int = 0
    progress: bool = False
    budget: Budget | None = None


class Job:
    """A prompt to be answered.

    Attributes:
        ids: The prompt.
        terms: How.
        limit: Tokens at most.
        emit: Called in the scheduler's thread with ``Begun``, ``Progress`` if asked for, ``Piece``
            … and at last ``Done`` or ``Failed``; must not wait.
        cancelled: Set from any thread, ends it before its next token; nothing is told any more.
    """

    def __init__(
        self, ids: Sequence[int], terms: Terms, limit: int, emit: Callable[[Any], None]
    ) -> None:
        self.ids, self.terms, self.limit, self.emit = list(ids), terms, limit, emit
        self.cancelled = False
