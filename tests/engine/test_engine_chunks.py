"""Texts in chunks, words in one look at many bytes: ids stay the pipeline's, at every level."""

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

from mtkit import load
from mtkit.spec import normalizers as norm
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec import replace
from mtkit.spec.text import Text

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("mtkit._native")


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
warm, names, texts = json.load(sys.stdin)
for name in names:
    engine = load(name).engine
    warm and engine._native.warm()
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
    norm.Prepend("\u2581"), norm.Prepend(" "), norm.Replace(Text(" "), "\u2581"),
    norm.Replace(Text("\u2581"), " "), norm.Replace(Text("``"), '"'), norm.Replace(Text("x"), ""),
    norm.Replace(Text("~"), " "), norm.Replace(Text("e "), "e"), norm.Strip(), norm.Lowercase(),
    norm.UnicodeForm("NFC"), norm.UnicodeForm("NFKD"), norm.StripAccents(), norm.Nmt(), norm.Bert(),
]  # fmt: skip
CUTS: list[pre.PreTokenizer] = [
    pre.Metaspace("\u2581", "always", split=True), pre.Metaspace("\u2581", "first", split=False),
    pre.WhitespaceSplit(), pre.Bert(), pre.Punctuation("isolated"), pre.Punctuation("contiguous"),
    pre.Digits(individual=False), pre.Split(Text(" "), "merged_with_previous"),
]  # fmt: skip


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
    pre.Metaspace("\u2581", "always", split=True), pre.Metaspace("\u2581", "always", split=False),
    pre.Punctuation("removed"), pre.Punctuation("isolated"), pre.Digits(individual=True),
]  # fmt: skip


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


# Words that the core passes in one look at many bytes; every level gives the pipeline's ids.


RUN_NAMES = ["gpt2", "qwen3", "llama-3", "o200k_base", "bert-base-uncased", "llama-2"]


def runs_of_characters(seed: int, count: int) -> list[str]:
    """Draw texts of runs: of letters, blanks, digits, Han and others, some longer than a look."""
    rng = random.Random(seed)
    runs = [
        *["abcxyz", "ABZ", "aZ", " ", " ", "\n", " \n\t", "0123456789", "'", "'st", "re'", "(){}"],
        *["的一是不", "かなカー", "한글", "。，", "é\u0301", "Ж", "🙂", "\u3000", "\x7f[`@{", "\0"],
    ]

    def run() -> str:
        return "".join(rng.choices(rng.choice(runs), k=rng.choice([1, 1, 2, 3, 5, 9, 17, 40])))

    return ["".join(run() for _ in range(rng.randint(1, 60))) for _ in range(count)]


@pytest.mark.parametrize("name", RUN_NAMES)
def test_runs(name: str) -> None:
    drawn = runs_of_characters(len(name), 60)
    with Both(load(shared_tokenizer(name)).spec) as both:
        both.engine._native.warm()
        for text in [*drawn, *drawn[:10]]:
            both.same("encode_ids", text)


@pytest.mark.parametrize("level", ["scalar", "avx2", "avx512"])
@pytest.mark.parametrize("warm", [False, True])
def test_each_level_gives_the_same_ids(level: str, warm: bool) -> None:
    drawn, names = (texts(7, 60), NAMES) if warm else (runs_of_characters(7, 100), RUN_NAMES)
    child = subprocess.run(
        [sys.executable, "-c", WHOLE],
        input=json.dumps([warm, [str(shared_tokenizer(name)) for name in names], drawn]),
        env=at_level(level),
        capture_output=True,
        text=True,
        check=True,
    )
    for name, line in zip(names, child.stdout.splitlines(), strict=True):
        engine = load(shared_tokenizer(name)).engine
        assert json.loads(line) == [[engine.encode_ids(text) for text in drawn]] * 2


# Each piece of the loop over words and of Unigram's search, on texts that are made for it.


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
