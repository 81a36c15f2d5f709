"""The native matcher of split patterns is the readable one, in linear time and on any tables."""

from __future__ import annotations

import random
import time
from array import array
from typing import Any

import pytest
from pattern_texts import GPT2, LLAMA3, nasty_text, random_pattern

from mtkit.errors import FormatError, UnsupportedError
from mtkit.patterns.matcher import Matcher, build_tables
from mtkit.spec.text import Regex


def native_matches(matcher: Any, text: str) -> list[tuple[int, int]]:
    """What the native matcher finds, in characters."""
    data = text.encode("utf-8", "surrogateescape")
    places = array("Q", matcher.find(data))
    starts = {}
    at = 0
    for number, character in enumerate(text):
        starts[at] = number
        at += len(character.encode("utf-8", "surrogateescape"))
    starts[at] = len(text)
    numbers = [starts[place] for place in places]
    return list(zip(numbers[::2], numbers[1::2], strict=True))


def test_native_matcher_is_the_readable_one() -> None:
    native: Any = pytest.importorskip("mtkit._native")
    rng = random.Random(11)
    texts = [nasty_text(rng, rng.choice([0, 1, 8, 40])) for _ in range(40)]
    texts += ["a\udc80\udcff b", "\udce4\udcb8", "a" * 300 + "b", " " * 300, "12" * 200 + "x"]
    patterns = [random_pattern(rng, 3) for _ in range(150)] + [
        *(LLAMA3, GPT2, "a*b|a", r"\s+$|\s", "a(?=a*b)|a", r"\d{1,3}(?=(?:\d{3})*\b)", r"\w+\b|."),
        r"(?<=\d)(?=(?:\d\d)+(?!\d))|\D+",
    ]
    compared = 0
    for pattern in patterns:
        for empty in ("kept", "ignored"):
            try:
                matcher = Matcher(build_tables(Regex(pattern, empty=empty)))
            except UnsupportedError:
                continue
            compared += 1
            twin = native.PatternMatcher(matcher.tables)
            for text in texts:
                assert native_matches(twin, text) == matcher.find(text), (pattern, text)
    assert compared > 200


def test_classes_of_characters_fit_into_a_row() -> None:
    """A row of the core has 256 cells for classes, the end of a text being one of them."""
    native: Any = pytest.importorskip("mtkit._native")
    tables = bytearray(build_tables(Regex("a")))
    tables[4:8] = (256).to_bytes(4, "little")
    with pytest.raises(FormatError, match="has 256 classes"):
        native.PatternMatcher(bytes(tables))


def test_damaged_tables_are_an_error_or_harmless() -> None:
    native: Any = pytest.importorskip("mtkit._native")
    rng = random.Random(5)
    for pattern in (LLAMA3, r"\d{1,3}(?=(?:\d{3})*\b)"):
        tables = build_tables(Regex(pattern))
        refused = 0
        for _ in range(400):
            damaged = bytearray(
                tables[: rng.randrange(len(tables))] if rng.random() < 0.3 else tables
            )
            for _ in range(rng.choice([0, 1, 4])):
                limit = rng.choice([64, len(damaged)])
                if damaged:
                    damaged[rng.randrange(min(limit, len(damaged)))] = rng.randrange(256)
            try:
                native.PatternMatcher(bytes(damaged)).find(b"abc 123 4567 \xe4\xb8\xad\n" * 10)
            except FormatError:
                refused += 1
        assert refused > 50


@pytest.mark.parametrize(
    ("pattern", "text"),
    [("a*b|a", "a"), (r"\s+$|\s", " "), ("(?:a|aa)+c|a", "a"), ("a(?=a*b)|a", "a"),
     (LLAMA3, "\n "), (GPT2, "a"), (r"\d{1,3}(?=(?:\d{3})*\b)", "1")],
)  # fmt: skip
def test_hostile_text_takes_linear_time(pattern: str, text: str) -> None:
    native: Any = pytest.importorskip("mtkit._native")
    matcher = native.PatternMatcher(build_tables(Regex(pattern)))
    took = []
    for kilobytes in (16, 128):
        data = (text * (kilobytes * 1024 // len(text))).encode()
        best = 10.0
        for _ in range(5):
            start = time.process_time()
            matcher.find(data)
            best = min(best, time.process_time() - start)
        took.append(best)
    # Three doublings, each at most 2.5 times; a quadratic walk would take seconds here.
    assert took[1] < 2.5**3 * took[0] + 0.02, took
