"""Steps that go by characters are the same in the native engine, for every character."""

from __future__ import annotations

import random
import unicodedata
from io import BytesIO
from typing import TYPE_CHECKING, Any, Literal

import pytest
import sentencepiece
import tokenizers
from engine_beside_pipeline import Both
from support import FIXTURES
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from mtkit import load
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import Engine
from mtkit.spec import TokenizerSpec
from mtkit.spec import models as spec_models
from mtkit.spec import normalizers as norm
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.vocabulary import Vocabulary

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("mtkit._native")


BYTES = [b"<unk>", *(b"<0x%02X>" % byte for byte in range(256))]
VOCABULARY = Vocabulary(Pieces.of(BYTES), Numbers.of("B", [2, *[6] * 256]))


def table(unicode: str, *flags: bool) -> norm.BertTable:
    points = {0xC0: "A", 0xE9: "e\u0301", 0x301: "", 0x4E00: "漢", 0x1E9B: "\u017f\u0307"}
    values = Pieces.of([text.encode() for text in points.values()])
    return norm.BertTable(*flags, Numbers.of("I", list(points)), values, unicode)


NORMALIZERS = [
    norm.Bert(per_character=True),
    norm.Bert(per_character=True, lowercase=False),
    norm.Bert(per_character=True, clean_text=False, handle_chinese_chars=False),
    norm.Bert(per_character=True, strip_accents=False),
    norm.Bert(per_character=True, strip_accents=True, lowercase=False),
    table("", True, True, True, True),
    table("16.0", True, True, True, True),
    table("15.0", False, False, True, False),
    table("", True, False, False, True),
    table("", False, True, False, False),
]


