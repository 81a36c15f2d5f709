"""The native engine beside its pipeline: the same answers, and the engine's own.

The engine hands a text over to the pipeline where the core defers it, and an engine that always did
so would pass every comparison. ``Both`` counts what was handed over, less the errors (the pipeline
raises their messages) and answers that are not valid UTF-8, and bounds it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from engine_cases import answer

from mtkit.engine import Engine, load_engine
from mtkit.pipeline import Pipeline
from mtkit.spec import models

if TYPE_CHECKING:
    from types import TracebackType

    from mtkit.spec import TokenizerSpec

HANDED_OVER = 0.02
"""Part of the sound texts and ids that the core may leave to the pipeline."""


class Tally:
    """What was asked for, and what of it the core left to the pipeline."""

    def __init__(self) -> None:
        self.asked = 0
        self.allowed = 0.0
        self.deferred: list[Any] = []

    def check(self) -> None:
        assert len(self.deferred) <= self.allowed, (self.asked, self.deferred[:5])


class Both:
    """An engine and its pipeline; used as a context, at whose end an own tally is checked."""

    def __init__(
        self, spec: TokenizerSpec, handed_over: float = HANDED_OVER, tally: Tally | None = None
    ) -> None:
        engine = load_engine(spec)
        assert isinstance(engine, Engine)
        self.engine = engine
        self.pipeline = Pipeline(spec)
        fails = self.pipeline.cutter._nothing is not None  # most texts: an added token is empty
        self._part = 1.0 if fails or _of_the_pipeline(spec) else handed_over
        self._own = tally is None
        self._tally = tally or Tally()

    def same(
        self,
        method: str,
        *args: Any,
        unless: str | None = None,
        counts: bool = True,
        **options: Any,
    ) -> Any:
        """Ask both, assert that they answer alike, and return the answer.

        Only the pipeline is asked where its answer is an error that says ``unless``; where it does
        not count, the core may leave it to the pipeline.
        """
        expected = answer(getattr(self.pipeline, method), *args, **options)
        if unless and isinstance(expected, tuple) and unless in str(expected):
            return expected
        before = self.engine.deferred
        got = answer(getattr(self.engine, method), *args, **options)
        assert got == expected, (method, args, options, _components(self.pipeline.spec))
        is_error = isinstance(expected, tuple)
        if not counts or is_error or not _is_sound(expected):
            return expected
        if all(map(self._is_sound_input, args)):
            self._tally.asked += 1
            self._tally.allowed += self._part
            if self.engine.deferred > before:
                self._tally.deferred.append((method, args, options))
        return expected

    def cold_and_warm(self, texts: list[str]) -> bool:
        """Compare before and after cuts are known, and tell whether there are any."""
        for text in texts[::3]:
            self.same("encode_ids", text)
        is_cut = self.engine._native.warm()
        for text in texts:
            self.same("encode", text)
            self.same("encode_ids", text)
        return is_cut

    def _is_sound_input(self, value: object) -> bool:
        """Tell whether a str has no lone surrogate; or ids are none that a ``Tokenizer`` refuses,
        and their pieces are valid UTF-8."""
        if not isinstance(value, list):
            return isinstance(value, bytes) or _is_sound(value)
        pieces = self.pipeline.spec.vocabulary.pieces
        size = len(pieces)
        return all(i >= 0 and (i >= size or _is_sound(pieces[i])) for i in value)

    def __enter__(self) -> Both:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: object, trace: TracebackType | None
    ) -> None:
        if kind is None and self._own:
            self._tally.check()


def _components(spec: TokenizerSpec) -> dict[str, object]:
    """Return what a failure has to say of a tokenizer."""
    stages = ("normalizer", "pre_tokenizer", "post_processor", "decoder", "invalid_utf8", "model")
    return {name: getattr(spec, name) for name in stages}


def _is_sound(value: object) -> bool:
    """Tell whether a text, or a decoder's answer, is valid UTF-8."""
    try:
        if isinstance(value, str):
            value.encode()
            return "\ufffd" not in value
        if isinstance(value, bytes):
            value.decode()
    except UnicodeError:
        return False
    return True


def _of_the_pipeline(spec: TokenizerSpec) -> bool:
    """Tell whether the core need not have the texts of a specification.

    No reader gives an unknown token outside the vocabulary (the rule ``unknown-id``), and no
    published tokenizer has byte tokens beside an affix, which have offsets of their own.
    """
    model = spec.model
    if isinstance(model, models.BPE) and model.byte_fallback:
        return bool(model.continuing_subword_prefix or model.end_of_word_suffix)
    unknown = getattr(model, "unk", None)
    return unknown is not None and not 0 <= unknown < len(spec.vocabulary)
