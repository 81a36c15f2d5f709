"""Time and memory stay in proportion: bad bytes, repeated steps and slots, long words."""

from __future__ import annotations

import random
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from engine_cases import FILES, answer, fixture
from forked import forked
from support import FIXTURES, posix
from word_memory import bytes_a_byte

import mtkit
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import Engine, load_engine
from mtkit.pipeline import Pipeline
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    models,
    normalizers,
    pre_tokenizers,
    replace,
    rules,
)
from mtkit.spec.post_processors import Slot, Template

pytest.importorskip("mtkit._native")


BAD = [b"\xff", b"\xe2", b"\xf0\x9f", b"\xed\xa0\x80", b"\xc0\xaf"]
GGUFS = ["bbpe-8k", "spm-bpe", "spm-unigram", "wordpiece"]
KEPT = ["spm-bpe/tokenizer.model", "spm-bpe/tokenizer.bin", "spm-unigram/tokenizer.model"]
VOCABULARY = Vocabulary(Pieces.of([b"a", b"b"]), Numbers.of("B", [1, 1]))


def fastest(call, text) -> float:
    """CPU time of the fastest of five calls."""
    times = []
    for _ in range(5):
        start = time.process_time()
        call(text)
        times.append(time.process_time() - start)
    return min(times)


@pytest.mark.parametrize("bad", BAD)
@pytest.mark.parametrize("name", [*(f"{name}/vocab.gguf" for name in GGUFS), *KEPT])
def test_a_bad_byte_in_every_kilobyte_costs_little(name: str, bad: bytes) -> None:
    """The whole text went to the readable pipeline, 100 to 300 times as long; 3 are allowed."""
    tokenizer = mtkit.load(FIXTURES / name)
    engine = tokenizer.engine
    assert isinstance(engine, Engine)
    words = b"".join(b"word%d and more, (some) of them; " % number for number in range(9000))
    good = words[:200_000]
    broken = b"".join(good[at : at + 1000] + bad for at in range(0, len(good), 1000))
    for call in (tokenizer.encode_array, tokenizer.encode_offsets):
        call(broken)
        assert fastest(call, broken) < 10 * fastest(call, good) + 0.002
    assert engine.deferred == 0


@pytest.mark.parametrize("stage", ["normalizer", "pre_tokenizer"])
def test_steps_with_tables_are_not_repeated_without_end(stage: str) -> None:
    """20,000 normal forms took more than 3 GB."""
    resource = posix("resource")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    steps: tuple[object, ...] = (normalizers.UnicodeForm("NFKC"), normalizers.Bert())
    sequence: type = normalizers.Sequence
    if stage == "pre_tokenizer":
        steps, sequence = (
            (pre_tokenizers.Bert(), pre_tokenizers.Punctuation()),
            (pre_tokenizers.Sequence),
        )
    for count in (1, 20, 20_000):
        spec = TokenizerSpec(
            VOCABULARY,
            models.WordLevel(0),
            **{stage: sequence((*steps * count,))},
        )
        engine = load_engine(spec)
        assert isinstance(engine, Engine if count < 100 else Pipeline)
        assert engine.encode_ids("a") == [0]
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 800 << 10  # KiB


def test_what_a_template_repeats_is_held_to_the_rules_once() -> None:
    many = Slot(ids=(1,) * 1000, name="a")
    spec = replace(
        fixture(FILES[0]), post_processor=Template((*(many,) * 5000, Slot(text=0)), (many,) * 5000)
    )
    walked = list(rules._records(spec, "", set()))
    assert sum(record is many for _, record in walked) == 1
    wrong = replace(many, ids=(-5,))
    broken = replace(spec, post_processor=Template((many, wrong, wrong), (wrong,)))
    places = [finding.field for finding in rules.findings(broken)]
    assert places == ["post_processor.single[1].ids"]


# Added tokens and user-defined pieces that are like each other: ids as the pipeline's, in time.


SIZE = 1 << 18
MATCHES = ["leftmost_longest", "longest_first", "first_listed"]
LETTERS = [b"<unk>", b"a", b"b"]


def fibonacci(size: int) -> bytes:
    """A word that is full of its own beginnings."""
    last, word = b"a", b"ab"
    while len(word) < size:
        last, word = word, word + last
    return word[:size]


