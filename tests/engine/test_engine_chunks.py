"""Texts cut at seams, whose parts are remembered as they stand there; ids stay the pipeline's."""

from __future__ import annotations

import itertools
import json
import random
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
import tokenizers
from engine_beside_pipeline import Both
from engine_cases import fixture
from support import at_level, shared_tokenizer

pytest.importorskip("mtkit._native")
from mtkit import load
from mtkit.spec import normalizers as norm
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec import replace
from mtkit.spec.text import Text

if TYPE_CHECKING:
    from pathlib import Path

NAMES = [
    *["bert-base-uncased", "bert-chinese-cased", "t5-small", "xlnet-base-cased"],
    *["llama-2", "mistral-v0.3", "gemma-cropped"],
]
UNITS = [
    *["the", "The", "don't", "``x''", "tokenization", "word" * 5, "XyZ", "123", "x", "a~b"],
    *["cafe\u0301", "na\u00efve", "\u00e9", "\u00e0", "\u00fc", "\u0130", "\u00df", "\u0430\u0431"],
    *["\u0301", "\u0338", "\u3099", "\u0600", "\u200b", "\u200d", "\u00ad", "\u00a0", "\u3000"],
    *["\u4e2d", "\u6587\u5b57", "\u3400", "\u304b", "\uff0c", "\u3002", "\uff76\uff9e", "\ud55c"],
    *["(", ")", ".", ",", "...", "=", "-", "'", "''", "`", "_", "\u2581", "\u2581\u2581"],
    *["[SEP]", "[MASK]", "<s>", "</s>", "<unk>", "<0x0A>", "\U0001f600", "\ufdfa", "\x01", "\x7f"],
    *["\n", "\r\n", "\t", " \r", "\0", "\u2028"],
]
WHOLE = """
import json, sys
from mtkit import load
for name, texts in json.load(sys.stdin):
    engine = load(name).engine
    engine._native.warm()
    print(json.dumps([[engine.encode_ids(text) for text in texts] for _ in range(2)]))
"""


def texts(seed: object, count: int) -> list[str]:
    """Draw texts with many blanks and with few."""
    rng = random.Random(f"{seed}")

    def text() -> str:
        blanks = rng.choice([0.3, 0.8, 1])
        gap = rng.choice([[" "], [" ", "  ", "\n", "\t "]])
        units = rng.choices(rng.choice([UNITS, UNITS[:8]]), k=rng.choice([1, 2, 4, 12, 60]))
        return "".join(u + (rng.choice(gap) if rng.random() < blanks else "") for u in units)

    return [rng.choice(["", "", " ", "\n "]) + text() for _ in range(count)]


@pytest.mark.parametrize("name", NAMES)
def test_published(name: str) -> None:
    drawn = texts(name, 60)
    with Both(load(shared_tokenizer(name)).spec) as both:
        both.engine._native.warm()
        assert both.engine._native.cuts_at_pattern
        for text in [*drawn, *drawn[:20], " ".join(drawn[:30])]:
            both.same("encode_ids", text)


STEPS: list[norm.Normalizer] = [
    norm.Prepend("\u2581"),
    norm.Prepend(" "),
    norm.Replace(Text(" "), "\u2581"),
    norm.Replace(Text("\u2581"), " "),
    norm.Replace(Text("``"), '"'),
    norm.Replace(Text("x"), ""),
    norm.Replace(Text("~"), " "),
    norm.Replace(Text("e "), "e"),
    norm.Strip(),
    norm.Lowercase(),
    norm.UnicodeForm("NFC"),
    norm.UnicodeForm("NFKD"),
    norm.StripAccents(),
    norm.Nmt(),
    norm.Bert(),
]
CUTS: list[pre.PreTokenizer] = [
    pre.Metaspace("\u2581", "always", split=True),
    pre.Metaspace("\u2581", "first", split=False),
    pre.WhitespaceSplit(),
    pre.Bert(),
    pre.Punctuation("isolated"),
    pre.Punctuation("contiguous"),
    pre.Digits(individual=False),
    pre.Split(Text(" "), "merged_with_previous"),
]


@pytest.mark.parametrize("seed", range(40))
def test_drawn_steps(seed: int) -> None:
    rng = random.Random(seed)
    spec = load(shared_tokenizer(rng.choice(["llama-2", "t5-small", "bert-base-uncased"]))).spec
    steps = rng.sample(STEPS, rng.randint(0, 3))
    cuts = rng.sample(CUTS, rng.randint(0, 2))
    spec = replace(
        spec,
        normalizer=norm.Sequence(tuple(steps)) if steps else None,
        pre_tokenizer=pre.Sequence(tuple(cuts)) if cuts else None,
    )
    with Both(spec, handed_over=1) as both:
        both.engine._native.warm()
        for text in texts(seed, 12):
            both.same("encode_ids", text)


WORD_CUTS: list[pre.PreTokenizer] = [
    pre.Metaspace("\u2581", "always", split=True),
    pre.Metaspace("\u2581", "always", split=False),
    pre.Punctuation("removed"),
    pre.Punctuation("isolated"),
    pre.Digits(individual=True),
]


@pytest.mark.parametrize("seed", range(80))
def test_drawn_cuts_of_words(seed: int) -> None:
    """What a step adds to words and a later one cuts off, or takes out, is no blank and no word."""
    rng = random.Random(seed)
    spec = load(shared_tokenizer(rng.choice(["llama-2", "bert-base-uncased"]))).spec
    cuts = [pre.WhitespaceSplit(), *rng.choices(WORD_CUTS, k=rng.randint(2, 4))]
    spec = replace(spec, normalizer=None, pre_tokenizer=pre.Sequence(tuple(cuts)))
    with Both(spec, handed_over=1) as both:
        both.engine._native.warm()
        for text in [*texts(seed, 12), "[Y]x9 c", "[a (b c) !", "a . ! b", "9a a9 9"]:
            both.same("encode_ids", text)


