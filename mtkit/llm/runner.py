"""Open a model and run it on one sequence of tokens.

``open_model`` finds the file, checks that it can run and fits, and loads it. ``Runner`` keeps the
cache between prompts: a prompt that begins as the last one did, as every turn of a chat does, costs
only what is new. ``TextStream`` makes text of tokens.
"""

from __future__ import annotations

import time
from codecs import getincrementaldecoder
from contextlib import closing
from itertools import islice

from mtkit.base.process import Closeable
from mtkit.base.record import replace
from mtkit.errors import ResourceError, UnsupportedError, UsageError, format_count, wording
from mtkit.llama import Context, Model, library
from mtkit.llama.media import Projector, whole_chunks
from mtkit.llm.header import ModelHeader
from mtkit.llm.media import Media, find_projector, lag_of, refuse_media, runs
from mtkit.llm.threads import choose_waiting, cores, measure
from mtkit.llm.trial import try_out, try_projector
from mtkit.memory_plan.plan import PlanSettings
from mtkit.settings import MediaSettings
from mtkit.sources.locate import MODEL, locate

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
    from typing import Any, Literal, Protocol

    from mtkit.llama.media import Chunk
    from mtkit.llm.sampling import Sampler
    from mtkit.settings import ContextSettings, ModelSettings

    End = Literal["", "eog", "length", "stop", "grammar", "interrupted", "context"]

    Choices = Generator["Choice", None, None]

    class Speculation(Protocol):
        """Chooses several tokens from one batch (``mtkit.speculative``)."""

        def choose(
            self, runner: Runner, sampler: Sampler, limit: int, *, logprobs: bool
        ) -> Choices:
            """Choose tokens; the caller appends each to the runner's ``ids``."""
            ...

        def reset(self) -> None:
            """Forget every text: another conversation begins."""
            ...


class Choice:
    """The token chosen to come next.

    Attributes:
        token_id: -1 where the grammar takes no token.
        logits: Those it was chosen by, a copy, float32 of shape (n_vocab,); None if not wanted.
    """

    __slots__ = ("logits", "token_id")

    def __init__(self, token_id: int, logits: Any = None) -> None:
        self.token_id, self.logits = token_id, logits


class TextStream:
    """Turns the bytes of tokens into text that can no longer change.

    The bytes of an incomplete character wait for the next token, and so does text that may be the
    beginning of a stop string. Only the end of the text is searched, so a token costs the same
    however long the text is.

    Attributes:
        stopped: The stop string that ended the text; None before.
    """

    def __init__(self, stops: Sequence[str] = ()) -> None:
        self._utf8 = getincrementaldecoder("utf-8")("replace")
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.stopped: str | None = None

    def push(self, piece: bytes) -> str:
        """Take a token and return the text that is settled now, often none."""
        text = self._utf8.decode(piece)
        return self._settle(text) if self._stops else text

    def finish(self) -> str:
        """End the text and return what was held back."""
        if self.stopped is not None:
            return ""
        text = self._utf8.decode(b"", True)
        if self._stops:
            text = self._settle(text)
            if self.stopped is None:
                text, self._held = text + self._held, ""
        return text

    def _settle(self, new: str) -> str:
        if self.stopped is not None:
            return ""
        text = self._held + new
        matches = [(at, stop) for stop in self._stops if (at := text.find(stop)) >= 0]
        if matches:
            at, self.stopped = min(matches)
            self._held = ""
            return text[:at]
        cut = len(text) - max(_overlap(text, stop) for stop in self._stops)
        self._held = text[cut:]
        return text[:cut]


def _overlap(text: str, stop: str) -> int:
    """Return the length of the longest end of a text that is the beginning of a stop string."""
    for size in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:size]):
            return size
    return 0


class Token:
    """One generated token; made for each, so no record (0.4 against 3 us).

    Attributes:
        piece: The bytes that it stands for.
        text: Text that is settled since the token before: whole characters, often none.
        logprob: Natural logarithm of its probability before sampling; None unless asked for.
    """

    __slots__ = ("id", "logprob", "piece", "text")

    def __init__(self, token_id: int, piece: bytes, text: str, logprob: float | None) -> None:
        self.id = token_id
        self.piece = piece
        self.text = text
        self.logprob = logprob


