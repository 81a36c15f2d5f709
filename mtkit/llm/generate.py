"""``mtkit.generate``: text that a model writes behind a prompt.

The walk of llama.cpp's ``simple`` example: load the back ends, load the model, tokenize, make a
context of n_prompt + n_predict - 1 tokens and a sampler, compute the prompt, then decode, sample,
test for the end and turn the token into text until enough is there.
"""

from __future__ import annotations

import os
import time

from mtkit.base.record import replace
from mtkit.llm.generate_settings import GenerateSettings, settings_of
from mtkit.llm.generation import Generation, Timings, Watcher
from mtkit.llm.preflight import ModelHeader
from mtkit.llm.runner import Runner, Token, context_tokens
from mtkit.llm.sampling import Sampler
from mtkit.llm.threads import choose_waiting
from mtkit.memory_plan.plan import PlanSettings
from mtkit.sources.locate import MODEL, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Any

    from mtkit.llama import Model
    from mtkit.llm.sampler_settings import SamplerSettings
    from mtkit.llm.session import Session


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

    path = locate(os.fspath(model) if model is not None else None, MODEL)
    return run(path, prompt, settings_of(options), _Texts())


def run(
    path: str,
    prompt: str | bytes | Sequence[int],
    settings: GenerateSettings,
    watcher: Watcher | None = None,
) -> Generation:
    """Load a model, generate once, and free everything."""
    watcher = watcher or Watcher()
    header = ModelHeader(path)
    header.check(plan_settings(settings, settings.n_ctx or max(settings.n_predict, 1)))
    session = _session(settings, header)
    if session:
        kept = replace(
            settings.context, kv_type=session.kv_type, flash_attention=session.flash_attention
        )
        settings = replace(settings, context=kept, add_special=False)
    waiting = choose_waiting(settings.wait)
    with Runner(path, settings.load, progress=watcher.progress) as runner:
        watcher.loaded(runner, waiting)
        ids = prompt_ids(runner, prompt, settings)
        if settings.check_tokenizer and isinstance(prompt, (str, bytes)):
            watcher.warning(_tokenizer_difference(runner, prompt, settings))
        watcher.prompt(runner, ids)
        ids = [*(session.ids if session else ()), *ids]
        n_ctx = context_tokens(
            len(ids), settings.n_predict, settings.n_ctx, runner.model.n_ctx_train
        )
        header.check(plan_settings(settings, n_ctx))
        context = runner.open_context(
            replace(settings.context, n_ctx=n_ctx), threads=settings.threads
        )
        with Sampler(context, with_biases(settings, runner.model)) as sampler:
            watcher.ready(runner, sampler)
            if session:
                runner.resume(session.ids, session.state)
            runner.feed(ids, hold_last=settings.n_predict == 0)
            sampler.accept(runner.ids)
            made = take(runner, sampler, ids, settings, watcher, waiting)
            if settings.save_session:
                from mtkit.llm.session import model_hash, save_session

                found = session.model_hash if session else model_hash(header)
                save_session(settings.save_session, runner, found, force=settings.force)
            return made


def _session(settings: GenerateSettings, header: ModelHeader) -> Session | None:
    """Read the session to go on from, and see that the one to save can be written."""
    if not settings.save_session and not settings.load_session:
        return None
    from mtkit.llm.session import check_can_save, check_model, model_hash, read_session

    if settings.save_session:
        check_can_save(settings.save_session, force=settings.force)
    if not settings.load_session:
        return None
    session = read_session(settings.load_session)
    check_model(session, model_hash(header), settings.load_session)
    return session


def _tokenizer_difference(runner: Runner, prompt: str | bytes, settings: GenerateSettings) -> str:
    from mtkit.llm.tokenizer_check import difference

    raw = prompt.encode("utf-8", "surrogateescape") if isinstance(prompt, str) else prompt
    return difference(
        runner.model,
        raw,
        add_special=settings.add_special,
        parse_special=settings.parse_special,
    )


def plan_settings(settings: GenerateSettings, n_ctx: int) -> PlanSettings:
    """Return what the plan of a model's memory has to know."""
    context = settings.context
    return PlanSettings(
        n_ctx=n_ctx,
        kv_type=context.kv_type,
        gpu_layers=settings.load.gpu_layers,
        n_ubatch=context.n_ubatch,
        swa_full=context.swa_full,
        flash_attention=context.flash_attention != "off",
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
    sampler: Sampler,
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
        sampler,
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
        tuple(sampler.steps),
        waiting,
    )