def assert_equal(normalizer: norm.Normalizer, texts: list[str | bytes]) -> None:
    """The bytes of the normalized text are the ids."""
    for invalid in ("replace", "keep"):
        spec = TokenizerSpec(
            VOCABULARY,
            spec_models.Characters(unk=0, byte_fallback=True),
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


# Scripts and digit groups are cut natively where the pipeline cuts them.


WITH_MARK = Vocabulary(Pieces.of([*BYTES, "\u2581".encode()]), Numbers.of("B", [2, *[6] * 256, 1]))
ALPHABET = (
    "ab é\u0301漢かカー字한국ไทย\u0589\u061c\u0953\u0954देवабв1234٣٤½Ⅷ .,'\t\u200d😀\U000e0100"
)


def assert_same_cuts(cut: pre.PreTokenizer, texts: list[str | bytes]) -> None:
    """Each word is a mark in front of its bytes."""
    spec = TokenizerSpec(
        WITH_MARK,
        spec_models.Characters(unk=0, byte_fallback=True),
        pre_tokenizer=pre.Sequence((cut, pre.MarkSpaces(prefix=True))),
        invalid_utf8="keep",
    )
    with Both(spec) as both:
        for text in texts:
            both.same("encode_ids", text)


@pytest.mark.parametrize("cut", [pre.UnicodeScripts(), pre.DigitGroups()])
def test_cuts_of_texts(cut: pre.PreTokenizer) -> None:
    rng = random.Random(6)
    texts: list[str | bytes] = ["", "12345678 1 22 4444", "abc1234", b"a\xff1\xe4\xb82222"]
    texts += ["".join(rng.choices(ALPHABET, k=rng.randrange(30))) for _ in range(300)]
    texts += ["".join(rng.choices("0123456 x", k=rng.randrange(30))) for _ in range(100)]
    assert_same_cuts(cut, texts)


@pytest.mark.slow
@pytest.mark.parametrize("cut", [pre.UnicodeScripts(), pre.DigitGroups()])
def test_cuts_at_every_character(cut: pre.PreTokenizer) -> None:
    """Between a Latin letter and a digit, each shows whether it stays with one or the other."""
    codes = [
        *range(0x3400), *range(0x9F00, 0xD800, 5), *range(0xE000, 0x32000, 7), 0x9FFF, 0x10FFFF,
    ]  # fmt: skip
    texts: list[str | bytes] = [
        "".join(f"a{chr(c)}b1" for c in codes[at : at + 500]) for at in range(0, len(codes), 500)
    ]
    assert_same_cuts(cut, texts)


# Normal forms: composed characters that stay as they are beside those that do not.


COMPOSED = [
    chr(c)
    for c in range(0x80, 0x30000)
    if unicodedata.decomposition(chr(c)) and not 0xAC00 <= c < 0xD7A4
]
MARKS = [chr(c) for c in range(0x300, 0x20000) if unicodedata.combining(chr(c))]
# The second halves of composed characters that are no marks, starters, and Hangul in pieces.
OTHERS = [*"\u09be\u0b57\u0dcf\u1b35\U000110ba\U0001611e\U00016121\U00016d67\U00016d68"]
OTHERS += [*"aeinoE\u0441\u1100\u1161\u11a8\uac00\uac01\u4e2d\u3001\u3042\u304b=<> \u1025\u0928"]


@pytest.mark.parametrize("form", ["NFC", "NFKC", "NFD", "NFKD"])
def test_normal_forms(form: Literal["NFC", "NFKC", "NFD", "NFKD"], tmp_path: Path) -> None:
    """Every byte has an id: ids tell the normalized text. A long text knows what is stable."""
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    reference = tokenizers.Tokenizer(
        models.BPE(vocab={letter: i for i, letter in enumerate(letters)}, merges=[])
    )
    reference.normalizer = getattr(normalizers, form)()
    reference.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    path = tmp_path / "tokenizer.json"
    path.write_text(reference.to_str(), encoding="utf-8")
    tokenizer = load(path)
    rng = random.Random(form)
    texts = ["".join(COMPOSED), " ".join(COMPOSED)]
    for _ in range(40):
        beside = rng.sample(COMPOSED, 60) + rng.sample(MARKS, 30) + OTHERS
        texts.append("".join(rng.choices(beside, k=1000)))
        texts += ("".join(rng.choices(beside, k=6)) for _ in range(20))
    changed = 0
    for text in texts:
        assert tokenizer.encode_ids(text) == reference.encode(text).ids, ascii(text)
        changed += unicodedata.normalize(form, text) != text
    assert changed > len(texts) / 2


# Characters that a character map leaves alone need no look for clusters; the library takes one.


JOINS = "\u0301\u200d\u0e33\u0903\u1100\u1161\u11a8\u0600\u094d\u0915\ufe0f\U0001f468\u302a"
"""What joins a cluster, in front of it or behind."""


def by_bytes(path: Path) -> tuple[Any, Any]:
    """Return a tokenizer of bytes behind a real character map, of the library and ours."""
    normalizer: Any = load(FIXTURES / "spm-unigram" / "tokenizer.model").spec.normalizer
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    library = Tokenizer(models.BPE({letter: i for i, letter in enumerate(letters)}, []))
    library.normalizer = normalizers.Precompiled(normalizer.charsmap)
    library.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    library.save(str(path))
    return library, load(path)


def test_each_character_between_others(tmp_path: Path) -> None:
    library, ours = by_bytes(tmp_path / "tokenizer.json")
    assert isinstance(ours.engine, Engine)
    rng = random.Random(5)
    points = [c for c in range(0x80, 0x10000) if not 0xD800 <= c < 0xE000]
    border = [c for c in points if c % 64 in (0, 63)]
    pool = [*map(chr, rng.sample(points, 3000)), *(JOINS + "漢字かな한글abc ") * 30]
    texts = [
        f"{chr(c)}漢{chr(c)}a{chr(c)}\u0301字{chr(c)}\u200d{chr(c)}{chr(c)}"
        for c in {*border, *rng.sample(points, 6000)}
    ]
    texts += ["".join(rng.choices(pool, k=rng.randrange(1, 12))) for _ in range(6000)]
    changed = 0
    for text, wanted in zip(texts, library.encode_batch(texts), strict=True):
        assert ours.encode_ids(text) == wanted.ids, ascii(text)
        ids, offsets = ours.encode_offsets(text)
        assert list(ids) == wanted.ids
        assert [tuple(place) for place in offsets] == wanted.offsets, ascii(text)
        changed += library.normalizer.normalize_str(text) != text
    assert changed > 1000
    assert ours.engine.deferred == 0


def by_words(path: Path) -> tuple[Any, Any]:
    """Return one of words behind the same map, whose pieces have few characters beyond ASCII."""
    normalizer: Any = load(FIXTURES / "spm-unigram" / "tokenizer.model").spec.normalizer
    pieces = ["<unk>", "▁", *map(chr, range(0x21, 0x7F)), "▁x", "xx", "…", "漢,", "▁(", "字"]
    scores = [0.0, *(-2.0 - i % 7 / 4 for i in range(1, len(pieces)))]
    library = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unk_id=0))
    library.normalizer = normalizers.Precompiled(normalizer.charsmap)
    library.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
    )
    library.save(str(path))
    return library, load(path)


