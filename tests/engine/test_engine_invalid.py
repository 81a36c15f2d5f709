"""Texts that are not valid UTF-8: the core itself gives what the pipeline gives.

A byte that no character has is drawn among those around it that may go on with it: lead bytes in
front of marks and blanks, surrogates, long forms, code points beyond U+10FFFF, cut characters.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from drawn_tokenizers import say_the_same, tokenizers
from engine_beside_pipeline import HANDED_OVER, Both
from engine_cases import FILES, fixture
from hypothesis import strategies as st
from support import FIXTURES

import mtkit
from mtkit.spec import TokenizerSpec, normalizers, replace

pytest.importorskip("mtkit._native")

if TYPE_CHECKING:
    from mtkit.unicode.utf8 import Rule

RULES: tuple[Rule, ...] = ("replace", "keep", "loose", "wide")
METHODS = "encode_ids", "encode", "encode_offsets"
BAD = [
    b"\xff", b"\x80", b"\xbf", b"\xc0", b"\xe2", b"\xe2\x96", b"\xf0", b"\xf0\x9f", b"\xf4",
    b"\xf8",
    b"\xc0\xaf", b"\xc1\x81", b"\xe0\x80\x80", b"\xf0\x82\x96\x81", b"\xc0\xa0",  # long forms
    b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xb2\x80", b"\xed\xa0\xbd\xed\xb8\x80",  # surrogates
    b"\xf0\x8d\xa0\x80", b"\xf0\x8d\xb2\x80", b"\xf4\x90\x80\x80", b"\xf7\xbf\xbf\xbf",
]  # fmt: skip
GOOD = ["a", "ab", " ", "  ", "\n", "1", "\u2581", "\u2581a", "é", "漢", "漢字", "👍🏽", "!", ".",
        "'s", "e\u0301", "ﬁ", "<s>", "Hello", "word", "\u3000", "\u00a0", "İ"]  # fmt: skip


def texts(rng: random.Random, count: int, longest: int = 30) -> list[bytes]:
    """Return texts of which most have bytes that are not valid UTF-8."""
    made: list[bytes] = []
    for _ in range(count):
        rare = rng.choice((0.02, 0.2, 0.6))
        parts = rng.choices(GOOD, k=rng.randrange(longest))
        made.append(b"".join(rng.choice(BAD) if rng.random() < rare else p.encode() for p in parts))
    return made


def most(spec: TokenizerSpec) -> float:
    """Return what part of the texts the pipeline may take."""
    loose = spec.invalid_utf8 in {"loose", "wide"}
    return 1.0 if loose and isinstance(spec.normalizer, normalizers.Spaces) else HANDED_OVER


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", FILES)
def test_files_under_every_rule(name: str, rule: Rule) -> None:
    rng = random.Random(name + rule)
    spec = replace(fixture(name), invalid_utf8=rule)
    with Both(spec, most(spec)) as both:
        for text in texts(rng, 60) + texts(rng, 4, 1500):
            for method in METHODS:
                both.same(method, text)


@pytest.mark.parametrize("name", ["bbpe-8k", "spm-bpe", "spm-unigram", "wordpiece"])
def test_ggufs(name: str) -> None:
    rng = random.Random(name)
    with Both(mtkit.load(FIXTURES / name / "vocab.gguf").spec) as both:
        for text in texts(rng, 60) + texts(rng, 4, 1500):
            for method in METHODS:
                both.same(method, text)


def test_drawn_tokenizers() -> None:
    given = st.integers(0, 1 << 32).map(lambda seed: texts(random.Random(seed), 1)[0])
    drawn = tokenizers(invalid_utf8=RULES)
    say_the_same(drawn, given, fixed=texts(random.Random(0), 20), examples=40, handed_over=most)
