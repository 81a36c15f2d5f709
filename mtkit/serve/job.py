"""Jobs for the slots, the events of a job, and the times of an answer.

Source of the words of the times: llama.cpp, tools/server/server-common.cpp (``server_slot_stats``).
"""

from __future__ import annotations

from types import MappingProxyType

from mtkit.base.record import Record
from mtkit.errors import ResourceError, format_count

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from typing import Any, Literal

    from mtkit.llama.media import Chunk
    from mtkit.llm.reasoning import Reasoning
    from mtkit.serve.stop_text import ReasoningSigns
    from mtkit.settings import SamplerSettings

    End = Literal["eog", "length", "stop", "grammar"]


class QueueFull(ResourceError):
    """All slots are taken and the queue is full."""

    def __init__(self, what: str, seconds: int) -> None:
        super().__init__(what, hint=f"try again in {seconds} s")
        self.seconds = seconds


class PromptTooLong(ResourceError):
    """A prompt does not fit a slot.

    Clients know it by its words, and shorten the conversation: opencode and OpenHands by those of
    llama-server, LiteLLM (aider and many more) by those of OpenAI behind the colon.
    """

    def __init__(self, tokens: int, n_slot: int) -> None:
        super().__init__(
            f"a prompt of {format_count(tokens, 'token')} exceeds the available context size: "
            f"here, this model's maximum context length is {format_count(n_slot, 'token')}",
            hint="shorten it, or start the server with a higher --ctx or fewer --slots",
        )
        self.tokens, self.n_slot = tokens, n_slot


class ServerClosed(ResourceError):
    """The server is ending."""


deadly: set[int] = set()
"""What llama.cpp was computing at two of its deaths: ``work_number`` of each."""


class DeadlyRequest(ResourceError):
    """llama.cpp would probably end the process again."""


def work_number(path: str, ids: Sequence[int], terms: object = None) -> int:
    """Return a number for what a model computes, the same in all processes of a server.

    Raises:
        DeadlyRequest: It is not to be computed.
    """
    number = hash((path, tuple(ids), terms)) & _NUMBERS or 1
    if number in deadly:
        raise DeadlyRequest(
            "llama.cpp ended the process twice while it computed this; it is not tried again"
        )
    return number


_NUMBERS = (1 << 64) - 1


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


class Echo(Record):
    """Tokens of the prompt behind the first, with how probable they were."""

    pieces: list[Piece]


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
        signs: The reasoning of the answer, in which no stop string counts; None: there is none.
        adapters: The scale of each adapter; None: those of the server.
        echo: Events say how probable the prompt's own tokens are, for which all are computed.
        reasoning: How the model reasons; None where nothing waits for its end or bounds it.
        chunks: The pictures and sounds of the prompt, by the id of their first row.
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
    signs: ReasoningSigns | None = None
    adapters: tuple[float, ...] | None = None
    echo: bool = False
    reasoning: Reasoning | None = None
    chunks: Mapping[int, Chunk] = MappingProxyType({})

    @property
    def is_costly(self) -> bool:
        """Whether to choose a token takes much longer than for a plain answer."""
        sampler = self.sampler
        is_held = sampler.grammar is not None or sampler.json_schema is not None
        is_long = max(len(self.stops), len(sampler.logit_bias)) > _FEW
        return is_held or is_long or self.top is not None


_FEW = 16
"""Stop strings, or biases."""


class Job:
    """A prompt to be answered.

    Attributes:
        emit: Called in the scheduler's thread with events: ``JobStart``, ``JobProgress`` and
            ``Echo`` if asked for, ``Piece`` … and at last ``JobEnd`` or ``JobFailure``; must not
            wait.
        cancelled: Set from any thread, ends it before its next token, without an event.
        request: The number of the request that asks for it.
        work: Its ``work_number``.
        is_costly: A token takes the server much longer than a plain one, or it is a further answer
            to one request: plain answers go first.
    """

    request = work = 0

    def __init__(
        self, ids: Sequence[int], terms: Terms, limit: int, emit: Callable[[Any], None]
    ) -> None:
        self.ids, self.terms, self.limit, self.emit = list(ids), terms, limit, emit
        self.cancelled, self.is_costly = False, terms.is_costly


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