def test_each_character_in_words(tmp_path: Path) -> None:
    """What a character becomes by itself is remembered: no neighbor may change that."""
    library, ours = by_words(tmp_path / "tokenizer.json")
    ours.engine._native.warm()
    rng = random.Random(6)
    points = [c for c in range(0x80, 0x11000) if not 0xD800 <= c < 0xE000]
    texts = [
        f"{c}漢{c} {c}x{c} x{c}, {c}\u0301語{c}\u200d {c}{c}\n{c}"
        for c in map(chr, rng.sample(points, 9000))
    ]
    common = [*(JOINS + "漢字語かな한글xx(,) \n\r\u00a0\u3000。，“…▁")] * 20
    pool = [*map(chr, rng.sample(points, 2000)), *common]
    texts += ["".join(rng.choices(pool, k=rng.randrange(1, 40))) for _ in range(9000)]
    texts += ["".join(rng.choices(common, k=rng.randrange(1, 40))) for _ in range(9000)]
    blanks = 0
    for text, wanted in zip(texts, library.encode_batch(texts), strict=True):
        for _ in range(2):  # the second time it is remembered
            assert ours.encode_ids(text) == wanted.ids, ascii(text)
            ids, offsets = ours.encode_offsets(text)
            assert list(ids) == wanted.ids
            assert [tuple(place) for place in offsets] == wanted.offsets, ascii(text)
        blanks += "\u00a0" in text
    assert blanks > 1000
    assert ours.engine.deferred == 0


def trained_map(rules: dict[str, str], folder: Path) -> bytes:
    """Return the map of such rules."""
    lines = [
        "\t".join(" ".join(f"{ord(c):X}" for c in text) for text in rule) for rule in rules.items()
    ]
    (folder / "rules.tsv").write_text("\n".join(lines) + "\n")
    file = BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(["a b c"] * 5),
        model_writer=file,
        model_type="char",
        vocab_size=8,
        hard_vocab_limit=False,
        normalization_rule_tsv=str(folder / "rules.tsv"),
        minloglevel=3,
    )
    (folder / "tokenizer.model").write_bytes(file.getvalue())
    normalizer: Any = load(folder / "tokenizer.model").spec.normalizer
    return bytes(normalizer.charsmap)


def test_a_letter_that_the_map_changes(tmp_path: Path) -> None:
    """What becomes of a character is asked for between letters x: they may not be themselves."""
    vocabulary = {"[UNK]": 0, "漢": 1, "字": 2, "ax": 3, "a": 4, "##x": 5, "##ax": 6, "##漢": 7}
    library = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    library.normalizer = normalizers.Precompiled(trained_map({"x": "ax"}, tmp_path))
    library.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    library.save(str(tmp_path / "tokenizer.json"))
    ours = load(tmp_path / "tokenizer.json")
    assert isinstance(ours.engine, Engine)
    ours.engine._native.warm()
    for text in ("漢 字", "x 漢 字 xx 字", "a漢 x漢 字x x x", "漢 字 " * 90):
        wanted = library.encode(text)
        ids, offsets = ours.encode_offsets(text)
        assert ours.encode_ids(text) == list(ids) == wanted.ids
        assert [tuple(place) for place in offsets] == wanted.offsets
