"""The trace of every model kind ends in what ``encode`` gives, that of ids in ``decode``."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pipeline_cases as cases
import pytest
from pipeline_cases import draw_tokenizer
from support import FIXTURES

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record
from mtkit.formats import read
from mtkit.pipeline import Pipeline
from mtkit.pipeline.models.bpe import SYMBOLS_NEAR, SYMBOLS_SHOWN
from mtkit.pipeline.trace import trace, trace_decode
from mtkit.spec import TokenizerSpec, Vocabulary, models, pre_tokenizers, replace
from mtkit.unicode.utf8 import BYTE_LETTERS

if TYPE_CHECKING:
    from mtkit.pipeline.models import MergeStep

FILES = [
    "bbpe-8k/tokenizer.json", "bbpe-8k/vocab.gguf", "spm-bpe/tokenizer.model",
    "spm-bpe/tokenizer.bin", "spm-bpe/vocab.gguf", "spm-unigram/tokenizer.model",
    "spm-unigram/vocab.gguf", "spm-unigram-id/tokenizer.json", "wordpiece/tokenizer.json",
    "wordpiece/vocab.gguf",
]  # fmt: skip
TEXTS = [
    "", "Hello, MNN!", "  two  spaces\n", "Grüße, 世界! \U0001f600", "<s>x</s> don't", "1234567",
]  # fmt: skip
BYTES = [b"<0x%02X>" % byte for byte in range(256)]
WORDS = [b"a", b"b", b"c", b"ab", b"abc", b" ", b"\xe2\x96\x81", b"\xe2\x96\x81a", b"<unk>"]


def small(model: Any, pieces: list[bytes]) -> TokenizerSpec:
    types = [6 if piece.startswith(b"<0x") else 1 for piece in pieces]
    scores = [-float(len(piece)) for piece in pieces]
    vocabulary = Vocabulary(Pieces.of(pieces), Numbers.of("B", types), Numbers.of("f", scores))
    return TokenizerSpec(vocabulary, model)


SINGLE = [bytes((byte,)) for byte in range(256)]
BUILT = {
    "RankBPE": replace(
        small(models.RankBPE(), [*(letter.encode() for letter in BYTE_LETTERS), b"ab", b"abc"]),
        pre_tokenizer=pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
    ),
    "Trie": small(models.Trie(), [*SINGLE, b"ab", b"abc"]),
    "LooseBPE": small(
        models.LooseBPE(Numbers.of("I", (256, 257)), Numbers.of("I", (0,))), BYTES + WORDS
    ),
    "LatticeUnigram": small(models.LatticeUnigram(264, byte_fallback=True), BYTES + WORDS),
    "Characters": small(models.Characters(264), BYTES + WORDS),
    "Words": small(models.Words(264), BYTES + WORDS),
    "WordLevel": small(models.WordLevel(264), BYTES + WORDS),
    "ShortestPath": small(models.ShortestPath(), [b"<unk>", *BYTES, *WORDS]),
    "SectionBPE": small(
        models.SectionBPE(
            models.BPE(models.Merges(Numbers.of("I", (259, 257)), Pieces.of([]))),
            pre_tokenizers.WhitespaceSplit(),
            *(256, 257, 258),
        ),
        [*BYTES, b"T", b"e", b"?", b"h", b"he"],
    ),
}


def compare(pipeline: Pipeline, text: str, **options: Any) -> None:
    walked = trace(pipeline, text, **options)
    assert walked.ids == pipeline.encode_ids(text, **options)
    found = [token_id for word in walked.words for token_id in word.ids]
    if pipeline.spec.post_processor is None:
        assert [*pipeline.spec.prefix_ids, *found] == walked.ids
    else:
        assert set(found) <= set(walked.ids)
    assert json.loads(json.dumps(walked.to_json()))["ids"] == walked.ids
    for skip in (False, True):
        back = trace_decode(pipeline, walked.ids, skip_special_tokens=skip)
        assert back.text == pipeline.decode(walked.ids, skip_special_tokens=skip)
        assert json.loads(json.dumps(back.to_json()))["text"] == back.text


@pytest.mark.parametrize("file", FILES)
def test_files(file: str) -> None:
    pipeline = Pipeline(read(Source.open(str(FIXTURES / file)))[1].spec)
    for text in TEXTS:
        compare(pipeline, text)


@pytest.mark.parametrize("kind", BUILT)
def test_built(kind: str) -> None:
    pipeline = Pipeline(BUILT[kind])
    for text in ("abcab", "a b", "\u2581ab"):
        compare(pipeline, text)


def test_generated() -> None:
    rng = random.Random("trace")
    compared = 0
    for _ in range(60):
        pipeline = cases.pipeline_of(draw_tokenizer(rng))
        for _ in range(4):
            text = cases.text(rng)
            if cases.answer(pipeline.encode_ids, text) == "fails":
                continue
            ids = pipeline.encode_ids(text)
            decoded = [
                cases.answer(pipeline.decode, ids, skip_special_tokens=skip)
                for skip in (False, True)
            ]
            if "fails" in decoded:
                continue
            compare(pipeline, text)
            compared += 1
    assert compared > 150


def test_every_model_kind_is_traced() -> None:
    kinds = {
        name
        for name, value in vars(models).items()
        if isinstance(value, type)
        and issubclass(value, Record)
        and value.__module__ == models.__name__
    } - {"Merges"}
    read_kinds = {
        type(read(Source.open(str(FIXTURES / file)))[1].spec.model).__name__ for file in FILES
    }
    assert kinds == read_kinds | set(BUILT)


def test_unchanged_steps_say_so() -> None:
    pipeline = Pipeline(read(Source.open(str(FIXTURES / "wordpiece/tokenizer.json")))[1].spec)
    walked = trace(pipeline, "HELLO")
    normalizer = next(step for step in walked.steps if step.stage == "normalizer")
    assert normalizer.changed
    assert normalizer.parts[0].text == "hello"
    assert not next(s for s in trace(pipeline, "hello").steps if s.stage == "normalizer").changed


@pytest.mark.parametrize("name", ["BPE", "LooseBPE", "RankBPE", "ScoreBPE"])
def test_merges_of_a_long_word_show_what_is_near(name: str) -> None:
    """Each showed the whole word, the square of its length."""
    file = {"BPE": "bbpe-8k/tokenizer.json", "ScoreBPE": "spm-bpe/tokenizer.model"}.get(name)
    spec = read(Source.open(str(FIXTURES / file)))[1].spec if file else BUILT[name]
    pipeline = Pipeline(replace(spec, normalizer=None, pre_tokenizer=None))
    shown = []
    for size in (SYMBOLS_SHOWN, 2000, 4000):
        word = trace(pipeline, "ab" * (size // 2)).words[0]
        assert word.model is not None
        merges = word.model.merges
        assert all(
            (merge.more is None) == (len(word.model.start) <= SYMBOLS_SHOWN) for merge in merges
        )
        shown.append(sum(len(merge.after) for merge in merges))
        whole = list(word.model.start)  # what is near is a part of all that is left
        for merge in merges[:50]:
            _merge_one(whole, merge)
    assert merges
    assert shown[2] < 2.5 * shown[1]
    compare(pipeline, "ab" * 500)


def _merge_one(symbols: list[bytes], merge: MergeStep) -> None:
    """Merge the pair in all symbols at the place that the step shows."""
    front, behind = merge.more or (False, False)
    size = len(merge.after)
    for at in range(len(symbols) - 1):
        if (symbols[at], symbols[at + 1]) != merge.pair:
            continue
        made = [*symbols[:at], b"".join(merge.pair), *symbols[at + 2 :]]
        start = max(at - SYMBOLS_NEAR, 0) if merge.more else 0
        if tuple(made[start : start + size]) == merge.after:
            assert (front, behind) == (start > 0, start + size < len(made))
            symbols[:] = made
            return
    raise AssertionError(merge)


def test_places_outside_a_word_of_a_section(monkeypatch: pytest.MonkeyPatch) -> None:
    """Affixes of a damaged file gave such places to byte tokens; it was an IndexError."""
    model: Any = Pipeline(BUILT["SectionBPE"]).model
    monkeypatch.setattr(model.bpe, "encode", lambda _: [(0, -7, -8), (1, 5, 9)])
    assert [s[1:] for s in model.encode("ab abc")] == [(0, 1), (1, 2), (3, 4), (5, 6)]