class Runner(Closeable):
    """A model, its context and the tokens in it; close it, or use it in ``with``.

    Attributes:
        context: None before ``open_context``.
        ids: Tokens of the sequence; the last may not be computed yet.
        end: Why the last generation ended: "eog", "length", "stop", "grammar", "interrupted" or
            "context"; empty before.
        stop_requested: Set from outside to end the generation before its next token.
    """

    def __init__(
        self,
        header: ModelHeader,
        settings: ModelSettings,
        *,
        n_ctx: int,
        waiting: str,
        on_progress: Callable[[float], None] | None = None,
    ) -> None:
        """Load a model."""
        self.header, self.settings = header, settings
        self.n_ctx, self.waiting = n_ctx, waiting
        library()  # the package takes longer than a small model
        start = time.perf_counter()
        self.model = Model(header.path, settings.load, progress=on_progress)
        try:
            for adapter in header.adapters:
                self.model.adapt(adapter.path, adapter.scale)
        except BaseException:
            self.model.close()
            raise
        self.load_seconds = time.perf_counter() - start
        self.context: Context | None = None
        self._projector: Projector | None = None
        self.ids: list[int] = []
        self.end: End = ""
        self.stop_requested = False
        self.prompt_seconds = 0.0
        self.computed = 0

    def open_context(
        self, n_ctx: int | None = None, kind: Callable[[Model, ContextSettings], Context] = Context
    ) -> Context:
        """Make the context; without ``n_ctx``, of the size that the model was opened for."""
        model = self.model
        if not model.has_decoder:
            raise UnsupportedError("cannot generate: it is an encoder", source=model.path)
        n_ctx = self.n_ctx if n_ctx is None else n_ctx
        self.header.check(plan_settings(self.settings, n_ctx))
        settings = replace(self.settings.context, n_ctx=n_ctx)
        if model.has_encoder:
            # The whole prompt goes through the encoder at once, and the relative positions of T5
            # are not for every kind of attention.
            settings = replace(settings, n_batch=n_ctx, n_ubatch=n_ctx)
            if settings.flash_attention == "on":
                settings = replace(settings, flash_attention="auto")
        self.close_context()
        self.context = context = kind(model, settings)
        if settings.threads is None:
            threads = measure(context, model.bos if model.bos >= 0 else 0)
            context.settings = replace(context.settings, threads=threads)
        self.ids = []
        return context

    def open_media(self) -> Media:
        """Return what takes the pictures of a conversation; loads the projector the first time."""
        if self._projector is None:
            header = self.header.projector
            if header is None:
                refuse_media(frozenset(), "image", self.model.path)
            assert header is not None
            context = self.settings.context
            context = replace(context, threads=context.threads or cores())
            try_projector(self.header, self.settings.load, context)
            self._projector = Projector(self.model, header.path, context, self.settings.load)
        return Media(self._projector)

    def resume(self, ids: Sequence[int], state: memoryview) -> None:
        """Restore a state that has seen these tokens except the last, or fewer."""
        context = self._opened()
        context.restore(state)
        self.ids = list(ids)

    def feed(
        self, ids: Sequence[int], *, hold_last: bool = False, media: Media | None = None
    ) -> None:
        """Make a prompt the sequence, so that the next token can be chosen.

        Args:
            media: What the negative ids of the prompt stand for.
        """
        context = self._opened()
        chunks = media.chunks if media else {}
        if not ids:
            raise UsageError("the prompt is empty", hint="this model adds no BOS")
        if not chunks and min(ids) < 0:
            self.model.check_ids(ids)
        start = time.perf_counter()
        if self.model.has_encoder:
            context.clear()
            context.encode(ids)
            self.model.check_ids((self.model.decoder_start,))
            self.computed = len(ids)
            ids = [self.model.decoder_start]
            context.decode(ids)
        else:
            n_reused = self._keep(ids, chunks)
            self.ids = list(ids[:n_reused])
            self.computed = len(ids) - n_reused
            try:
                for at, end in runs(ids, n_reused, len(ids) - hold_last):
                    if ids[at] >= 0:
                        context.decode(ids[at:end])
                    else:
                        assert self._projector is not None
                        self._projector.encode(chunks[ids[at]])
                        sections = self._projector.sections
                        context.decode_chunk(chunks[ids[at]], sections, is_last=end == len(ids))
            except BaseException:
                self.ids = list(ids[: context.n_past])
                raise
        self.ids = list(ids)
        if not hold_last:
            context.logits()  # waits until it is done
        self.prompt_seconds = time.perf_counter() - start

    def _keep(self, ids: Sequence[int], chunks: Mapping[int, Chunk]) -> int:
        """Cut the memory down to what a prompt begins with; returns how many tokens that are."""
        context = self._opened()
        common = common_length(self.ids[: context.n_past], ids)
        keep = min(common, len(ids) - 1)  # one has to be computed, for its logits
        keep = whole_chunks(ids, keep)
        lag = lag_of(ids[:keep], chunks)
        if keep == context.n_past or (keep and context.truncate(keep, lag)):
            return keep
        context.clear()
        return 0

    def stream(
        self,
        sampler: Sampler,
        limit: int,
        *,
        stops: Sequence[str] = (),
        logprobs: bool = False,
        special: bool = False,
        stop_at_eog: bool = True,
        speculation: Speculation | None = None,
    ) -> Iterator[Token]:
        """Generate tokens; the last one only carries text that was held back."""
        piece_of, is_eog = self.model.piece, self.model.is_eog
        ids, text = self.ids, TextStream(stops)
        self.end = "length"
        choices = (
            self._choose(sampler, logprobs=logprobs)
            if speculation is None
            else speculation.choose(self, sampler, limit, logprobs=logprobs)
        )
        with closing(choices):
            for choice in islice(choices, limit):
                token_id, row = choice.token_id, choice.logits
                if token_id < 0:
                    self.end = "grammar"
                    break
                ids.append(token_id)
                chance = logprob(row, token_id) if row is not None else None
                if stop_at_eog and is_eog(token_id):
                    self.end = "eog"
                    yield Token(token_id, piece_of(token_id, special=True), "", chance)
                    break
                piece = piece_of(token_id, special=special)
                yield Token(token_id, piece, text.push(piece), chance)
                if text.stopped is not None:
                    self.end = "stop"
                    break
        rest = text.finish()
        if rest:
            yield Token(-1, b"", rest, None)

    def _choose(self, sampler: Sampler, *, logprobs: bool) -> Choices:
        """Choose token after token; the caller appends each to ``ids``."""
        context = self._opened()
        ids, sample = self.ids, sampler.sample
        while not self.stop_requested:
            if context.n_past < len(ids):
                if context.n_past >= context.n_ctx:
                    self.end = "context"
                    return
                context.step(ids[-1])  # the last token, not before its successor is wanted
            row = context.logits().copy() if logprobs else None
            yield Choice(sample(), row)
        self.end = "interrupted"

    def _opened(self) -> Context:
        if self.context is None:
            raise UsageError("there is no context yet")
        return self.context

    def close_context(self) -> None:
        """Free the context and forget the tokens."""
        if self.context is not None:
            self.context.close()
        self.context, self.ids = None, []

    def close(self) -> None:
        """Free context and model."""
        self.close_context()
        if self._projector is not None:
            self._projector.close()
        self.model.close()


