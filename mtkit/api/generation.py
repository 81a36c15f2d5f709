"""``mtkit.generate``: text that a model writes after a prompt.

As llama.cpp's ``simple`` example: load the back ends and the model, tokenize, make a context of
n_prompt + n_predict - 1 tokens and a sampler, compute the prompt, then decode, sample and test for
the end until there is enough. ``Generation`` is the result; a ``Watcher`` sees the steps.
"""

from __future__ import annotations

import time
from contextlib import ExitStack

from mtkit.base.record import Idioms, Record, replace
from mtkit.errors import MtkitError, UnsupportedError, UsageError, format_count, wording
from mtkit.llm.media import read_media
from mtkit.llm.reasoning import reasoning_of_text
from mtkit.llm.runner import (
    Runner,
    Token,
    common_length,
    context_tokens,
    open_header,
    open_model,
)
from mtkit.llm.sampling import Sampler
from mtkit.settings import GenerateSettings
from mtkit.settings.declaration import settings_of, signature_with
from mtkit.speculative import setup

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from typing_extensions import Unpack

    from mtkit.llama import ContextSettings, Model
    from mtkit.llm.header import ModelHeader
    from mtkit.llm.keywords import GenerateKeywords
    from mtkit.llm.media import Media
    from mtkit.llm.runner import End
    from mtkit.llm.session import Session
    from mtkit.settings import AnswerSettings, TextAnswerSettings
    from mtkit.speculative.rounds import Speculation, Statistics


_REPR_CHARACTERS = 80


class Timings(Record):
    """Where the time went, in seconds.

    Attributes:
        decode: The part of ``generation`` inside llama.cpp's decoding.
    """

    load: float
    prompt_tokens: int
    prompt: float
    tokens: int
    generation: float
    decode: float


