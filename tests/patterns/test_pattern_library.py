"""What our tables cannot say is found by Oniguruma itself, exactly as tokenizers finds it."""

from __future__ import annotations

import json
import random
import subprocess
import sys
import time
from typing import Any

import pipeline_cases as cases
import pytest
from pattern_texts import beyond_pattern, beyond_text, bracket
from support import one_line, reference

from mtkit import load
from mtkit.errors import MissingExtra, ResourceError, UnsupportedError
from mtkit.patterns.library import LibraryMatcher
from mtkit.patterns.matcher import build, compile_pattern
from mtkit.pipeline.decoders.components import compile_decoder
from mtkit.spec import decoders
from mtkit.spec.text import Regex


def drawn(rng: random.Random) -> tuple[str, Any]:
    """A pattern that the reference takes and our tables do not."""
    regex = reference("tokenizers").Regex
    while True:
        made = beyond_pattern(rng)
        try:
            expression = regex(made)
        except Exception:  # noqa: BLE001  the library raises Exception itself
            continue
        try:
            build(Regex(made))
        except UnsupportedError:
            return made, expression


def found_by_tokenizers(made: str, sample: str) -> list[tuple[int, int]]:
    """Matches that are not empty."""
    tokenizers = reference("tokenizers")
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(made), "removed", invert=True)
    return [place for _, place in split.pre_tokenize_str(sample)]


@pytest.fixture(autouse=True)
def oniguruma() -> None:
    reference("onigurumacffi")


def test_splits_as_tokenizers_splits() -> None:
    split = reference("tokenizers").pre_tokenizers.Split
    rng = random.Random(3)
    behaviors = ["removed", "isolated", "merged_with_previous", "merged_with_next", "contiguous"]
    found = 0
    for number in range(500):
        made, expression = drawn(rng)
        reference_split = split(expression, behaviors[number % 5], invert=number % 2 == 1)
        ours = cases.pipeline_of(cases.every_character(None, reference_split))
        for _ in range(12):
            sample = beyond_text(rng)
            expected = cases.answer(reference_split.pre_tokenize_str, sample)
            got = cases.answer(words, ours, sample)
            assert got == expected, (reference_split, made, sample)
            found += expected != [(sample, (0, len(sample)))]
    assert found > 3000


def words(ours: Any, sample: str) -> Any:
    return [(word.text, word.offsets(0, len(word))) for word, _ in ours.words(sample)]


def test_replaces_as_tokenizers_replaces() -> None:
    tokenizers = reference("tokenizers")
    rng = random.Random(4)
    found = 0
    for _ in range(300):
        made, expression = drawn(rng)
        content = rng.choice(["", "X", "é<>"])
        replace = tokenizers.normalizers.Replace(expression, content)
        tokenizer = cases.every_character(replace)
        ours = cases.pipeline_of(tokenizer)
        decode = compile_decoder(decoders.Replace(Regex(made), content), lossy=True)
        reference_decode = tokenizers.decoders.Replace(expression, content).decode
        for _ in range(12):
            sample = beyond_text(rng)
            expected = cases.answer(offsets, tokenizer, sample)
            assert cases.answer(offsets, ours, sample) == expected, (made, content, sample)
            expected = cases.answer(reference_decode, [sample])
            assert cases.answer(joined, decode, sample) == expected, (made, content, sample)
            found += expected != sample
    assert found > 1500


def offsets(tokenizer: Any, sample: str) -> Any:
    return tokenizer.encode(sample).offsets


def joined(decode: Any, sample: str) -> str:
    return "".join(decode([sample]))


@pytest.mark.parametrize("start", ["", r"(x)?\K"])
def test_brackets_where_stages_of_oniguruma_differ(start: str) -> None:
    """Those with ranges out of ASCII in nested brackets are refused, by our tables as well."""
    tokenizers = reference("tokenizers")
    rng = random.Random(5)
    refused = compared = 0
    while compared < 400:
        made = start + bracket(rng) + rng.choice(["", "+", "*"]) + rng.choice(["", bracket(rng)])
        try:
            expression = tokenizers.Regex(made)
        except Exception:  # noqa: BLE001  the library raises Exception itself
            continue
        try:
            matcher = compile_pattern(Regex(made))
        except UnsupportedError:
            refused += 1
            continue
        compared += 1
        split = tokenizers.pre_tokenizers.Split(expression, "removed", invert=True)
        for _ in range(10):
            sample = "".join(
                rng.choices("azéß\x7f\x80ÿĀſ\U0010ffff\0中\U0001f469àAZÉ1_ k\u212a", k=10)
            )
            found = [place for place in matcher.find(sample) if place[0] < place[1]]
            assert found == [place for _, place in split.pre_tokenize_str(sample)], (made, sample)
    assert 0 < refused < compared


@pytest.mark.parametrize(
    ("pattern", "said"),
    [(r"\pL(a)\1", r"\p"), (r"[\PL](a)\1", r"\P"), (r"(a)\1\x", r"\x"), ("(a)\\1\\u", r"\u"),
     (r"(a)\1\xc3", r"\xc3"), (r"(a)\1\303\251", r"\303"), (r"(a)\1\M-a", r"\M"),
     (r"(a)\1[^[^a-é]]", "bracket"), (r"(a)\1[\x{0}-\x{ff}&&b]", "bracket"),
     ("(a", "without"), (r"\p{Klingon}", "Klingon"), (r"(?<a>\g<a>)", "never ending"),
     ("(a)\\1\ud800", "UTF-8")],
)  # fmt: skip
def test_what_could_differ_is_refused(pattern: str, said: str) -> None:
    with pytest.raises(UnsupportedError) as caught:
        compile_pattern(Regex(pattern))
    assert said in str(caught.value)