def common_length(a: Sequence[int], b: Sequence[int]) -> int:
    """Return how many ids two sequences share from the start."""
    pairs = zip(a, b, strict=False)
    return next((at for at, (x, y) in enumerate(pairs) if x != y), min(len(a), len(b)))


def logprob(row: Any, token_id: int) -> float:
    """Return the logarithm of a token's probability."""
    import numpy as np

    shifted = row - row.max()
    return float(shifted[token_id] - np.log(np.exp(shifted).sum(dtype=np.float64)))


def plan_settings(settings: ModelSettings, n_ctx: int) -> PlanSettings:
    """Return the settings for the plan of a model's memory."""
    context = settings.context
    return PlanSettings(
        n_ctx=n_ctx,
        kv_type=context.kv_type,
        gpu_layers=settings.load.gpu_layers,
        n_ubatch=context.n_ubatch,
        n_seq=context.n_seq,
        kv_unified=context.kv_unified,
        swa_full=context.swa_full,
        flash_attention=context.flash_attention != "off",
        mmap=settings.load.mmap,
        repack=settings.load.repack,
    )


def context_tokens(n_prompt: int, n_predict: int, n_ctx: int | None, trained: int) -> int:
    """Return the size that a context needs; as in llama.cpp, the last token is not computed."""
    if n_ctx is None:
        n_ctx = n_prompt + max(n_predict, 1) - 1 if n_predict >= 0 else max(trained, n_prompt + 1)
    if n_prompt > n_ctx:
        raise ResourceError(
            f"the context holds {format_count(n_ctx, 'token')}, "
            f"but the prompt alone has {n_prompt}",
            hint=f"{wording('--ctx ', 'n_ctx=')}{n_prompt + max(n_predict, 1) - 1} holds them, "
            "or shorten the prompt",
        )
    return max(n_ctx, 1)


def open_header(settings: ModelSettings) -> ModelHeader:
    """Read the heads of a model, its adapters and its projector."""
    header = ModelHeader(locate(settings.model, MODEL).path, settings.lora)
    if isinstance(settings, MediaSettings):
        header.projector = find_projector(header.path, header.file.metadata, settings.mmproj)
    return header


def open_model(
    settings: ModelSettings,
    on_progress: Callable[[float], None] | None = None,
    *,
    n_ctx: int = 1,
    header: ModelHeader | None = None,
) -> Runner:
    """Load a model whose context can then be opened; close it, or use it in ``with``.

    Args:
        on_progress: Called with the part that is loaded, 0 to 1.
        n_ctx: Tokens of context that have to fit where the settings name none; of a model that
            was trained with fewer, those.
    """
    header = header or open_header(settings)
    n_ctx = settings.context.n_ctx or min(n_ctx, header.n_ctx_train or n_ctx)
    header.check(plan_settings(settings, n_ctx))
    waiting = choose_waiting(settings.load.wait)
    way = try_out(header, settings.load, settings.context)
    context = replace(settings.context, flash_attention=way.flash_attention)
    settings = replace(settings, load=replace(settings.load, repack=way.repack), context=context)
    return Runner(header, settings, n_ctx=n_ctx, waiting=waiting, on_progress=on_progress)
