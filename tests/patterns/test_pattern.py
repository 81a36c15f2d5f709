"""Patterns find what their references find, in Python and in the core."""

from __future__ import annotations

import json
import lzma
import random
import time
from array import array
from functools import lru_cache
from typing import Any

import pytest
from pattern_texts import GPT2, LLAMA3, nasty_text, random_pattern
from support import SHARED, absent, reference

from mtkit.errors import FormatError, UnsupportedError
from mtkit.patterns.matcher import Matcher, build_tables, compile_pattern
from mtkit.spec.text import Regex, Text

pytestmark = pytest.mark.slow


def words(pattern: Regex, text: str) -> list[str]:
    """What a pattern finds."""
    return [text[start:end] for start, end in compile_pattern(pattern).find(text)]


def found_by_tokenizers(pattern: str, text: str) -> list[tuple[int, int]]:
    """Matches that are not empty, as the reference library finds them."""
    tokenizers: Any = reference("tokenizers")
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(pattern), "removed", invert=True)
    return [place for _, place in split.pre_tokenize_str(text)]


@lru_cache(maxsize=1)
def real_patterns() -> list[str]:
    """All split patterns of the shared tokenizers."""
    folder = SHARED / "tokenizers" / "tokenizers"
    if not folder.is_dir():
        absent("the shared tokenizers are not here", "MTKIT_REQUIRE_SHARED")
    out: dict[str, None] = {}

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            pattern = value.get("pattern")
            if isinstance(pattern, dict) and "Regex" in pattern:
                out[pattern["Regex"]] = None
            for inner in value.values():
                walk(inner)
        elif isinstance(value, list):
            for inner in value:
                walk(inner)

    for path in sorted(folder.glob("*/*")):
        name = path.name.removesuffix(".xz")
        if name in {"tokenizer.json", "pattern.json"}:
            data = path.read_bytes()
            content = json.loads(lzma.decompress(data) if path.suffix == ".xz" else data)
            if name == "pattern.json":
                out[content["pattern"]] = None
            else:
                for stage in ("normalizer", "pre_tokenizer", "decoder"):
                    walk(content.get(stage))
    assert len(out) > 15
    return list(out)


def test_real_patterns_as_tokenizers_runs_them() -> None:
    rng = random.Random(1)
    texts = [nasty_text(rng, rng.choice([3, 8, 20, 60])) for _ in range(150)]
    for pattern in real_patterns():
        matcher = compile_pattern(Regex(pattern))
        for text in texts:
            found = [place for place in matcher.find(text) if place[0] < place[1]]
            assert found == found_by_tokenizers(pattern, text), (pattern, text)


def test_random_patterns_as_tokenizers_runs_them() -> None:
    tokenizers: Any = reference("tokenizers")
    rng = random.Random(7)
    signs = "aabbAsS11  ''éſ\n\n\r²._ \u0301\u00a0中K"
    texts = ["".join(rng.choices(signs, k=rng.choice([1, 4, 9, 16]))) for _ in range(15)]
    compared = refused = 0
    for _ in range(700):
        pattern = random_pattern(rng, 3)
        try:
            expression = tokenizers.Regex(pattern)
        except Exception:  # noqa: BLE001  the library raises Exception itself
            continue
        split = tokenizers.pre_tokenizers.Split(expression, "removed", invert=True)
        try:
            matcher = Matcher(build_tables(Regex(pattern)))
        except UnsupportedError:
            refused += 1
            continue
        compared += 1
        for text in texts:
            found = [place for place in matcher.find(text) if place[0] < place[1]]
            expected = [place for _, place in split.pre_tokenize_str(text)]
            assert found == expected, (pattern, text)
    assert compared > 400
    assert refused < compared


