"""Normal forms: composed characters that stay as they are beside those that do not."""

from __future__ import annotations

import random
import unicodedata
from typing import TYPE_CHECKING, Literal

import pytest
import tokenizers
from tokenizers import models, normalizers, pre_tokenizers

pytest.importorskip("mtkit._native")
from mtkit import load

if TYPE_CHECKING:
    from pathlib import Path

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
