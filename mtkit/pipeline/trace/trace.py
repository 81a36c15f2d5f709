"""The walk of one text through all stages, and back, recorded step by step.

The records hold what each stage made of the text; the last one's ids are those of ``encode``.
"""

from __future__ import annotations

from mtkit.pipeline.decoders.components import clean_up_pairs, compile_decoder
from mtkit.pipeline.normalizers.aligned import Aligned
from mtkit.pipeline.normalizers.components import compile_normalizer
from mtkit.pipeline.normalizers.growth import longest, weight
from mtkit.pipeline.pre_tokenizers import byte_level_split, compile_pre_tokenizer
from mtkit.pipeline.trace.records import DecodeStep, DecodeTrace, Part, Step, Trace, Word
from mtkit.spec import decoders, pre_tokenizers
from mtkit.spec.text import Regex, Text
from mtkit.unicode.utf8 import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from mtkit.pipeline.pipeline import Pipeline

    Words = list[tuple[Aligned, int | None]]


def trace(
    pipeline: Pipeline,
    text: str | bytes,
    *,
    add_special_tokens: bool = True,
    parse_special: bool | None = None,
) -> Trace:
    """Record the way of a text."""
    spec = pipeline.spec
    content = to_text(text, spec.invalid_utf8)
    recorder = _Recorder(content)
    words: Words = pipeline.cutter.cut(Aligned.of(content), parse_special=parse_special)
    if spec.added_tokens.tokens or spec.added_tokens.first:
        recorder.add("added tokens", "raw text", "", words)
    for component in _leaves(spec.normalizer):
        run = compile_normalizer(component, pipeline.user_defined)
        for word, token_id in words:
            if token_id is None:
                run(word)
        recorder.add("normalizer", *_name(component), words)
    words = _each(
        words, lambda word: pipeline.cutter.cut_normalized(word, parse_special=parse_special)
    )
    if any(token.normalized for token in spec.added_tokens.tokens):
        recorder.add("added tokens", "normalized text", "", words)
    for component in _leaves(spec.pre_tokenizer):
        if isinstance(component, pre_tokenizers.ByteLevel) and component.use_regex:
            split = byte_level_split(component)
            recorder.add("pre-tokenizer", "ByteLevel", "split", _each(words, _without_ids(split)))
        cut = compile_pre_tokenizer(component)
        words = _each(words, _without_ids(cut))
        recorder.add("pre-tokenizer", *_name(component), words)
    words = [(word, token_id) for word, token_id in words if word.text]
    tokens = pipeline.tokens(
        text, None, add_special_tokens=add_special_tokens, parse_special=parse_special
    )
    return Trace(
        text=content,
        steps=tuple(recorder.steps),
        model=type(spec.model).__name__,
        words=tuple(_word_of(pipeline, word, token_id) for word, token_id in words),
        post_processor=tuple(type(step).__name__ for step in _leaves(spec.post_processor)),
        ids=tokens.ids,
        tokens=tokens.values,
        offsets=tokens.offsets,
    )


def trace_decode(
    pipeline: Pipeline, ids: Iterable[int], *, skip_special_tokens: bool = True
) -> DecodeTrace:
    """Record the way of ids."""
    spec, decoding, given = pipeline.spec, pipeline.decoding, tuple(ids)
    steps: list[DecodeStep] = []
    if decoding.by_bytes:
        pieces = (decoding.decode_bytes([i], skip_special_tokens=False) for i in given)
        texts = tuple(str(piece, "utf-8", "surrogateescape") for piece in pieces)
        steps.append(DecodeStep(type(spec.decoder).__name__, texts))
    else:
        current = decoding.tokens(given, skip_special_tokens=skip_special_tokens)
        most = longest(weight(current))
        for component in _leaves(spec.decoder):
            current = compile_decoder(component, lossy=True)(current, most)
            steps.append(DecodeStep(type(component).__name__, tuple(current)))
        if spec.decoder is None:
            steps.append(DecodeStep("join", (spec.join.join(current),)))
        if clean_up_pairs(spec.clean_up_spaces):
            text = decoding.decode(given, skip_special_tokens=skip_special_tokens)
            steps.append(DecodeStep("clean up spaces", (text,)))
    one_by_one = [decoding.tokens([i], skip_special_tokens=skip_special_tokens) for i in given]
    return DecodeTrace(
        ids=given,
        tokens=tuple(texts[0] if texts else None for texts in one_by_one),
        steps=tuple(steps),
        text=decoding.decode(given, skip_special_tokens=skip_special_tokens),
    )


class _Recorder:
    """Collects steps and notices which of them change nothing."""

    def __init__(self, text: str) -> None:
        self.steps: list[Step] = []
        self._before: tuple[Part, ...] = (Part(text, 0, len(text)),)

    def add(self, stage: str, name: str, detail: str, words: Words) -> None:
        parts = tuple(_part(word, token_id) for word, token_id in words)
        self.steps.append(Step(stage, name, detail, parts, parts != self._before))
        self._before = parts


def _part(word: Aligned, token_id: int | None) -> Part:
    start, end = word.offsets(0, len(word)) if word.text else (word.start, word.end)
    return Part(word.text, start, end, token_id)


def _each(words: Words, cut: Callable[[Aligned], Words]) -> Words:
    """Cut all words that are not added tokens."""
    return [
        part
        for word, token_id in words
        for part in ([(word, token_id)] if token_id is not None else cut(word))
    ]


def _without_ids(cut: Callable[[Aligned], list[Aligned]]) -> Callable[[Aligned], Words]:
    return lambda word: [(part, None) for part in cut(word)]


def _word_of(pipeline: Pipeline, word: Aligned, token_id: int | None) -> Word:
    part = _part(word, token_id)
    if token_id is not None:
        return Word(part, (token_id,), None)
    walked = pipeline.model.trace(word.text)
    return Word(part, tuple(walked.ids), walked)


def _leaves(component: object) -> list[Any]:
    """Return the components of nested sequences in order."""
    if component is None:
        return []
    steps = getattr(component, "steps", None)
    if steps is None or isinstance(component, decoders.Bytewise):
        return [component]
    return [leaf for step in steps for leaf in _leaves(step)]


def _name(component: object) -> tuple[str, str]:
    pattern = getattr(component, "pattern", None)
    if isinstance(pattern, Regex):
        return type(component).__name__, pattern.pattern
    if isinstance(pattern, Text):
        return type(component).__name__, repr(pattern.text)
    return type(component).__name__, str(getattr(component, "form", ""))
