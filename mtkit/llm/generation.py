"""What a generation gives: its result, and what a watcher sees on the way."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import counted

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.llama import ContextSettings
    from mtkit.llm.runner import End, Runner, Token
    from mtkit.llm.sampling import Sampler
    from mtkit.llm.speculative.statistics import Statistics


_SHOWN = 80


class Timings(Record):
    """Where the time went, in seconds.

    Attributes:
        load: Loading the model.
        prompt_tokens: Tokens of the prompt that were computed.
        prompt: Computing them.
        tokens: Tokens generated.
        generation: Generating them.
        decode: The part of it inside llama.cpp's decoding.
    """

    load: float
    prompt_tokens: int
    prompt: float
    tokens: int
    generation: float
    decode: float


class Generation(Record):
    """What was generated.

    Attributes:
        prompt_ids: Tokens of the prompt.
        ids: Tokens generated, the one that ended it included.
        pieces: The bytes that each stands for.
        logprobs: Logarithm of each one's probability; empty unless asked for.
        text: The text, without what a stop string cut off.
        end: "eog", "length", "stop", "grammar", "interrupted" or "context".
        timings: Where the time went.
        context: The context's settings, none of them left open.
        steps: What the sampler did to the logits.
        seed: Of its random numbers.
        waiting: How the threads waited.
        drafting: What was counted while tokens were drafted; None where none were.
    """

    prompt_ids: list[int]
    ids: list[int]
    pieces: list[bytes]
    logprobs: list[float]
    text: str
    end: End
    timings: Timings
    context: ContextSettings
    steps: tuple[str, ...]
    seed: int
    waiting: str
    drafting: Statistics | None = None

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= _SHOWN else self.text[:_SHOWN] + "…"
        return f"<Generation of {counted(len(self.ids), 'token')}, end {self.end!r}: {text!r}>"


class Watcher:
    """What a caller sees while a generation runs; every method may be overridden."""

    def progress(self, part: float) -> None:
        """The model is loaded to this part, 0 to 1."""

    def loaded(self, runner: Runner) -> None:
        """The model is there."""

    def warning(self, text: str) -> None:
        """Something is odd; an empty text says that nothing is."""

    def prompt(self, runner: Runner, ids: list[int]) -> None:
        """The prompt is tokenized."""

    def ready(self, runner: Runner, sampler: Sampler) -> None:
        """Context and sampler are made."""

    def token(self, token: Token) -> None:
        """A token was generated."""