def test_published_patterns_as_tiktoken_runs_them() -> None:
    tiktoken: Any = reference("tiktoken")
    rng = random.Random(3)
    texts = [nasty_text(rng, rng.choice([3, 8, 20, 60])) for _ in range(50)]
    ranks = {bytes((byte,)): byte for byte in range(256)}
    for pattern in [p for p in real_patterns() if r"\p{L}" in p]:
        rules = Regex(
            pattern, word="joiners", anchors="text", case_folding="simple", counted="modified"
        )
        matcher = compile_pattern(rules)
        for text in texts:
            # Every match is one token.
            words = [text[start:end].encode() for start, end in matcher.find(text)]
            vocabulary = ranks | {word: 256 + at for at, word in enumerate(dict.fromkeys(words))}
            vocabulary = dict(sorted(vocabulary.items(), key=lambda item: item[1]))
            unique: dict[bytes, int] = {}
            for word in vocabulary:
                unique.setdefault(word, len(unique))
            encoding = tiktoken.Encoding("test", pat_str=pattern, mergeable_ranks=unique,
                                         special_tokens={})  # fmt: skip
            ids = encoding.encode_ordinary(text)
            assert encoding.decode_tokens_bytes(ids) == words, (pattern, text)


def test_kinds_of_characters() -> None:
    rules = Regex(r"\p{Lu}+|\p{Nd}|\s|[^a-z]", alphabet="kinds", unicode="15.0")
    assert words(rules, "aéB²\u2028\u3000\x01") == ["aéB", "²", "\u2028", "\u3000", "\x01"]
    assert words(Regex(r"(?i:S)", alphabet="kinds"), "sSſ") == ["s", "S"]


def test_splits_by_hand() -> None:
    text = "Hello, world's  foo   12345\n\n  x  "
    expected = "Hello|,| world|'s| | foo|  | |123|45|\n\n| | x|  "
    assert words(Regex(LLAMA3), text) == expected.split("|")
    assert words(Regex(GPT2), "a  b'LL 12") == ["a", " ", " b", "'", "LL", " 12"]


def test_literal_text_is_found_as_it_stands() -> None:
    assert compile_pattern(Text("a.")).find("a.aba.") == [(0, 2), (4, 6)]


def test_counted_repetition_with_a_plus() -> None:
    again = Regex(r"\d{1,2}+")
    assert words(again, "12345") == ["12345"]
    assert words(Regex(r"\d{1,2}+", counted="modified"), "12345") == ["12", "34", "5"]


def test_look_ahead_over_several_characters() -> None:
    assert compile_pattern(Regex(r"(?=(\d{3})+(?!\d))")).find("1234567 12") == [(1, 1), (4, 4)]
    assert words(Regex(r"\d{1,3}(?=(?:\d{3})*\b)"), "1234567 12") == ["1", "234", "567", "12"]


def test_empty_matches() -> None:
    assert compile_pattern(Regex("a*")).find("baac") == [(0, 0), (1, 3), (4, 4)]
    assert compile_pattern(Regex("a*", empty="ignored")).find("baac") == [(1, 3)]


def test_equal_patterns_are_compiled_once() -> None:
    assert compile_pattern(Regex(GPT2)) is compile_pattern(Regex(GPT2))


@pytest.mark.parametrize(
    ("pattern", "quoted"),
    [(r"(a)\1", r"\\1"), (r"\X", r"\\X"), ("(?>a+b|a)c", "atomic"), (r"\p{Klingon}", "Klingon"),
     ("(?i:ss)", "ss"), ("(" * 200 + ")" * 200, "100"), ("(((a{999}){999}){999})", "20000"),
     ("(a|b)*a(a|b){20}", "states"), ("(", "unclosed"), ("[a", "unclosed"), ("a)", "unmatched"),
     (r"\p{}", r"\\p\{\}"), (r"[\p{^}]", "known")],
)  # fmt: skip
def test_what_has_no_tables(pattern: str, quoted: str) -> None:
    with pytest.raises(UnsupportedError, match=quoted):
        build_tables(Regex(pattern))


def test_hostile_text_takes_linear_time() -> None:
    import time

    for pattern in ("a*b|a", r"\s+$|\s", "(?:a|aa)+c|a", "a(?=a*b)|a"):
        sign = " " if "s" in pattern else "a"
        matcher = compile_pattern(Regex(pattern))
        matcher.find(sign * 1000)
        took = []
        for length in (20_000, 80_000):
            start = time.process_time()
            matcher.find(sign * length)
            took.append(time.process_time() - start)
        assert took[1] < 10 * took[0] + 0.1, (pattern, took)


# The native matcher of split patterns is the readable one, in linear time and on any tables.


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
def test_hostile_text_takes_the_core_linear_time(pattern: str, text: str) -> None:
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
