"""Every step from a text to its ids and back, written down, as records and as JSON values.

The records hold what each stage made of the text; the last one's ids are those of ``encode``.
"""

from __future__ import annotations

from mtkit.base.escape import byte_escapes
from mtkit.base.record import Record, fields
from mtkit.pipeline.aligned_text import AlignedText
from mtkit.pipeline.decoders import clean_up_pairs, decoder_stages, run_stages
from mtkit.pipeline.growth import decoded_limit, token_weight
from mtkit.pipeline.normalizers import compile_normalizer
from mtkit.pipeline.pre_tokenizers import byte_level_split, compile_pre_tokenizer
from mtkit.spec import components_of, pre_tokenizers
from mtkit.spec.text import Regex, Text
from mtkit.unicode.utf8 import to_text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

    from mtkit.pipeline.models import WordTrace
    from mtkit.pipeline.pipeline import Pipeline

    Words = list[tuple[AlignedText, int | None]]


def json_value(value: object) -> Any:
    r"""Return records as JSON values, bytes that are not valid UTF-8 as ``\xNN``."""
    if isinstance(value, Record):
        return {name: json_value(getattr(value, name)) for name in fields(value)}
    if isinstance(value, (list, tuple)):
        return [json_value(entry) for entry in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return byte_escapes(value) if isinstance(value, str) else value


class Part(Record):
    """A stretch of text.

    Attributes:
        id: Its id where it is an added token.
    """

    text: str
    start: int
    end: int
    id: int | None = None


class Step(Record):
    """What one component made of all parts.

    Attributes:
        stage: ``added tokens``, ``normalizer`` or ``pre-tokenizer``.
    """

    stage: str
    name: str
    detail: str
    parts: tuple[Part, ...]
    changed: bool


class Word(Record):
    """A word and its tokens.

    Attributes:
        model: How the model found them; None for an added token.
    """

    part: Part
    ids: tuple[int, ...]
    model: WordTrace | None


def _word_document(word: Word) -> dict[str, object]:
    """Return a word with its merges, without values that are None."""
    values: dict[str, object] = {
        "word": byte_escapes(word.part.text),
        "offsets": [word.part.start, word.part.end],
        "added_token": word.model is None,
    }
    if word.model is not None:
        values["start"] = json_value(word.model.start)
        values["steps"] = [
            {name: value for name, value in json_value(merge).items() if value is not None}
            for merge in word.model.merges
        ]
        values["pieces"] = json_value(word.model.pieces)
    return {**values, "ids": list(word.ids)}


class Trace(Record):
    """The way from a text to its ids.

    Attributes:
        tokens: What each id is spelled.
    """

    text: str
    steps: tuple[Step, ...]
    model: str
    words: tuple[Word, ...]
    post_processor: tuple[str, ...]
    ids: list[int]
    tokens: list[str]
    offsets: list[tuple[int, int]]

    def to_json(self) -> dict[str, object]:
        """Return the trace as JSON values."""
        return {
            "text": byte_escapes(self.text),
            "steps": [json_value(step) for step in self.steps],
            "model": self.model,
            "words": [_word_document(word) for word in self.words],
            "post_processor": list(self.post_processor),
            "ids": self.ids,
            "tokens": [byte_escapes(token) for token in self.tokens],
            "offsets": [list(pair) for pair in self.offsets],
        }


class DecodeStep(Record):
    """What one decoder made of the tokens."""

    name: str
    tokens: tuple[str, ...]


class DecodeTrace(Record):
    """The way from ids to text.

    Attributes:
        tokens: What each id is spelled; None where it is left out.
    """

    ids: tuple[int, ...]
    tokens: tuple[str | None, ...]
    steps: tuple[DecodeStep, ...]
    text: str

    def to_json(self) -> dict[str, object]:
        """Return the trace as JSON values."""
        return dict(json_value(self))


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
    words: Words = pipeline.cutter.cut(AlignedText.of(content), parse_special=parse_special)
    if spec.added_tokens.tokens or spec.added_tokens.first:
        recorder.add("added tokens", "raw text", "", words)
    for component in components_of(spec.normalizer):
        run = compile_normalizer(component, pipeline.user_defined)
        for word, token_id in words:
            if token_id is None:
                run(word)
        recorder.add("normalizer", *_name_and_detail(component), words)
    words = _cut_words(
        words, lambda word: pipeline.cutter.cut_normalized(word, parse_special=parse_special)
    )
    if any(token.normalized for token in spec.added_tokens.tokens):
        recorder.add("added tokens", "normalized text", "", words)
    for component in components_of(spec.pre_tokenizer):
        if isinstance(component, pre_tokenizers.ByteLevel) and component.use_regex:
            split = byte_level_split(component)
            recorder.add(
                "pre-tokenizer", "ByteLevel", "split", _cut_words(words, _without_ids(split))
            )
        cut = compile_pre_tokenizer(component)
        words = _cut_words(words, _without_ids(cut))
        recorder.add("pre-tokenizer", *_name_and_detail(component), words)
    words = [(word, token_id) for word, token_id in words if word.text]
    tokens = pipeline.tokens(
        text, None, add_special_tokens=add_special_tokens, parse_special=parse_special
    )
    return Trace(
        text=content,
        steps=tuple(recorder.steps),
        model=type(spec.model).__name__,
        words=tuple(_word_of(pipeline, word, token_id) for word, token_id in words),
        post_processor=tuple(type(step).__name__ for step in components_of(spec.post_processor)),
        ids=tokens.ids,
        tokens=tokens.values,
        offsets=tokens.offsets,
    )


def trace_decode(
    pipeline: Pipeline, ids: Iterable[int], *, skip_special_tokens: bool = True
) -> DecodeTrace:
    """Record the way of ids."""
    spec, decoding, ids = pipeline.spec, pipeline.decoding, tuple(ids)
    steps: list[DecodeStep] = []
    if decoding.by_bytes:
        pieces = (decoding.decode_bytes([i], skip_special_tokens=False) for i in ids)
        texts = tuple(str(piece, "utf-8", "surrogateescape") for piece in pieces)
        steps.append(DecodeStep(type(spec.decoder).__name__, texts))
    else:
        current = decoding.tokens(ids, skip_special_tokens=skip_special_tokens)
        limit, fused = decoded_limit(token_weight(current)), False
        for component in components_of(spec.decoder):
            stages, fused = decoder_stages(component, lossy=True, fused=fused)
            current = run_stages(stages, current, limit)
            if fused:
                current = ["".join(current)]
            steps.append(DecodeStep(type(component).__name__, tuple(current)))
        if spec.decoder is None:
            steps.append(DecodeStep("join", (spec.join.join(current),)))
        if clean_up_pairs(spec.clean_up_spaces):
            text = decoding.decode(ids, skip_special_tokens=skip_special_tokens)
            steps.append(DecodeStep("clean up spaces", (text,)))
    one_by_one = [decoding.tokens([i], skip_special_tokens=skip_special_tokens) for i in ids]
    return DecodeTrace(
        ids=ids,
        tokens=tuple(texts[0] if texts else None for texts in one_by_one),
        steps=tuple(steps),
        text=decoding.decode(ids, skip_special_tokens=skip_special_tokens),
    )


class _Recorder:
    """Collects steps and notices which of them change nothing."""

    def __init__(self, text: str) -> None:
        self.steps: list[Step] = []
        self._before: tuple[Part, ...] = (Part(text, 0, len(text)),)

    def add(self, stage: str, name: str, detail: str, words: Words) -> None:
        parts = tuple(_part_of(word, token_id) for word, token_id in words)
        self.steps.append(Step(stage, name, detail, parts, parts != self._before))
        self._before = parts


def _part_of(word: AlignedText, token_id: int | None) -> Part:
    start, end = word.offsets(0, len(word)) if word.text else (word.start, word.end)
    return Part(word.text, start, end, token_id)


def _cut_words(words: Words, cut: Callable[[AlignedText], Words]) -> Words:
    """Cut all words that are not added tokens."""
    return [
        part
        for word, token_id in words
        for part in ([(word, token_id)] if token_id is not None else cut(word))
    ]


def _without_ids(cut: Callable[[AlignedText], list[AlignedText]]) -> Callable[[AlignedText], Words]:
    return lambda word: [(part, None) for part in cut(word)]


def _word_of(pipeline: Pipeline, word: AlignedText, token_id: int | None) -> Word:
    part = _part_of(word, token_id)
    if token_id is not None:
        return Word(part, (token_id,), None)
    walked = pipeline.model.trace(word.text)
    return Word(part, tuple(walked.ids), walked)


def _name_and_detail(component: object) -> tuple[str, str]:
    pattern = getattr(component, "pattern", None)
    if isinstance(pattern, Regex):
        return type(component).__name__, pattern.pattern
    if isinstance(pattern, Text):
        return type(component).__name__, repr(pattern.text)
    return type(component).__name__, str(getattr(component, "form", ""))
