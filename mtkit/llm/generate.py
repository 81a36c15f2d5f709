"""``mtkit.generate``: text that a model writes behind a prompt.

The walk of llama.cpp's ``simple`` example: load the back ends, load the model, tokenize, make a
context of n_prompt + n_predict - 1 tokens and a sampler, compute the prompt, then decode, sample,
test for the end and turn the token into text until enough is there.
"""

from __future__ import annotations

import os
import time

from mtkit.errors import UsageError
from mtkit.inspection.plan import PlanSettings
from mtkit.llm.backend import ContextSettings, LoadSettings
from mtkit.llm.locate import locate_model
from mtkit.llm.preflight import Examined
from mtkit.llm.runner import Runner, Token, context_tokens
from mtkit.llm.sampler_settings import SamplerSettings
from mtkit.llm.sampling import Picker
from mtkit.llm.threads import choose_waiting
from mtkit.spec.record import Record, fields, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.llm.backend import Model


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
    logprobs: bool = False


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
        context: The context's settings.
        steps: What the sampler did to the logits.
        waiting: How the threads waited.
    """

    prompt_ids: list[int]
    ids: list[int]
    pieces: list[bytes]
    logprobs: list[float]
    text: str
    end: str
    timings: Timings
    context: ContextSettings
    steps: tuple[str, ...]
    waiting: str


class Watcher:
    """What a caller sees while a generation runs; every method may be overridden."""

    def progress(self, part: float) -> None:
        """The model is loaded to this part, 0 to 1."""

    def loaded(self, runner: Runner, waiting: str) -> None:
        """The model is there."""

    def prompt(self, runner: Runner, ids: list[int]) -> None:
        """The prompt is tokenized."""

    def ready(self, runner: Runner, picker: Picker) -> None:
        """Context and sampler are made."""

    def token(self, token: Token) -> None:
        """A token was generated."""


def generate(
    prompt: str | bytes | Sequence[int],
    *,
    model: str | os.PathLike[str] | None = None,
    on_text: Callable[[str], None] | None = None,
    **options: Any,
) -> Generation:
    """Let a model continue a prompt.

    Args:
        prompt: A text, or ids.
        model: A GGUF file; None for the user's default, else the small one that ships with mtkit.
        on_text: Called with every piece of text as soon as it is settled.
        options: Fields of ``GenerateSettings``, ``SamplerSettings`` (``temperature=0.8``),
            ``ContextSettings`` and ``LoadSettings``, by name.

    Raises:
        MissingExtra: llama-cpp-python is not installed.
        UsageError: There is no such file, or an option makes no sense.
        FormatError: The file cannot be loaded.
        ResourceError: The prompt does not fit the context, or the model the memory.
    """

    class _Texts(Watcher):
        def token(self, token: Token) -> None:
            if on_text is not None and token.text:
                on_text(token.text)

    path = locate_model(os.fspath(model) if model is not None else None)
    return run(path, prompt, settings_of(options), _Texts())


def settings_of(options: dict[str, Any]) -> GenerateSettings:
    """Sort options by the record that has them.

    Raises:
        UsageError: None has.
    """
    settings = GenerateSettings()
    rest = dict(options)
    parts: dict[str, Any] = {}
    for part in ("sampler", "context", "load"):
        default = getattr(settings, part)
        own = {name: rest.pop(name) for name in fields(default) if name in rest and name not in
               ("n_ctx", "threads")}  # fmt: skip
        given = rest.pop(part, default)
        parts[part] = replace(given, **own) if own else given
    unknown = set(rest) - set(fields(settings))
    if unknown:
        raise UsageError(f"there is no option {sorted(unknown)[0]!r}")
    return replace(settings, **parts, **rest)


def run(
    path: str,
    prompt: str | bytes | Sequence[int],
    settings: GenerateSettings,
    watcher: Watcher | None = None,
) -> Generation:
    """Load a model, generate once, and free everything."""
    watcher = watcher or Watcher()
    examined = Examined(path)
    examined.check(_plan_settings(settings, settings.n_ctx or max(settings.n_predict, 1)))
    waiting = choose_waiting(settings.wait)
    with Runner(path, settings.load, progress=watcher.progress) as runner:
        watcher.loaded(runner, waiting)
        ids = prompt_ids(runner, prompt, settings)
        watcher.prompt(runner, ids)
        n_ctx = context_tokens(
            len(ids), settings.n_predict, settings.n_ctx, runner.model.n_ctx_train
        )
        examined.check(_plan_settings(settings, n_ctx))
        context = runner.open_context(
            replace(settings.context, n_ctx=n_ctx), threads=settings.threads
        )
        with Picker(context, with_biases(settings, runner.model)) as picker:
            watcher.ready(runner, picker)
            runner.feed(ids)
            picker.see(runner.ids)
            return take(runner, picker, ids, settings, watcher, waiting)


def _plan_settings(settings: GenerateSettings, n_ctx: int) -> PlanSettings:
    context = settings.context
    return PlanSettings(
        n_ctx=n_ctx,
        kv_type=context.kv_type,
        gpu_layers=settings.load.gpu_layers,
        n_ubatch=context.n_ubatch,
        swa_full=context.swa_full,
    )


def prompt_ids(
    runner: Runner, prompt: str | bytes | Sequence[int], settings: GenerateSettings
) -> list[int]:
    """Return the tokens of a prompt."""
    if not isinstance(prompt, (str, bytes)):
        return list(prompt)
    return runner.model.tokenize(
        prompt, add_special=settings.add_special, parse_special=settings.parse_special
    )


def with_biases(settings: GenerateSettings, model: Model) -> SamplerSettings:
    """Return the sampler's settings with the biases that are given by text."""
    found = list(settings.sampler.logit_bias)
    for text, value in settings.biases:
        if text.isdecimal():
            found.append((int(text), value))
        else:
            found += [(token_id, value) for token_id in model.tokenize(text, add_special=False)]
    return replace(settings.sampler, logit_bias=tuple(found))


def take(
    runner: Runner,
    picker: Picker,
    ids: list[int],
    settings: GenerateSettings,
    watcher: Watcher,
    waiting: str = "",
) -> Generation:
    """Take the tokens behind a prompt that has been fed."""
    context = runner.context
    assert context is not None
    limit = settings.n_predict if settings.n_predict >= 0 else context.n_ctx - len(runner.ids) + 1
    found: list[Token] = []
    texts: list[str] = []
    before = context.performance().t_eval_ms
    start = time.perf_counter()
    for token in runner.stream(
        picker,
        limit,
        stops=settings.stops,
        logprobs=settings.logprobs,
        special=settings.special,
        stop_at_eog=not settings.sampler.ignore_eos,
    ):
        if token.id >= 0:
            found.append(token)
        texts.append(token.text)
        watcher.token(token)
    seconds = time.perf_counter() - start
    timings = Timings(
        runner.load_seconds,
        runner.computed,
        runner.prompt_seconds,
        len(found),
        seconds,
        (context.performance().t_eval_ms - before) / 1000,
    )
    return Generation(
        ids,
        [token.id for token in found],
        [token.piece for token in found],
        [token.logprob for token in found if token.logprob is not None],
        "".join(texts),
        runner.end,
        timings,
        context.settings,
        tuple(picker.steps),
        waiting,
    )