class Generation(Idioms, Record):
    """A generated text.

    Attributes:
        prompt_ids: Those of the prompt; -1 for each token of a picture or sound.
        pieces: The bytes of each token.
        logprobs: The logarithm of each token's probability; empty unless asked for.
        end: "eog", "length", "stop", "grammar", "interrupted" or "context".
        steps: What the sampler did to the logits.
        drafting: Counts of drafted tokens; None without drafting.
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
        text = (
            self.text if len(self.text) <= _REPR_CHARACTERS else self.text[:_REPR_CHARACTERS] + "…"
        )
        return f"<Generation of {format_count(len(self.ids), 'token')}, end {self.end!r}: {text!r}>"

    def _repr_html_(self) -> str:
        from math import exp

        from mtkit.base.notebook import figure, note, spans

        chances = [f", probability {exp(value):.3f}" for value in self.logprobs]
        chances += [""] * (len(self.ids) - len(chances))
        texts = (piece.decode("utf-8", "backslashreplace") for piece in self.pieces)
        rows = zip(texts, self.ids, chances, strict=True)
        timings = self.timings
        speed = timings.tokens / timings.generation if timings.generation > 0 else 0.0
        return figure(
            spans((text, f"{token_id}{chance}") for text, token_id, chance in rows),
            note(
                f"{format_count(len(self.ids), 'token')}, {speed:.0f} per second, end: {self.end}"
            ),
        )


class Watcher:
    """Called as a generation runs; every method may be overridden."""

    def progress(self, part: float) -> None:
        """The model is loaded to this part, 0 to 1."""

    def loaded(self, runner: Runner) -> None:
        """The model is there."""

    def warning(self, text: str) -> None:
        """A warning about the prompt; an empty text if there is none."""

    def prompt(self, runner: Runner, ids: list[int]) -> None:
        """The prompt is tokenized."""

    def ready(self, runner: Runner, sampler: Sampler) -> None:
        """Context and sampler are made."""

    def token(self, token: Token) -> None:
        """A token was generated."""


def tokenizer_difference(
    model: Model, text: bytes, *, add_special: bool, parse_special: bool
) -> str:
    """Return how mtkit's ids of a text differ from llama.cpp's, on one line; empty if they do not.

    A model whose tokenizer mtkit cannot read is a difference, too.
    """
    from mtkit.base.binary import Source
    from mtkit.tokenizer.load import load_source

    theirs = model.tokenize(text, add_special=add_special, parse_special=parse_special)
    try:
        tokenizer = load_source(Source.open(model.path))
        ours = tokenizer.encode_ids(
            text, add_special_tokens=add_special, parse_special=parse_special
        )
    except MtkitError as error:
        return f"the tokenizers cannot be compared: {error}"
    if ours == theirs:
        return ""
    at = common_length(ours, theirs)
    return (
        f"the tokenizers differ from token {at} on: llama.cpp has {_spell_ids(model, theirs, at)}, "
        f"mtkit {_spell_ids(model, ours, at)}"
    )


def _spell_ids(model: Model, ids: list[int], at: int, most: int = 4) -> str:
    """Return ids and their pieces from a place on."""
    from mtkit.base.escape import byte_escapes, printable

    parts = []
    for token_id in ids[at : at + most]:
        piece = model.piece(token_id, special=True).decode("utf-8", "backslashreplace")
        parts.append(f"{token_id} '{printable(byte_escapes(piece))}'")
    more = " …" if len(ids) > at + most else ""
    return (", ".join(parts) or "nothing") + more


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

    return run_generation(
        prompt, settings_of(GenerateSettings, {**settings, "model": model}), _Texts()
    )


# For help() and editors; type checkers read keywords.pyi.
generate.__signature__ = signature_with(generate, GenerateSettings)  # type: ignore[attr-defined]


def run_generation(
    prompt: str | bytes | Sequence[int],
    settings: GenerateSettings,
    watcher: Watcher | None = None,
) -> Generation:
    """Load a model, generate once, and free everything."""
    watcher = watcher or Watcher()
    session = _open_session(settings)
    if session:
        own = replace(
            settings.context, kv_type=session.kv_type, flash_attention=session.flash_attention
        )
        settings = replace(settings, context=own, add_special=False)
    settings = setup.prepare_settings(settings)
    if session and settings.context.kv_type != session.kv_type:
        raise UsageError(
            f"has keys and values in {session.kv_type.upper()}: drafting would not be exact",
            source=settings.load_session or "",
            hint=f"{wording('--no-exact', 'exact=False')} allows it",
        )
    header = open_header(settings)
    files = open_files(header, settings)
    with open_model(
        settings, watcher.progress, n_ctx=max(settings.n_predict, 1), header=header
    ) as runner:
        watcher.loaded(runner)
        media = runner.open_media() if files else None
        ids = prompt_ids(runner, prompt, settings, media, files)
        if settings.check_tokenizer and isinstance(prompt, (str, bytes)):
            watcher.warning(_prompt_difference(runner, prompt, settings))
        watcher.prompt(runner, ids)
        ids = [*(session.ids if session else ()), *ids]
        context = runner.open_context(
            context_tokens(
                len(ids), settings.n_predict, settings.context.n_ctx, runner.model.n_ctx_train
            )
        )
        by_rejection = setup.uses_rejection(settings)
        with ExitStack() as stack:
            sampler = stack.enter_context(
                Sampler(context, settings.sampler, distributions=by_rejection)
            )
            speculation = setup.open_speculation(runner, settings, sampler.seed)
            if speculation is not None:
                stack.callback(speculation.close)
            watcher.ready(runner, sampler)
            if session:
                runner.resume(session.ids, session.state)
            runner.feed(ids, hold_last=settings.n_predict == 0, media=media)
            sampler.accept(runner.ids)
            if sampler.has_grammar:
                template = runner.header.file.metadata.get("tokenizer.chat_template")
                sampler.watch(reasoning_of_text(runner.model, template, runner.ids))
            answer = Answer(runner, sampler, ids, settings, speculation)
            for token in answer:
                watcher.token(token)
            if settings.save_session:
                from mtkit.llm.session import model_hash, save_session

                digest = session.model_hash if session else model_hash(runner.header)
                save_session(settings.save_session, runner, digest, force=settings.force)
            return answer.generation()


def _open_session(settings: GenerateSettings) -> Session | None:
    """Read the session to go on from, and see that the one to save can be written."""
    if not settings.load_session and not settings.save_session:
        return None
    from mtkit.llm.header import ModelHeader
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


def _prompt_difference(runner: Runner, prompt: str | bytes, settings: GenerateSettings) -> str:
    raw = prompt.encode("utf-8", "surrogateescape") if isinstance(prompt, str) else prompt
    return tokenizer_difference(
        runner.model,
        raw,
        add_special=settings.add_special,
        parse_special=settings.parse_special,
    )


def open_files(header: ModelHeader, settings: AnswerSettings) -> list[bytes]:
    """Return the pictures and sounds that settings name, if the model takes them."""
    files = read_media(settings, header.projector.kinds if header.projector else frozenset())
    if files and getattr(settings, "save_session", None):
        what = "sessions with pictures or sounds cannot be saved"
        raise UnsupportedError(what, field=wording("--save-session", "save_session"))
    if files and setup.is_drafting(settings.drafting):
        raise UsageError("pictures and sounds do not go with drafts")
    return files


def prompt_ids(
    runner: Runner,
    prompt: str | bytes | Sequence[int],
    settings: TextAnswerSettings,
    media: Media | None = None,
    files: Sequence[bytes] = (),
) -> list[int]:
    """Return the tokens of a prompt, with files where it has places for them, or before it."""
    if media is not None:
        if not isinstance(prompt, (str, bytes)):
            raise UsageError(
                "has to be a text: pictures and sounds are put into it", field="prompt"
            )
        text = prompt if isinstance(prompt, str) else prompt.decode("utf-8", "surrogateescape")
        text = media.place(text, files)
        ids = media.tokenize(runner.model, text, parse_special=settings.parse_special)
        before, behind, _ = runner.model.around if settings.add_special else ([], [], [])
        return [*before, *ids, *behind]
    if not isinstance(prompt, (str, bytes)):
        ids = list(prompt)
        if not all(isinstance(entry, int) or hasattr(entry, "__index__") for entry in ids):
            what, hint = "is not one text or its ids", "call it for each text"
            raise UsageError(what, field="prompt", hint=hint)
        return ids
    return runner.model.tokenize(
        prompt, add_special=settings.add_special, parse_special=settings.parse_special
    )


class Answer:
    """The tokens that continue a prompt which has been fed, as they are taken."""

    def __init__(
        self,
        runner: Runner,
        sampler: Sampler,
        ids: list[int],
        settings: TextAnswerSettings,
        speculation: Speculation | None = None,
    ) -> None:
        """Prepare; iterating takes the tokens."""
        assert runner.context is not None
        self._runner, self._sampler, self._context = runner, sampler, runner.context
        self._ids, self._settings, self._speculation = ids, settings, speculation
        self._tokens: list[Token] = []
        self._texts: list[str] = []
        self._seconds = 0.0
        self._evaluated = self._context.performance().t_eval_ms

    def __iter__(self) -> Iterator[Token]:
        runner, settings, context = self._runner, self._settings, self._context
        room = context.n_ctx - len(runner.ids) + 1
        start = time.perf_counter()
        tokens = runner.stream(
            self._sampler,
            settings.n_predict if settings.n_predict >= 0 else room,
            stops=settings.stops,
            logprobs=settings.logprobs,
            special=settings.special,
            stop_at_eog=not settings.sampler.ignore_eos,
            speculation=self._speculation,
        )
        try:
            for token in tokens:
                if token.id >= 0:
                    self._tokens.append(token)
                self._texts.append(token.text)
                yield token
        except GeneratorExit:
            runner.end = "interrupted"
            raise
        finally:
            self._seconds = time.perf_counter() - start

    def generation(self) -> Generation:
        """Return what has been generated."""
        runner, sampler, tokens = self._runner, self._sampler, self._tokens
        evaluated = self._context.performance().t_eval_ms - self._evaluated
        timings = Timings(
            runner.load_seconds,
            runner.computed,
            runner.prompt_seconds,
            len(tokens),
            self._seconds,
            evaluated / 1000,
        )
        return Generation(
            [max(token_id, -1) for token_id in self._ids],
            [token.id for token in tokens],
            [token.piece for token in tokens],
            [token.logprob for token in tokens if token.logprob is not None],
            "".join(self._texts),
            runner.end,
            timings,
            self._context.settings,
            tuple(sampler.steps),
            sampler.seed,
            runner.waiting,
            self._speculation.statistics if self._speculation else None,
        )
