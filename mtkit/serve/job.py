"""What a slot has to do, and what it tells while it does it."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import ResourceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any, Literal

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
    """A prompt does not fit a slot."""


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


class Chances(Record):
    """How probable a token was, before any sampler.

    Attributes:
        logprob: Natural logarithm of its probability.
        top: The most probable tokens with theirs.
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
    """

    __slots__ = ("chances", "id", "raw", "text")

    def __init__(self, token_id: int, raw: bytes, text: str, chances: Chances | None) -> None:
        self.id, self.raw, self.text, self.chances = token_id, raw, text, chances


class Done(Record):
    """The answer is complete.

    Attributes:
        end: Why.
        stop: The stop string that ended it; None where none did.
        text: Text that was held back until now.
        generated: Tokens of the answer.
        prompt_seconds: From the job's begin to its first token.
        seconds: From its first token to the last.
        drafting: Figures of what was drafted; None where nothing was to be.
    """

    end: End
    stop: str | None
    text: str
    generated: int
    prompt_seconds: float
    seconds: float
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
        shown: Control tokens that are text of the answer.
        speculative: Tokens may be drafted; None: where anything drafts.
    """

    sampler: SamplerSettings
    limit: int | None = None
    stops: Sequence[str] = ()
    top: int | None = None
    shown: frozenset[int] = frozenset()
    speculative: bool | None = None


class Job:
    """A prompt to be answered.

    Attributes:
        ids: The prompt.
        terms: How.
        limit: Tokens at most.
        emit: Called in the scheduler's thread with ``Begun``, ``Piece`` … and at last ``Done`` or
            ``Failed``; must not wait.
        cancelled: Set from any thread, ends it before its next token; nothing is told any more.
    """

    def __init__(
        self, ids: Sequence[int], terms: Terms, limit: int, emit: Callable[[Any], None]
    ) -> None:
        self.ids, self.terms, self.limit, self.emit = list(ids), terms, limit, emit
        self.cancelled = False


def chances(row: Any, token_id: int, top: int) -> Chances:
    """Return how probable a token was.

    Args:
        row: Logits; float32 of shape (n_vocab,).
        token_id: The token.
        top: How many of the most probable tokens to tell.
    """
    import numpy as np

    shifted = row - row.max()
    total = float(np.log(np.exp(shifted).sum(dtype=np.float64)))
    best: list[tuple[int, float]] = []
    if top:
        places = np.argpartition(-shifted, min(top, len(shifted) - 1))[:top]
        ordered = places[np.argsort(-shifted[places], kind="stable")]
        best = [(int(place), float(shifted[place]) - total) for place in ordered]
    return Chances(float(shifted[token_id]) - total, best)
