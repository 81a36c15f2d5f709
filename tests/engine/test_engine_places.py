"""Places of tokens where a normalizer writes a text of its own, new and remembered."""

from __future__ import annotations

import random
from itertools import product

import pytest
from engine_beside_pipeline import Both

pytest.importorskip("mtkit._native")
from mtkit.base.packed import Numbers, Pieces
from mtkit.spec import TokenizerSpec, TokenType, models, normalizers
from mtkit.spec.pre_tokenizers import WhitespaceSplit
from mtkit.spec.vocabulary import BYTE_TOKENS, Vocabulary

TEXTS = (
    "", " ", "   ", "a", "  a  b   ", "▁a ▁ b▁", "漢字かな交じり文 漢字",
    "é漢\U0001f389 é\U0001f389\U0001f389漢 ", "ab é ab é ab", "aé漢 " * 40, "漢é" * 90,
    "x" * 300 + " é",
)  # fmt: skip
SPACES = [
    normalizers.Spaces(
        add_dummy_prefix=prefix,
        remove_extra_whitespaces=remove,
        suffix=suffix,
        keep=keep,
        prefix=where,
    )
    for prefix, remove, suffix, keep, where in product(
        (True, False), (True, False), (True, False), ("pieces", "paths"), ("text", "word")
    )
]


def vocabulary(rng: random.Random, user_defined: bool) -> Vocabulary:
    """Draw pieces of which none has U+2581 behind another character: words are cut there."""
    pieces: dict[bytes, TokenType] = {b"<unk>": TokenType.UNKNOWN}
    pieces |= dict.fromkeys(BYTE_TOKENS, TokenType.BYTE)
    pieces |= dict.fromkeys((letter.encode() for letter in "▁abxé漢"), TokenType.NORMAL)
    for _ in range(60):
        text = rng.choice(("", "▁")) + "".join(rng.choices("abé漢字か", k=rng.randint(1, 4)))
        pieces.setdefault(text.encode(), TokenType.NORMAL)
    if user_defined:
        pieces |= dict.fromkeys((text.encode() for text in ("b ", "é漢")), TokenType.USER_DEFINED)
    scores = [float(rng.randrange(-20, 0)) for _ in pieces]
    types = Numbers.of("B", pieces.values())
    return Vocabulary(Pieces.of([*pieces]), types, Numbers.of("f", scores))


@pytest.mark.parametrize("warm", [False, True])
@pytest.mark.parametrize(
    "model",
    [
        models.ScoreBPE(unk=0, byte_fallback=True),
        models.ScoreBPE(unk=0),
        models.Unigram(unk=0, byte_fallback=True),
        models.Unigram(unk=0),
    ],
    ids=repr,
)
def test_places_are_those_of_the_pipeline(model: models.Model, warm: bool) -> None:
    for number, normalizer in enumerate(SPACES):
        rng = random.Random(number)
        drawn = ["".join(rng.choices("  ▁abé漢字か\U0001f389", k=30)) for _ in range(6)]
        spec = TokenizerSpec(vocabulary(rng, number % 3 == 0), model, normalizer=normalizer)
        with Both(spec) as both:
            if warm:
                both.engine._native.warm()
            for text in (*TEXTS, *drawn) * 2:
                ids, places = both.engine.encode_offsets(text)
                wanted = both.pipeline.encode(text)
                pairs = list(zip(places[::2], places[1::2], strict=True))
                assert (ids.tolist(), pairs) == (wanted.ids, wanted.offsets), (normalizer, text)
                both.same("encode_ids", text)
            assert both.engine.deferred == 0


@pytest.mark.parametrize("pre_tokenizer", [None, WhitespaceSplit()], ids=repr)
def test_a_user_defined_piece_of_less_than_a_character(
    pre_tokenizer: WhitespaceSplit | None,
) -> None:
    """It begins behind a character and ends inside the next one: nothing is cut between them."""
    pieces: dict[bytes, TokenType] = {b"<unk>": TokenType.UNKNOWN}
    pieces |= dict.fromkeys(BYTE_TOKENS, TokenType.BYTE)
    pieces |= dict.fromkeys((b"x", "漢".encode()), TokenType.NORMAL)
    pieces[b"x" + "漢".encode()[:2]] = TokenType.USER_DEFINED
    scores = Numbers.of("f", [0.0] * len(pieces))
    vocabulary = Vocabulary(Pieces.of([*pieces]), Numbers.of("B", pieces.values()), scores)
    model = models.ScoreBPE(unk=0, byte_fallback=True)
    with Both(TokenizerSpec(vocabulary, model, pre_tokenizer=pre_tokenizer)) as both:
        for _ in range(2):
            for text in ("x漢", "漢x漢x漢漢", "xx漢"):
                both.same("encode_ids", text)
            both.engine._native.warm()
