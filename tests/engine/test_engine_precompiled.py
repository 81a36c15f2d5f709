"""Characters that a character map leaves alone need no look for clusters; the library takes one."""

from __future__ import annotations

import random
from io import BytesIO
from typing import TYPE_CHECKING, Any

import sentencepiece
from support import FIXTURES
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from mtkit import load
from mtkit.engine import Engine

if TYPE_CHECKING:
    from pathlib import Path

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
