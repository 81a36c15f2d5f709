"""What a generation is made with."""

from __future__ import annotations

from mtkit.base.record import Record, fields, replace
from mtkit.errors import UsageError
from mtkit.llama import ContextSettings, LoadSettings
from mtkit.llm.sampler_settings import SamplerSettings

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any


class GenerateSettings(Record):
    """What a generation is made with.

    Attributes:
        n_predict: Tokens at most; -1 until the model ends, or the context is full.
        n_ctx: Tokens of context; None for what prompt and n_predict need.
        load: How the model is loaded.
        context: The rest of the context's settings.
        sampler: How tokens are chosen.
        biases: Logit biases by text or id, as ``(" cat", -5.0)``; added to the sampler's.
        threads: How many; None for measuring it.
        wait: How threads wait: "auto", "active", "passive" or "default".
        stops: Strings that end the text.
        add_special: Let the tokenizer add BOS and the like to the prompt.
        parse_special: Recognise special tokens written in the prompt.
        special: Let control tokens appear in the text.
        load_session: Go on from this session file; the prompt comes behind its text.
        save_session: Write a session file at the end.
        force: Replace it where it exists.
        check_tokenizer: Compare the prompt's ids with those of mtkit's own tokenizer.
        logprobs: Compute the probability of each token.
    """

    n_predict: int = 128
    n_ctx: int | None = None
    load: LoadSettings = LoadSettings()
    context: ContextSettings = ContextSettings()
    sampler: SamplerSettings = SamplerSettings()
    biases: tuple[tuple[str, float], ...] = ()
    threads: int | None = None
    wait: str = "auto"
    stops: tuple[str, ...] = ()
    add_special: bool = True
    parse_special: bool = True
    special: bool = False
    load_session: str | None = None
    save_session: str | None = None
    force: bool = False
    check_tokenizer: bool = False
    logprobs: bool = False

    def __post_init__(self) -> None:
        """Check the numbers of tokens."""
        if self.n_predict < -1:
            raise UsageError(f"is {self.n_predict}, not -1 or more", field="n_predict")
        if self.n_ctx is not None and self.n_ctx < 1:
            raise UsageError(f"is {self.n_ctx}, not 1 or more", field="n_ctx")


_PARTS = ("sampler", "context", "load")


def settings_of(options: dict[str, Any]) -> GenerateSettings:
    """Sort options by the record that has them.

    Raises:
        UsageError: None has.
    """
    settings = GenerateSettings()
    rest = dict(options)
    parts: dict[str, Any] = {}
    nested = [getattr(settings, part) for part in _PARTS]
    for part, default in zip(_PARTS, nested, strict=True):
        own = {name: rest.pop(name) for name in fields(default) if name in rest and name not in
               ("n_ctx", "threads")}  # fmt: skip
        given = rest.pop(part, default)
        parts[part] = replace(given, **own) if own else given
    unknown = set(rest) - set(fields(settings))
    if unknown:
        known = {*fields(settings), *(name for part in nested for name in fields(part))}
        what = f"there is no option {sorted(unknown)[0]!r}"
        raise UsageError(what, hint=f"known: {', '.join(sorted(known - {*_PARTS}))}")
    return replace(settings, **parts, **rest)
