"""Published patterns are known by what they do; arithmetic finds their words, exactly."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from array import array
from typing import Any

import pytest
from pattern_texts import LLAMA3, PUBLISHED, nasty_text
from support import at_level

from mtkit.base.record import replace
from mtkit.errors import UnsupportedError
from mtkit.patterns.matcher import build_tables
from mtkit.spec.text import Regex

OTHER = [
    r"'s| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    LLAMA3.replace("{1,3}", "{1,2}"),
    r" ?[a-zA-Z]+|[^a-zA-Z]",
    r"\w+|\W",
]
"""The same but for one thing, and quite others."""
LEVELS = ["scalar", "avx2", "avx512", "neon"]
UNITS = [
    *("a", "Zx", "s", "'s", "'S", "'t", "'ll", "'Re", "'v", "'ve'm", "'", "''", " ", "  ", "\n"),
    *("\r\n", "\t", "\x0b", "\x1c", "/", "//", "\n/", "(", "a(b", ");", "1", "12", "3456", "Ab"),
    *("aB", "ABc", "_", "\x00", "\x7f", " x", " 7", " '", " 's", "\u00e9", "\u4e2d", "\u017f"),
    *("'\u017f", "\u0301", "\u00a0", "\u3000", "\u0660", "\U0001f600", "word", "Longer words"),
]


def _texts(rng: random.Random) -> list[str]:
    """Texts of 64 bytes and more, most of them of few kinds."""
    texts = [nasty_text(rng, 60) for _ in range(100)]
    while len(texts) < 3000:
        units = rng.choices(UNITS, k=rng.choice([2, 3, 6, 20, len(UNITS)]))
        texts.append("".join(rng.choices(units, k=rng.choice([3, 12, 40, 90]))))
    return texts


def _certain(native: Any, pattern: Regex, seed: int) -> tuple[int, int]:
    """Hold each start to the matches; how many there were in blocks of ASCII, and of how many."""
    matcher = native.PatternMatcher(build_tables(pattern))
    given = found = 0
    for text in _texts(random.Random(seed)):
        data = text.encode()
        begins = set(array("Q", matcher.find(data))[::2])
        for place in sorted(begins)[:4]:
            block = data[place : place + 64]
            bits = matcher.word_starts(block)
            starts = {place + i for i in range(64) if bits >> i & 1}
            assert place in starts
            last = max(starts)
            expected = {at for at in begins if place <= at <= last}
            assert starts == expected, (pattern, text, place)
            if block.isascii():
                given += len(starts)
                found += sum(place <= at < place + len(block) for at in begins)
    return given, found


@pytest.mark.parametrize(("family", "pattern"), PUBLISHED)
def test_a_published_pattern_is_known_in_every_spelling(family: str, pattern: Regex) -> None:
    native: Any = pytest.importorskip("mtkit._native")
    assert native.PatternMatcher(build_tables(pattern)).family == family


def test_another_pattern_is_not_taken_for_one() -> None:
    native: Any = pytest.importorskip("mtkit._native")
    for pattern in OTHER:
        assert native.PatternMatcher(build_tables(Regex(pattern))).family == "", pattern
    rng = random.Random(3)
    for _, pattern in PUBLISHED:
        # One piece of the pattern less: a family that is left has the same words.
        pieces = pattern.pattern.split("|")
        for at in range(len(pieces)):
            changed = replace(pattern, pattern="|".join(pieces[:at] + pieces[at + 1 :]))
            try:
                tables = build_tables(changed)
            except UnsupportedError:
                continue
            if native.PatternMatcher(tables).family:
                _certain(native, changed, rng.randrange(1000))


@pytest.mark.parametrize(("family", "pattern"), PUBLISHED)
def test_starts_are_those_of_the_automaton(family: str, pattern: Regex) -> None:
    native: Any = pytest.importorskip("mtkit._native")
    assert family
    given, found = _certain(native, pattern, 7)
    assert given > 20_000
    assert given > 0.9 * found


@pytest.mark.parametrize("level", LEVELS)
def test_each_level_gives_the_same_starts(level: str) -> None:
    code = (
        "import mtkit._native as native, test_pattern_family as own\n"
        f"assert native.simd() == {level!r}, native.simd()\n"
        "for _, pattern in own.PUBLISHED: own._certain(native, pattern, 8)\n"
    )
    environment = at_level(level, os.path.dirname(__file__))
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)
