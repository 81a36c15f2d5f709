"""The core remembers segments of Unigram texts; sums, ties and resets stay the pipeline's."""

from __future__ import annotations

import random

import pytest
from engine_beside_pipeline import Both

pytest.importorskip("mtkit._native")
from mtkit.base.packed import Numbers, Pieces
from mtkit.spec import TokenizerSpec, TokenType, models
from mtkit.spec.vocabulary import Vocabulary

LETTERS = "abcé"
SCALES = (1e-3, 1.0, 40.0, 5000.0, 2e5, 1e30)


def drawn(rng: random.Random, precision: str, scale: float) -> TokenizerSpec:
    """Draw a model in which U+2581 begins pieces, seldom stands inside, and scores are close."""
    inside = rng.random() < 0.3
    pieces = dict.fromkeys(["<unk>", "▁", *LETTERS[:3]])
    for _ in range(30):
        text = rng.choice(["", "▁"]) + "".join(rng.choices(LETTERS, k=rng.randint(1, 4)))
        pieces[text + "▁a" if inside and rng.random() < 0.2 else text] = None
    scores = [scale * rng.choice([-1.0, -2.0, -2.5, rng.uniform(-12, 0)]) for _ in pieces]
    types = [TokenType.UNKNOWN, *[TokenType.NORMAL] * (len(pieces) - 1)]
    vocabulary = Vocabulary(
        Pieces.of([piece.encode() for piece in pieces]),
        Numbers.of("B", types),
        Numbers.of("f", scores),
    )
    candidates = rng.choice(["any", "listed"])
    model = models.Unigram(
        unk=0, fuse_unk=rng.random() < 0.5, candidates=candidates, precision=precision
    )
    return TokenizerSpec(vocabulary, model)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_words_that_come_again(precision: str, scale: float) -> None:
    for seed in range(12):
        rng = random.Random(f"{seed} {scale}")
        spec = drawn(rng, precision, scale)
        words = ["".join(rng.choices(LETTERS + "x", k=rng.randint(1, 9))) for _ in range(20)]
        words += ["", "▁", "a" * 300, "é" * 128]
        with Both(spec) as both:
            for count in (2, 20, 200):
                text = "▁".join(rng.choices(words, k=count))
                both.same("encode_ids", text)
                both.same("encode", text)