def test_what_looks_like_a_difference_is_run() -> None:
    for made in (r"(a)\1\\pL", r"(a)\1\p{L}", r"(a)\1[é-\x{ff}]|[b]", r"(a)\1[[:alpha:]]|[a-é]"):
        assert isinstance(compile_pattern(Regex(made)), LibraryMatcher), made


def test_a_comment_that_hides_its_end() -> None:
    assert compile_pattern(Regex(r"(?#\).)a")).find(".a)a") == found_by_tokenizers(
        r"(?#\).)a", ".a)a"
    )


def test_other_engines_rules_are_not_oniguruma_s() -> None:
    for rules in (Regex(r"(a)\1", case_folding="simple"), Regex(r"(a)\1", anchors="text")):
        with pytest.raises(UnsupportedError, match="cannot be run exactly"):
            compile_pattern(rules)


def test_bytes_that_are_no_utf8_keep_their_places() -> None:
    assert compile_pattern(Regex(r"(.)\1")).find("\udc80\udc80aé\udcffaa") == [(0, 2), (5, 7)]


def test_a_pattern_that_explodes_ends_in_an_error() -> None:
    tokenizers = reference("tokenizers")
    made, sample = r"(x+x+)+\1y", "x" * 60
    split = tokenizers.pre_tokenizers.Split(tokenizers.Regex(made), "isolated")
    assert cases.answer(split.pre_tokenize_str, sample) == "fails"
    start = time.process_time()
    with pytest.raises(ResourceError, match="retry-limit"):
        compile_pattern(Regex(made)).find(sample)
    assert time.process_time() - start < 20


def test_time_is_linear_in_the_matches() -> None:
    matcher = compile_pattern(Regex(r"(.)\1"))
    took = []
    for length in (50_000, 200_000):
        start = time.process_time()
        assert len(matcher.find("aaéé\U00020000\U00020000" * length)) == 3 * length
        took.append(time.process_time() - start)
    assert took[1] < 10 * took[0] + 0.1, took


DOCUMENT = {
    "version": "1.0", "added_tokens": [], "normalizer": None, "post_processor": None,
    "pre_tokenizer": {"type": "Split", "pattern": {"Regex": r"(\w)\1|\p{L}\p{M}*|."},
                      "behavior": "Isolated", "invert": False},
    "decoder": {"type": "Replace", "pattern": {"Regex": r"(l)\1"}, "content": "LL"},
    "model": {"type": "WordLevel", "vocab": {"?": 0, "ll": 1, "h": 2, "e\u0301": 3, "o": 4},
              "unk_token": "?"},
}  # fmt: skip
TEXT = "he\u0301llo"


@pytest.fixture
def file(tmp_path: Any) -> Any:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(DOCUMENT), encoding="utf-8")
    return path


def test_whole_tokenizer(file: Any) -> None:
    tokenizers = reference("tokenizers")
    theirs = tokenizers.Tokenizer.from_file(str(file))
    ours = load(str(file))
    assert ours.engine.name == "pipeline"
    encoded = theirs.encode(TEXT)
    assert ours.encode_ids(TEXT) == encoded.ids == [2, 3, 1, 4]
    assert ours.encode(TEXT).offsets == encoded.offsets
    assert ours.decode(encoded.ids) == theirs.decode(encoded.ids)


def test_decoder_beyond_the_core(tmp_path: Any) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(DOCUMENT | {"pre_tokenizer": None}), encoding="utf-8")
    ours = load(str(path))
    theirs = reference("tokenizers").Tokenizer.from_file(str(path))
    assert ours.decode([2, 3, 1, 4]) == theirs.decode([2, 3, 1, 4]) == "he\u0301LLo"
    assert ours.encode_ids("ll") == theirs.encode("ll").ids


def test_conversion_keeps_the_pattern_and_has_no_tables(file: Any, tmp_path: Any) -> None:
    out = tmp_path / "out.mtok"
    command = [sys.executable, "-m", "mtkit", "convert", str(file), "--to", "mtok"]
    command += ["-o", str(out)]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert load(str(out)).encode_ids(TEXT) == [2, 3, 1, 4]
    done = subprocess.run([*command, "--tables", "--force"], capture_output=True, check=False)
    assert r"\1" in one_line(done, 4)
    command = [sys.executable, "-m", "mtkit", "encode", "--trace", "-t", str(file), TEXT]
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr


RUN = """
import sys
sys.modules["_onigurumacffi"] = None
from mtkit.cli import main
sys.exit(main(sys.argv[1:]))
"""


def test_without_the_package(file: Any) -> None:
    command = [sys.executable, "-c", RUN, "encode", "-t", str(file), TEXT]
    line = one_line(subprocess.run(command, capture_output=True, check=False), 4)
    assert str(file) in line
    assert r"\1 cannot be run exactly" in line
    assert 'pip install "mtkit[patterns]"' in line


def test_another_version(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mtkit.patterns.library.VERSION", b"6.9.9")
    with pytest.raises(MissingExtra, match=r"6\.9\.10"):
        compile_pattern(Regex(r"(b)\1never compiled before"))
