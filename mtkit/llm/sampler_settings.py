"""The settings of a sampler, and the ranges that they have."""

from __future__ import annotations

from mtkit.base.record import Record
from mtkit.errors import UsageError

_SEEDS = 1 << 32


class SamplerSettings(Record):
    """How tokens are chosen.

    Attributes:
        temperature: 0 for the most likely token always.
        top_k: Keep that many of the most likely; 0 for all.
        top_p: Keep the most likely that together have this probability.
        min_p: Keep those that have this part of the highest probability.
        typical: Keep those of typical information; 1 for all.
        top_n_sigma: Keep logits within that many standard deviations of the highest; 0 for all.
        repeat_penalty: Divides the logits of tokens seen lately; 1 for none.
        frequency_penalty: Taken from a logit for every time the token was seen lately.
        presence_penalty: Taken from the logit of every token seen lately.
        penalty_last: How many tokens "lately" is.
        dry: Strength of DRY's penalty against repeated sequences; 0 for none.
        dry_base: Its growth for every further token.
        dry_length: Longest repetition that costs nothing.
        dry_last: Tokens that it looks at; -1 for the context.
        xtc: Probability that XTC removes the most likely tokens; 0 for never.
        xtc_threshold: Probability that such tokens have at least.
        mirostat: 1 or 2 for mirostat instead of the cuts above; 0 for none.
        mirostat_tau: Its aim: surprise in bits.
        mirostat_eta: Its rate of learning.
        logit_bias: (id, what is added to its logit).
        ignore_eos: Never choose a token that ends the generation.
        grammar: GBNF that the text has to follow.
        json_schema: JSON schema that the text has to follow.
        seed: Of the random numbers, 0 to 2^32 - 1.
    """

    temperature: float = 0.0
    top_k: int = 40
    top_p: float = 0.95
    min_p: float = 0.05
    typical: float = 1.0
    top_n_sigma: float = 0.0
    repeat_penalty: float = 1.0
    frequency_penalty: float = 0.0
    presence_penalty: float = 0.0
    penalty_last: int = 64
    dry: float = 0.0
    dry_base: float = 1.75
    dry_length: int = 2
    dry_last: int = -1
    xtc: float = 0.0
    xtc_threshold: float = 0.1
    mirostat: int = 0
    mirostat_tau: float = 5.0
    mirostat_eta: float = 0.1
    logit_bias: tuple[tuple[int, float], ...] = ()
    ignore_eos: bool = False
    grammar: str | None = None
    json_schema: str | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        """Check the ranges; what is outside would be nonsense or end the process in C."""
        for name, low, high in _RANGES:
            value = getattr(self, name)
            if not low <= value <= high:  # NaN is outside every range
                raise UsageError(f"is {value}, not {low} to {high}", field=name)
        if self.grammar is not None and self.json_schema is not None:
            raise UsageError("a grammar and a JSON schema exclude each other")

    @property
    def is_greedy(self) -> bool:
        """Whether always the most likely token is chosen."""
        return self.temperature == 0 and not self.mirostat

    def unused(self) -> list[str]:
        """Return the fields that say how to choose at random, where nothing is."""
        default = SamplerSettings()
        return [
            name
            for name in _AT_RANDOM
            if self.is_greedy and getattr(self, name) != getattr(default, name)
        ]

    @property
    def has_penalties(self) -> bool:
        """Whether tokens seen before count."""
        return bool(
            self.repeat_penalty != 1
            or self.frequency_penalty
            or self.presence_penalty
            or self.dry > 0
        )


_AT_RANDOM = ("top_k", "top_p", "min_p", "typical", "top_n_sigma", "xtc", "xtc_threshold")
_RANGES = (
    ("temperature", 0, 1000),
    ("top_k", 0, 1 << 30),
    ("top_p", 0, 1),
    ("min_p", 0, 1),
    ("typical", 0, 1),
    ("top_n_sigma", 0, 1_000_000),
    ("repeat_penalty", 0.001, 1000),
    ("frequency_penalty", -1000, 1000),
    ("presence_penalty", -1000, 1000),
    ("penalty_last", 0, 1 << 20),
    ("dry", 0, 1000),
    ("dry_base", 0, 1000),
    ("dry_length", 1, 1 << 20),
    ("dry_last", -1, 1 << 20),
    ("xtc", 0, 1),
    ("xtc_threshold", 0, 1),
    ("mirostat", 0, 2),
    ("mirostat_tau", 0, 1000),
    ("mirostat_eta", 0, 1000),
    ("seed", 0, _SEEDS - 1),
)
