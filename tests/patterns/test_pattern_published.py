"""Patterns as published with tokenizers, and their kin, find what Oniguruma finds."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pattern_texts import nasty_text
from support import reference

from mtkit.errors import UnsupportedError
from mtkit.patterns.matcher import Matcher, build_tables
from mtkit.spec.text import Regex

pytestmark = pytest.mark.slow

PATTERNS = [
    r" ?[^(\s|[.,!?…。，、।۔،])]+", r"\p{N}", r"\s+$", r"(?=(\d{3})+(?!\d))",
    r"\d{1,3}(?=(?:\d{3})*\b)",
    (
        r"'(?:[sSdDmMtT]|[lL][lL]|[vV][eE]|[rR][eE])|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    (
        "(?:'[sS]|'[tT]|'[rR][eE]|'[vV][eE]|'[mM]|'[lL][lL]|'[dD])|"
        r"[^\r\n\p{L}\p{N}]?(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n/]?|\s*[\r\n]|\s+(?!\S)|\s+"
    ),
    (
        r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))*((?=[\p{L}])([^A-Z]))+|"
        r"[^\r\n\p{L}\p{N}]?((?=[\p{L}])([^a-z]))+((?=[\p{L}])([^A-Z]))*|\p{N}|"
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    ),
    (
        r"(?:'[sS]|'[tT]|'[rR][eE])|\s{512}(?!\S)|\s{256}(?!\S)|\s{128}(?!\S)|\s{64}(?!\S)|"
        r"\s{32}(?!\S)|\s{16}(?!\S)|\s{8}(?!\S)|\s{4}(?!\S)|\s{1,2}(?!\S)|\s{1}"
    ),
    "[!-/:-~！-／：-～‘-‟　-。]+", "<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z",
    r"([\t\n]|    |  )", r"[\p{P}!-/:-@\[-`{-~]", r"[\p{P}\$\+<=>\^~\|`]+", r"[^\n]+|[\n]+",
    (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+|"
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    r"(?i)'s|'t| ?\p{L}+", r"(?:(?=[\p{L}])[^a-z])+", r"\b\w+\b", r"(?<=\d)(?=(\d{3})+(?!\d))",
    r"(?<!\S)\S+", r"\p{Hangul}+|\p{Thai}+|\p{Arabic}+", r"[\x{4e00}-\x{9fff}]+", "[一-鿿]+",
    r"\u4e00+", "(?m:.)+", ".*", r"^\s*|\s*$", "^.*$", "[^[:alnum:]]+", r"\P{Han}+", r"\p{^L}+",
    "[a-z&&[^aeiou]]+", "[ -~]+", "[]a]+", "[^]a]+", r"[a\]]", "[a-]", "[-a]", r"[\w-]+", r"\x41",
    r"\/\-\_", "a{,3}", "a{", "a{x}", "a{2}?", "a{2}+", "x*+x", "(?>a|ab)c", r"\R", r"\h+", r"\N+",
    r"\O", r"\e|\a|\v|\f", r"\n\r|\t", "a #c\nb", "(?x: a b # c\n)", "(?#note)a", "(?<!ab)c",
    "(?<=a|bc)d", "(?<=a+)b", "(?<!a*)b",
]  # fmt: skip

WITHOUT_TABLES = [
    *(r"[\p{L}--[a]]", r"[a~~b]", r"\p{IsHan}", r"\pL+", r"(?<n>a)\k<n>", "(?s:.)+", r"[a-\d]"),
    *(r"\xe9", r"\G\w", r"\X", "(a*)*", "a(?i)b|c", "(?i:ss)"),
]

TEXTS = [
    *("sa(a)]-[]{x}a{2}", "AI IMGIMGABCZ <sentinel:12>", " " * 600 + "x", "aaaa ab abc cd bcd"),
    *("12345678 1234", "KkſSs'S'ſ", "\r\n\r\n a", "x\ny\n"),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_pattern_as_tokenizers_runs_it(pattern: str) -> None:
    tokenizers: Any = reference("tokenizers")
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    matcher = Matcher(build_tables(Regex(pattern)))
    rng = random.Random(2)
    texts = [*TEXTS, *(nasty_text(rng, rng.choice([3, 8, 20, 60])) for _ in range(60))]
    for text in texts:
        found = [place for place in matcher.find(text) if place[0] < place[1]]
        assert found == [place for _, place in split.pre_tokenize_str(text)], text


@pytest.mark.parametrize("pattern", WITHOUT_TABLES)
def test_pattern_has_no_tables(pattern: str) -> None:
    with pytest.raises(UnsupportedError):
        build_tables(Regex(pattern))
