"""The core remembers segments of Unigram texts; sums, ties and resets stay the pipeline's."""

from __future__ import annotations

import random

import pytest
from engine_beside_pipeline import Both

pytest.importorskip("mtkit._native")
from mtkit.base.packed import Numbers, Pieces
from mtkit.spec import TokenizerSpec, TokenType, models, normalizers
from mtkit.spec.vocabulary import Vocabulary

pytestmark = pytest.mark.slow

LETTERS = "abcé一"
UNKNOWN = "x\0丁是\U0001f389"  # U+4E01 has U+4E00 beside it in the pieces, U+662F none
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


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("precision", ["f32", "f64"])
def test_words_that_come_again(precision: str, scale: float, warm: bool) -> None:
    """Long words are cut between characters, once that is ``warm``."""
    for seed in range(12):
        rng = random.Random(f"{seed} {scale}")
        spec = drawn(rng, precision, scale)
        words = ["".join(rng.choices(LETTERS + "x", k=rng.randint(1, 9))) for _ in range(20)]
        words += ["", "▁", "a" * 300, "é" * 128]
        for end in ("", "一"):
            words += ["".join(rng.choices("abc", k=k)) + end for k in range(57, 64)]
        words += ["".join(rng.choices(LETTERS + UNKNOWN, k=120)) for _ in range(3)]
        words += ["".join(rng.choices(LETTERS + "是丁" * 4, k=20)) for _ in range(3)]
        with Both(spec) as both:
            if warm:
                both.engine._native.warm()
            for count in (2, 20, 200):
                text = "▁".join(rng.choices(words, k=count))
                both.same("encode_ids", text)
                both.same("encode", text)


@pytest.mark.parametrize("fuse", [False, True])
def test_a_piece_of_less_than_a_character(fuse: bool) -> None:
    """A piece that ends inside a character is on no path: the character is unknown."""
    pieces = [b"<unk>", "▁".encode(), b"a", "是".encode()[:1], "丁".encode()[:2]]
    types = [TokenType.UNKNOWN, *[TokenType.NORMAL] * (len(pieces) - 1)]
    scores = [0.0, -1.0, -2.0, -3.0, -2.5]
    vocabulary = Vocabulary(Pieces.of(pieces), Numbers.of("B", types), Numbers.of("f", scores))
    spec = TokenizerSpec(vocabulary, models.Unigram(unk=0, fuse_unk=fuse))
    with Both(spec) as both:
        for text in ("是", "a是a", "是丁三", "丁a\U0001f389是", "三三a是"):
            both.same("encode_ids", text)
            both.same("encode", text)


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize("keep", ["pieces", "paths"])
def test_what_shares_its_beginning_with_a_kept_piece(keep: str, warm: bool) -> None:
    """Where paths are kept, such a character falls apart, and the text is no UTF-8 any more."""
    for kept in (["一"], ["£"], ["一", "£"], ["\udcc3"]):
        pieces = ["<unk>", "▁", "a", "b", "x", *kept]
        types = [2, 1, 1, 1, 1, *[4] * len(kept)]
        vocabulary = Vocabulary(
            Pieces.of([piece.encode(errors="surrogateescape") for piece in pieces]),
            Numbers.of("B", types),
            Numbers.of("f", [-1.0] * len(pieces)),
        )
        spec = TokenizerSpec(
            vocabulary,
            models.Unigram(unk=0, fuse_unk=False, candidates="listed"),
            normalizer=normalizers.Spaces(keep=keep),
            invalid_utf8="keep",
        )
        with Both(spec) as both:
            if warm:
                both.engine._native.warm()
            for text in ("买", "丁一", "a一买b", "ab" * 40 + "½x", "abé买" * 40, "ab½" * 40 + "一"):
                both.same("encode_ids", text)
                both.same("encode", text)
