"""BERT's clean-ups character by character are the same in the native engine as in the pipeline."""

from __future__ import annotations

import pytest
from engine_beside_pipeline import Both

from mtkit.base.packed import Numbers, Pieces
from mtkit.spec import TokenizerSpec, models, normalizers
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.vocabulary import Vocabulary

pytest.importorskip("mtkit._native")

BYTES = [b"<unk>", *(b"<0x%02X>" % byte for byte in range(256))]
VOCABULARY = Vocabulary(Pieces.of(BYTES), Numbers.of("B", [2, *[6] * 256]))


def table(unicode: str, *flags: bool) -> normalizers.BertTable:
    points = {0xC0: "A", 0xE9: "e\u0301", 0x301: "", 0x4E00: "漢", 0x1E9B: "\u017f\u0307"}
    values = Pieces.of([text.encode() for text in points.values()])
    return normalizers.BertTable(*flags, Numbers.of("I", list(points)), values, unicode)


NORMALIZERS = [
    normalizers.Bert(per_character=True),
    normalizers.Bert(per_character=True, lowercase=False),
    normalizers.Bert(per_character=True, clean_text=False, handle_chinese_chars=False),
    normalizers.Bert(per_character=True, strip_accents=False),
    normalizers.Bert(per_character=True, strip_accents=True, lowercase=False),
    table("", True, True, True, True),
    table("16.0", True, True, True, True),
    table("15.0", False, False, True, False),
    table("", True, False, False, True),
    table("", False, True, False, False),
]


def assert_equal(normalizer: normalizers.Normalizer, texts: list[str | bytes]) -> None:
    """The bytes of the normalized text are the ids."""
    for invalid in ("replace", "keep"):
        spec = TokenizerSpec(
            VOCABULARY,
            models.Characters(unk=0, byte_fallback=True),
            normalizer=normalizer,
            pre_tokenizer=pre.Metaspace(prepend_scheme="first"),
            invalid_utf8=invalid,
        )
        with Both(spec) as both:
            for text in texts:
                both.same("encode_ids", text)


@pytest.mark.parametrize("number", range(len(NORMALIZERS)))
def test_texts(number: int) -> None:
    texts: list[str | bytes] = [
        "",
        "\x00\ufffdÀÉ e\u0301\u0301 漢字\U0002b820\U0002b920 한국어 각",
        "a\tb\u00a0c\x85d\x0be\u2028f\u3000g\u200bh\ue000i",
        "\u0301start \u1e9b\u0323 İSTANBUL ΣΊΣΥΦΟΣ ǅ",
        b"\xff broken \xe4\xb8 bytes \xed\xa0\x80",
    ]
    assert_equal(NORMALIZERS[number], texts)


@pytest.mark.parametrize("number", [0, 5])
def test_every_character(number: int) -> None:
    """All that Unicode gives a name or may give one, those of private use but for some."""
    codes = [
        *range(0xD800),
        *range(0xE000, 0xE100),
        *range(0xF900, 0x3FFFF, 3),
        *range(0xE0000, 0xE0200),
    ]
    text = "".join(map(chr, codes))
    assert_equal(NORMALIZERS[number], [text[at : at + 5000] for at in range(0, len(text), 5000)])
