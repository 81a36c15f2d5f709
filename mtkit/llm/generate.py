"""``mtkit.generate``: text that a model writes after a prompt.

The walk of llama.cpp's ``simple`` example: load the back ends, load the model, tokenize, make a
context of n_prompt + n_predict - 1 tokens and a sampler, compute the prompt, then decode, sample,
test for the end and turn the token into text until enough is there.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from mtkit.base.record import replace
from mtkit.errors import UsageError
from mtkit.llm.generation import Generation, Timings, Watcher
from mtkit.llm.open_model import open_model
from mtkit.llm.runner import Runner, Token, context_tokens
from mtkit.llm.sampling import Sampler
from mtkit.llm.speculative import opening
from mtkit.settings import GenerateSettings
from mtkit.settings.declaration import settings_of, signature_with

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Sequence

    from typing_extensions import Unpack

    from mtkit.llm.keywords import GenerateKeywords
    from mtkit.llm.session import Session
    from mtkit.llm.speculative.rounds import Speculation


def generate(
    prompt: str | bytes | Sequence[int],
    *,
    model: str | os.PathLike[str] | None = None,
    on_text: Callable[[str], None] | None = None,
    **settings: Unpack[GenerateKeywords],
) -> Generation:
    """Generate text with a GGUF model.

    Args:
        prompt: A text, or ids.
        model: GGUF file, folder, or name of a repository in the local HuggingFace cache; None: the
            user's default, or the small model that ships with mtkit.
        on_text: Called with each part of the text as soon as it is final.
        settings: Any setting of docs/settings.md, such as ``temperature=0.8``; the names that the
            command line has for them, such as ``temp`` and ``tokens``, mean the same.

    Returns:
        A record: ``text``, ``ids``, ``end`` (why it stopped: "eog", "length", "stop" …),
        ``timings``, ``seed`` and the prompt's ids. With ``logprobs=True`` also the logarithm of
        each token's probability.

    Raises:
        MissingExtra: llama-cpp-python is not installed.
        UsageError: The file does not exist, or a setting is invalid.
        FormatError: The file cannot be loaded.
        ResourceError: The prompt does not fit in the context, or the model in memory.
    """

    class _Texts(Watcher):
        def token(self, token: Token) -> None:
            if on_text is not None and token.text:
                on_text(token.text)

    return run(prompt, settings_of(GenerateSettings, {**settings, "model": model}), _Texts())


# For help() and editors; type checkers read keywords.pyi.
generate.__signature__ = signature_with(generate, GenerateSettings)  # type: ignore[attr-defined]


def run(
    prompt: str | bytes | Sequence[int],
    settings: GenerateSettings,
    watcher: Watcher | None = None,
) -> Generation:
    """Load a model, generate once, and free everything."""
    watcher = watcher or Watcher()
    session = _session(settings)
    if session:
        kept = replace(
            settings.context, kv_type=session.kv_type, flash_attention=session.flash_attention
        )
        settings = replace(settings, context=kept, add_special=False)
    settings = opening.prepared(settings)
    if session and settings.context.kv_type != session.kv_type:
        raise UsageError(
            f"has keys and values in {session.kv_type.upper()}: drafting would not be exact",
            source=settings.load_session or "",
            hint="--no-exact allows it",
        )
    with open_model(settings, watcher.progress, n_ctx=max(settings.n_predict, 1)) as runner:
        watcher.loaded(runner)
        ids = prompt_ids(runner, prompt, settings)
        if settings.check_tokenizer and isinstance(prompt, (str, bytes)):
            watcher.warning(_tokenizer_difference(runner, prompt, settings))
        watcher.prompt(runner, ids)
        ids = [*(session.ids if session else ()), *ids]
        context = runner.open_context(
            context_tokens(
                len(ids), settings.n_predict, settings.context.n_ctx, runner.model.n_ctx_train
            )
        )
        by_rejection = opening.by_rejection(settings)
        with ExitStack() as stack:
            sampler = stack.enter_context(
                Sampler(context, settings.sampler, distributions=by_rejection)
            )
            speculation = opening.open_speculation(runner, settings, sampler.seed)
            if speculation is not None:
                stack.callback(speculation.close)
            watcher.ready(runner, sampler)
            if session:
                runner.resume(session.ids, session.state)
            runner.feed(ids, hold_last=settings.n_predict == 0)
            sampler.accept(runner.ids)
            made = take(runner, sampler, ids, settings, watcher, speculation)
            if settings.save_session:
                from mtkit.llm.session import model_hash, save_session

                found = session.model_hash if session else model_hash(runner.header)
                save_session(settings.save_session, runner, found, force=settings.force)
            return made


def _session(settings: GenerateSettings) -> Session | None:
    """Read the session to go on from, and see that the one to save can be written."""
    if not settings.load_session and not settings.save_session:
        return None
    from mtkit.llm.preflight import ModelHeader
    from mtkit.llm.session import check_can_save, check_model, model_hash, read_session
    from mtkit.sources.locate import MODEL, locate

    if settings.save_session:
        check_can_save(settings.save_session, force=settings.force)
    if not settings.load_session:
        return None
    session = read_session(settings.load_session)
    header = ModelHeader(locate(settings.model, MODEL).path, settings.lora)
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


def prompt_ids(
    runner: Runner, prompt: str | bytes | Sequence[int], settings: GenerateSettings
) -> list[int]:
    """Return the tokens of a prompt."""
    if not isinstance(prompt, (str, bytes)):
        return list(prompt)
    return runner.model.tokenize(
        prompt, add_special=settings.add_special, parse_special=settings.parse_special
    )


def take(
    runner: Runner,
    sampler: Sampler,
    ids: list[int],
    settings: GenerateSettings,
    watcher: Watcher,
    speculation: Speculation | None = None,
) -> Generation:
    """Take the tokens after a prompt that has been fed."""
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
        speculation=speculation,
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
        sampler.seed,
        runner.waiting,
        speculation.statistics if speculation else None,
    )
