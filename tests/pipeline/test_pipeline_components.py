"""Normalizers and pre-tokenizers equal the library's on generated texts, offsets included."""

from __future__ import annotations

import random
from typing import Any

import pipeline_cases as cases
import pytest

from mtkit.pipeline.aligned_text import AlignedText

ROUNDS = 12
TEXTS = 25


@pytest.mark.parametrize("kind", cases.NORMALIZERS)
def test_normalizers(kind: str) -> None:
    rng = random.Random(f"normalizer {kind}")
    compared = 0
    for _ in range(ROUNDS):
        drawn = cases.draw_normalizer(rng, kind)
        tokenizer = cases.every_character(drawn)
        ours = cases.pipeline_of(tokenizer)
        for _ in range(TEXTS):
            text = cases.text(rng)
            expected = cases.answer(offsets, tokenizer, text)
            got = cases.answer(offsets, ours, text)
            assert got == expected, (drawn, text)
            if expected != "fails" and text:
                aligned = AlignedText.of(text)
                ours.normalize(aligned)
                assert aligned.text == drawn.normalize_str(text), (drawn, text)
                compared += 1
    assert compared > ROUNDS * TEXTS / 2


def offsets(tokenizer: Any, text: str) -> Any:
    return tokenizer.encode(text).offsets


@pytest.mark.parametrize("kind", cases.PRE_TOKENIZERS)
def test_pre_tokenizers(kind: str) -> None:
    rng = random.Random(f"pre-tokenizer {kind}")
    for _ in range(ROUNDS):
        drawn = cases.draw_pre_tokenizer(rng, kind)
        ours = cases.pipeline_of(cases.every_character(None, drawn))
        for _ in range(TEXTS):
            text = cases.text(rng)
            expected = cases.answer(drawn.pre_tokenize_str, text) if text else []
            assert cases.answer(words, ours, text) == expected, (drawn, text)


def words(ours: Any, text: str) -> Any:
    return [(word.text, word.offsets(0, len(word))) for word, _ in ours.words(text)]


def test_normalizer_then_pre_tokenizer() -> None:
    rng = random.Random("both")
    for _ in range(60):
        normalizer, pre_tokenizer = cases.draw_normalizer(rng), cases.draw_pre_tokenizer(rng)
        tokenizer = cases.every_character(normalizer, pre_tokenizer)
        ours = cases.pipeline_of(tokenizer)
        for _ in range(10):
            text = cases.text(rng)
            expected = cases.answer(offsets, tokenizer, text)
            got = cases.answer(offsets, ours, text)
            assert got == expected, (normalizer, pre_tokenizer, text)