def shape(name: str, size: int) -> tuple[list[bytes], bytes]:
    """Texts to find, about ``size`` bytes in all, and the period of one that is full of them."""
    if name == "long":
        return [b"a" * size + b"b"], b"a"
    if name == "long-or-short":
        return [b"aa", b"a" * size + b"b"], b"a"
    if name == "overlapping":
        return [b"ab" * (size // 4) + b"b", b"ba" * (size // 4) + b"a", b"abab"], b"ab"
    many = round(size**0.5)
    if name == "nested":
        return [b"a" * count for count in range(2, many)] + [b"a" * many + b"b"], b"a" * many + b"b"
    if name == "ends":
        return [b"a" * count + b"b" for count in range(2, many)], b"a" * many + b"c"
    return [fibonacci(count) + b"c" for count in range(2, 2 * many, 2)], fibonacci(size)


SHAPES = ["long", "long-or-short", "overlapping", "nested", "ends", "self-similar"]


def spec_of(kind: str, texts: list[bytes]) -> TokenizerSpec:
    """Texts as added tokens, or as the user-defined pieces of a model or a step."""
    if kind in MATCHES:
        found = tuple(AddedToken(number + 3, text) for number, text in enumerate(texts))
        vocabulary = Vocabulary(Pieces.of(LETTERS), Numbers.of("B", [2, 1, 1]))
        added = AddedTokens(found, match=kind)
        return TokenizerSpec(vocabulary, models.Characters(unk=0), added_tokens=added)
    pieces = [*LETTERS, *texts]
    types = [2, 1, 1, *[int(TokenType.USER_DEFINED)] * len(texts)]
    scores = [0.0] * len(pieces)
    vocabulary = Vocabulary(Pieces.of(pieces), Numbers.of("B", types), Numbers.of("f", scores))
    if kind == "spaces":
        steps = normalizers.Spaces(add_dummy_prefix=False)
        return TokenizerSpec(vocabulary, models.WordLevel(0), normalizer=steps)
    model = models.Characters(unk=0) if kind == "characters" else models.ScoreBPE(unk=0)
    return TokenizerSpec(vocabulary, model)


def engine_of(spec: TokenizerSpec) -> Engine:
    engine = load_engine(spec)
    assert isinstance(engine, Engine)
    return engine


@pytest.mark.parametrize("kind", [*MATCHES, "spaces", "characters", "score"])
def test_texts_that_are_like_each_other_are_found_as_the_pipeline_finds_them(kind: str) -> None:
    rng = random.Random(kind)
    for _ in range(60):
        texts = {bytes(rng.choices(b"ab", k=rng.randrange(1, 9))) for _ in range(rng.randrange(9))}
        texts |= {text * rng.randrange(1, 4) for text in list(texts)}
        texts -= set(LETTERS) if kind not in MATCHES else set()
        spec = spec_of(kind, rng.sample(sorted(texts), len(texts)))
        engine, pipeline = engine_of(spec), Pipeline(spec)
        for _ in range(20):
            text = bytes(rng.choices(b"abc", (9, 9, 1), k=rng.randrange(300))).decode()
            wanted = answer(pipeline.encode_ids, text)
            assert answer(engine.encode_ids, text) == wanted, (spec, text)


@pytest.mark.parametrize("kind", [*MATCHES, "spaces", "characters", "score"])
@pytest.mark.parametrize("name", SHAPES)
def test_the_time_to_find_texts_grows_with_the_text(kind: str, name: str) -> None:
    times = []
    for size in (SIZE, 2 * SIZE):
        texts, period = shape(name, size // 4)
        engine = engine_of(spec_of(kind, texts))
        text = (period * (size // len(period) + 1))[:size].decode()
        times.append(min(seconds(engine, text) for _ in range(3)))
        assert not engine.deferred
    assert times[1] < 3 * times[0] + 0.01


def seconds(engine: Engine, text: str) -> float:
    start = time.process_time()
    engine.encode_array(text)
    return time.process_time() - start


# A long word is encoded in stretches: in little memory.


WORD_FILES = [
    "bbpe-8k/tokenizer.json", "bbpe-8k/vocab.gguf", "spm-bpe/tokenizer.json",
    "spm-bpe/tokenizer.model", "spm-unigram/tokenizer.model", "spm-unigram-id/tokenizer.json",
    "wordpiece/tokenizer.json",
]  # fmt: skip
BY_STEPS = ["spm-bpe/tokenizer.json", "spm-unigram-id/tokenizer.json"]


@pytest.mark.parametrize("letters", ["a", "qxzjkv", " "])
@pytest.mark.parametrize("name", WORD_FILES)
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
    tokenizer = mtkit.load(FIXTURES / WORD_FILES[0])
    count, grown = forked(lambda: len(tokenizer.encode_array("a" * 200_000_000)))
    assert count > 1_000_000
    assert grown < 4 << 30