@pytest.mark.parametrize("form", ["NFC", "NFD", "NFKC", "NFKD"])
@pytest.mark.parametrize(
    "cuts",
    [[pre.Bert()], [pre.WhitespaceSplit(), pre.Punctuation("removed")],
     [pre.WhitespaceSplit(), pre.Punctuation("isolated"), pre.CharDelimiterSplit("c")],
     [pre.WhitespaceSplit(), pre.CharDelimiterSplit("=")]],
)  # fmt: skip
def test_a_mark_makes_another_character_of_what_cuts(
    form: Any, cuts: list[pre.PreTokenizer]
) -> None:
    """U+2260 is no punctuation, and is written as a sign that is one, with a mark behind it."""
    spec = load(shared_tokenizer("bert-base-uncased")).spec
    forms: list[norm.Normalizer] = [norm.UnicodeForm(form)]
    charsmap = load(shared_tokenizer("t5-small")).spec.normalizer
    for normalizer in [*forms, *([charsmap] if charsmap and form == "NFKC" else [])]:
        changed = replace(spec, normalizer=normalizer, pre_tokenizer=pre.Sequence(tuple(cuts)))
        with Both(changed, handed_over=1) as both:
            both.engine._native.warm()
            for cutting, mark in itertools.product(
                "=<>c-", ["\u0338", "\u0327", "\u0301", "\u05b0"]
            ):
                for text in (
                    "x{}{}",
                    "x{}{} y",
                    "x{}{}y",
                    "a {}{}b",
                    "{0}{0}{1}{0}",
                    "{}s>",
                    "s{}s",
                ):
                    both.same("encode_ids", text.format(cutting, mark))


def test_marks_at_the_beginning_have_nothing_to_join() -> None:
    """Behind a blank they would join it; the map of T5 writes a blank for some of them."""
    spec = load(shared_tokenizer("t5-small")).spec
    spec = replace(spec, pre_tokenizer=pre.WhitespaceSplit())
    marks = ["\u0345", "\u0344", "\u0301", "\u0327", "\u3099", "\u05b0", "\u200d", "\u0300"]
    with Both(spec, handed_over=1) as both:
        both.engine._native.warm()
        assert both.engine._native.cuts_at_pattern
        for first, second in itertools.product(marks, marks):
            for text in ("{}{}", "{}{} a", "{}{}a b", "a {}{}", "{} {}"):
                both.same("encode_ids", text.format(first, second))


def test_long_words_end_where_they_are_cut() -> None:
    """What is longer than the loop reads ahead is no word of its own for all that."""
    rng = random.Random(9)
    with Both(fixture("wordpiece/tokenizer.json")) as both:
        both.engine._native.warm()
        for size in range(20, 140):
            for mark in ("-", "%", "- ", "\x01", "\u4e2d", "77-7"):
                before = rng.choice(["", "a ", "ab-c " * 30])
                behind = rng.choice(["", "a" * 30, "b" * 70 + " c."])
                text = before + rng.choice("aS7") * size + mark + behind
                for name in ("encode_ids", "encode_offsets"):
                    both.same(name, text)


def test_a_chunk_that_grows_is_left_to_the_whole() -> None:
    spec = load(shared_tokenizer("t5-small")).spec
    grows = norm.Replace(Text("q"), "ab" * 100)
    with Both(replace(spec, normalizer=grows), handed_over=1) as both:
        both.engine._native.warm()
        assert both.engine._native.cuts_at_pattern
        for text in ["a q a", "a q " * 40, "q q " * 4000]:
            both.same("encode_ids", text)


@pytest.mark.parametrize("level", ["scalar", "avx2", "avx512"])
def test_each_level_gives_the_same_ids(level: str) -> None:
    asked = [(str(shared_tokenizer(name)), texts(7, 60)) for name in NAMES]
    child = subprocess.run(
        [sys.executable, "-c", WHOLE],
        input=json.dumps(asked),
        env=at_level(level),
        capture_output=True,
        text=True,
        check=True,
    )
    for (name, given), line in zip(asked, child.stdout.splitlines(), strict=True):
        engine = load(name).engine
        assert json.loads(line) == [[engine.encode_ids(text) for text in given]] * 2


def test_steps_that_ask_for_places(tmp_path: Path) -> None:
    """What is left of the first character is known by its place alone: nothing is cut at seams."""
    vocabulary = {"[UNK]": 0, "a": 1, "x": 2, "##x": 3}
    library = tokenizers.Tokenizer(tokenizers.models.WordPiece(vocabulary, unk_token="[UNK]"))
    steps = tokenizers.normalizers
    library.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    for normalizer in (
        steps.Sequence([steps.Prepend(" "), steps.Strip()]),
        steps.Sequence([steps.Replace("x", " x"), steps.Strip()]),
        steps.Sequence([steps.Replace("x", ""), steps.Lowercase(), steps.StripAccents()]),
    ):
        library.normalizer = normalizer
        library.save(str(tmp_path / "tokenizer.json"))
        ours = load(tmp_path / "tokenizer.json")
        for text in ("a x", "x a xx", "ax " * 200):
            assert ours.encode_ids(text) == library.encode(text).ids
