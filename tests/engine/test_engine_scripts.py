"""Scripts and digit groups are cut natively where the pipeline cuts them."""

from __future__ import annotations

import random

import pytest
from engine_beside_pipeline import Both

from mtkit.base.packed import Numbers, Pieces
from mtkit.spec import TokenizerSpec, models
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.vocabulary import Vocabulary

pytest.importorskip("mtkit._native")

BYTES = [b"<unk>", *(b"<0x%02X>" % byte for byte in range(256)), "\u2581".encode()]
VOCABULARY = Vocabulary(Pieces.of(BYTES), Numbers.of("B", [2, *[6] * 256, 1]))
ALPHABET = (
    "ab é\u0301漢かカー字한국ไทย\u0589\u061c\u0953\u0954देवабв1234٣٤½Ⅷ .,'\t\u200d😀\U000e0100"
)


def assert_equal(cut: pre.PreTokenizer, texts: list[str | bytes]) -> None:
    """Each word is a mark in front of its bytes."""
    spec = TokenizerSpec(
        VOCABULARY,
        models.Characters(unk=0, byte_fallback=True),
        pre_tokenizer=pre.Sequence((cut, pre.MarkSpaces(prefix=True))),
        invalid_utf8="keep",
    )
    with Both(spec) as both:
        for text in texts:
            both.same("encode_ids", text)


@pytest.mark.parametrize("cut", [pre.UnicodeScripts(), pre.DigitGroups()])
def test_texts(cut: pre.PreTokenizer) -> None:
    rng = random.Random(6)
    texts: list[str | bytes] = ["", "12345678 1 22 4444", "abc1234", b"a\xff1\xe4\xb82222"]
    texts += ["".join(rng.choices(ALPHABET, k=rng.randrange(30))) for _ in range(300)]
    texts += ["".join(rng.choices("0123456 x", k=rng.randrange(30))) for _ in range(100)]
    assert_equal(cut, texts)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [pre.UnicodeScripts(), pre.DigitGroups()])
def test_every_character(cut: pre.PreTokenizer) -> None:
    """Between a Latin letter and a digit, each shows whether it stays with one or the other."""
    codes = [
        *range(0x3400),
        *range(0x9F00, 0xD800, 5),
        *range(0xE000, 0x32000, 7),
        0x9FFF,
        0x10FFFF,
    ]
    texts: list[str | bytes] = [
        "".join(f"a{chr(c)}b1" for c in codes[at : at + 500]) for at in range(0, len(codes), 500)
    ]
    assert_equal(cut, texts)
