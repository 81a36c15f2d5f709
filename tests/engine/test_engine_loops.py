"""Each piece of the loop over words and of Unigram's search, on texts that are made for it."""

from __future__ import annotations

import pytest
from engine_beside_pipeline import Both
from support import shared_tokenizer

pytest.importorskip("mtkit._native")
from mtkit import load

BLOCK = 64
"""Bytes that are looked at together."""
HAN = "的一是不了人我在有他這中大來上"

WORDS = {
    "words of a block": ["of the people, by the people. " * 20],
    "words that end where a block does": ["a" * k + " b" * 40 for k in range(BLOCK - 3, BLOCK + 4)],
    "a word longer than a block": ["one " * 8 + "x" * k + " two" * 30 for k in (15, 16, 63, 200)],
    "a block while the cache grows": [" ".join(f"w{i:x}" for i in range(2000))],
    "words of more ids than lie beside them": ["zqxjkvbpywzq qzjxvkqw " * k for k in (8, 40)],
    "contractions at the end of a block": ["it's " * k + "we'll've " * 20 for k in range(10, 14)],
    "the last of some blanks": ["x   y    z\n\n  a \t b" * 9, "中   文    x" * 9],
    "characters of two and of four bytes": ["é à ü " * 40, "a🙂b 🙂🙂 " * 30],
    "a run that comes again": [f"a {HAN[:k]} b " * 4 + "c" * 80 for k in range(4, len(HAN))],
    "a run longer than is kept": [f"{HAN * 9}, {HAN * 9}" + " d" * 60],
    "a run behind a letter": [f"x{HAN}y {HAN}z" + " e" * 60],
    "a run in front of the end": [f"{HAN}{' ' * k}{'f' * n}" for k in range(3) for n in (0, 1, 90)],
    "what only the general search finds": [f"{HAN}\u3000\u3000{HAN}" + " g" * 60],
    "less than a block": ["", " ", "h", "h i", "h" * 79, "h " * 39, "h" * 80],
}

PATHS = {
    "a part of one character": ["是 a 丁 b " * 30, "\U0001f389"],
    "unknown characters in a row": ["\U0001f389\U0001f389丁丁a" * 40],
    "a segment behind other sums": ["the house of the people " * 300],
    "more of a path than is open at once": ["a" * 300, "ab" * 900, "e" * 5000],
    "a word too short to be cut": ["abcdefgh" * k for k in range(1, 10)],
    "a sum that begins again": ["zq" * 9000],
}


def same(name: str, file: str, texts: list[str]) -> None:
    with Both(load(shared_tokenizer(name) / file).spec) as both:
        for _ in range(2):  # new, then known
            for text in texts:
                both.same("encode_ids", text)
                both.same("encode_offsets", text)
            both.engine._native.warm()


@pytest.mark.parametrize("case", WORDS)
@pytest.mark.parametrize("name", ["gpt2", "qwen3"])
def test_words(name: str, case: str) -> None:
    same(name, "tokenizer.json", WORDS[case])


@pytest.mark.parametrize("case", PATHS)
@pytest.mark.parametrize(
    ("name", "file"), [("t5-small", "tokenizer.json"), ("sp-test-unigram", "")]
)
def test_paths(name: str, file: str, case: str) -> None:
    same(name, file or "tokenizer.model", PATHS[case])
