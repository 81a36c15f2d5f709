"""Long words are encoded in stretches: as the pipeline encodes them, and in little memory."""

from __future__ import annotations

import random
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from multiprocessing import get_context

import pytest
from drawn_tokenizers import any_model
from engine_beside_pipeline import Both
from forked import forked
from support import FIXTURES
from word_memory import bytes_a_byte

import mtkit
from mtkit.base.packed import Numbers, Pieces
from mtkit.spec import TokenizerSpec, Vocabulary, models

pytest.importorskip("mtkit._native")

SIZE = 20_000  # characters of a word of more than one stretch
FILES = [
    "bbpe-8k/tokenizer.json",
    "bbpe-8k/vocab.gguf",
    "spm-bpe/tokenizer.json",
    "spm-bpe/tokenizer.model",
    "spm-unigram/tokenizer.model",
    "spm-unigram-id/tokenizer.json",
    "wordpiece/tokenizer.json",
]
BY_STEPS = ["spm-bpe/tokenizer.json", "spm-unigram-id/tokenizer.json"]


def word_of(letters: str, rng: random.Random) -> str:
    """One letter, some at random, or a few again and again."""
    some = rng.sample(letters, 4)
    word = rng.choice((some[:1], rng.choices(some[:2], k=SIZE), rng.choices(some, k=30)))
    return ("".join(word) * SIZE)[:SIZE]


def same(spec: TokenizerSpec, word: str) -> None:
    with Both(spec) as both:
        for method in ("encode_ids", "encode", "encode_offsets"):
            both.same(method, word)


@pytest.mark.parametrize("seed", range(20))
def test_drawn_models_encode_long_words_as_the_pipeline_does(seed: int) -> None:
    rng = random.Random(seed)
    same(TokenizerSpec(*any_model(rng)), word_of("aaabbbccdé▁ĠßΩ漢", rng))


def chain(letters: list[str], *, falling: bool) -> TokenizerSpec:
    """A merge of each letter with the next one; the last ones first, or the first ones."""
    pieces = [*letters, *map("".join, pairwise(letters))]
    pairs = [(at, at + 1) for at in range(len(letters) - 1)]
    if falling:
        pairs.reverse()
    numbers = Numbers.of("I", [number for pair in pairs for number in pair])
    vocabulary = Vocabulary(
        Pieces.of([piece.encode() for piece in pieces]), Numbers.of("B", [1] * len(pieces))
    )
    merges = models.Merges(numbers, Pieces.of([]))
    return TokenizerSpec(vocabulary, models.BPE(merges, unk=0, missing="before"))


@pytest.mark.parametrize("falling", [False, True])
@pytest.mark.parametrize("count", [15_000, 15_001])
def test_what_the_end_of_a_word_decides_reaches_its_beginning(count: int, falling: bool) -> None:
    """Each letter merges with the one in front of it or behind it as the number of letters says."""
    letters = [chr(0x4E00 + at) for at in range(count)]
    spec = chain(letters, falling=falling)
    same(spec, "".join(letters))
    same(spec, "".join(letters[at % 5000] for at in range(SIZE)))


@pytest.mark.parametrize("letters", ["a", "qxzjkv", " "])
@pytest.mark.parametrize("name", FILES)
def test_a_word_takes_at_most_17_bytes_a_byte(name: str, letters: str) -> None:
    """A list of ids has twelve, where each byte is a token; so have ids and places.

    The map of a .model has four more for its places, steps eight; blanks take steps more. In a
    new process: where earlier tests have left large free blocks a list that grows is copied.
    """
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        taken = pool.submit(bytes_a_byte, name, letters).result()
    assert taken["encode_array"] < 10
    assert taken["encode_ids"] < 16
    assert name in BY_STEPS or letters == " " or taken["encode_offsets"] < 17


@pytest.mark.slow
def test_200_megabytes_of_one_letter() -> None:
    tokenizer = mtkit.load(FIXTURES / FILES[0])
    count, grown = forked(lambda: len(tokenizer.encode_array("a" * 200_000_000)))
    assert count > 1_000_000
    assert grown < 4 << 30
