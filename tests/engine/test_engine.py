"""The native engine gives what the pipeline gives: on files, drawn tokenizers, nasty text."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from typing import TYPE_CHECKING

import pipeline_cases as cases
import pytest
from drawn_tokenizers import compare, say_the_same, tokenizers
from engine_beside_pipeline import HANDED_OVER, Both
from engine_cases import (
    FILES,
    NORMALIZERS,
    POST,
    PRE_TOKENIZERS,
    TEXTS,
    damage,
    fixture,
    random_texts,
    random_vocabulary,
)
from hypothesis import strategies as st
from support import FIXTURES

import mtkit
from mtkit.base.binary import Source
from mtkit.engine import Engine, load_engine, tables
from mtkit.errors import FormatError, MtkitError
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, models, normalizers, replace

if TYPE_CHECKING:
    from mtkit.unicode.utf8 import Rule

pytest.importorskip("mtkit._native")


def assert_equal(spec: TokenizerSpec, texts: list[str | bytes]) -> None:
    with Both(spec) as both:
        for text in texts:
            compare(both, text, places=False)


@pytest.mark.parametrize("name", FILES)
def test_files_are_encoded_as_by_the_pipeline(name: str) -> None:
    assert_equal(fixture(name), TEXTS + random_texts(1, 100))


@pytest.mark.parametrize("name", FILES)
def test_results_do_not_depend_on_what_came_before(name: str) -> None:
    texts = random_texts(2, 60)
    warm, fresh = load_engine(fixture(name)), Pipeline(fixture(name))
    for _ in range(2):
        for text in [*texts, "".join(texts), *texts]:
            assert warm.encode_ids(text) == fresh.encode_ids(text)


def test_tables_are_flat_and_the_same_every_time() -> None:
    spec = fixture(FILES[0])
    first = tables(spec)
    assert first == tables(spec)
    assert all(len(tag) == 4 and isinstance(table, bytes) for tag, table in first.items())


def test_tables_serve_without_a_specification_at_any_address() -> None:
    spec = fixture(FILES[0])

    def none() -> TokenizerSpec:
        raise AssertionError("nobody needs it")

    shifted = {tag: memoryview(b"x" + table)[1:] for tag, table in tables(spec).items()}
    engine = Engine(shifted, none)
    for text in TEXTS[:-2]:
        assert engine.encode_ids(text) == Pipeline(spec).encode_ids(text)
    assert list(engine.encode_array("Hello, MNN!")) == engine.encode_ids("Hello, MNN!")


def test_one_engine_serves_many_threads() -> None:
    spec = fixture(FILES[0])
    engine = load_engine(spec)
    texts = [text * 20 for text in random_texts(3, 60)]
    expected = [Pipeline(spec).encode_ids(text) for text in texts]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            assert list(pool.map(engine.encode_ids, texts)) == expected


@pytest.mark.parametrize("name", FILES)
def test_damaged_tables_never_harm(name: str) -> None:
    """Every table cut or overwritten: an engine may refuse or answer, in time and in bounds."""
    rng = random.Random(4)
    good = tables(fixture(name))
    answered = refused = 0
    for _ in range(150):
        tag = rng.choice(sorted(good))
        try:
            damaged = {**good, tag: damage(good[tag], rng, 0, 1, 40)}
            engine = Engine(damaged, lambda: fixture(name))
            for text in ("Hello, MNN!", "漢字 e\u0301 " * 30, "<s>\u2581 x"):
                engine.encode_ids(text)
            answered += 1
        except MtkitError:
            refused += 1
    assert answered
    assert refused


def test_a_program_of_another_version_is_refused() -> None:
    good = tables(fixture(FILES[0]))
    with pytest.raises(FormatError, match="version"):
        Engine({**good, "PROG": b"\x63\0\0\0" + good["PROG"][4:]}, lambda: fixture(FILES[0]))


def test_drawn_tokenizers() -> None:
    say_the_same(tokenizers(), examples=80)


def test_every_stage_takes_part_in_the_drawn_tokenizers() -> None:
    """Each normalizer and pre-tokenizer once, before a model that shows the words."""
    spec = TokenizerSpec(random_vocabulary(random.Random(0), "\u2581"), models.Unigram(unk=0))
    texts = [*TEXTS, *random_texts(9, 40), *(cases.text(random.Random(seed)) for seed in range(40))]
    for normalizer in [*NORMALIZERS, normalizers.Prepend("")]:
        assert_equal(replace(spec, normalizer=normalizer), texts)
    for pre_tokenizer in PRE_TOKENIZERS:
        assert_equal(replace(spec, pre_tokenizer=pre_tokenizer), texts)
    for processor in POST:
        for prefix in ((), (2,)):
            assert_equal(replace(spec, post_processor=processor, prefix_ids=prefix), texts[:20])


def test_the_default_tokenizer_carries_its_tables() -> None:
    """They are those of its specification (else: python -m tools.default_tokenizer)."""
    from mtkit.formats import mtok
    from mtkit.sources.locate import TOKENIZER, shipped
    from mtkit.tokenizer.load import load_source
    from mtkit.tokenizer.tokenizer import Tokenizer

    source = Source.open(shipped(TOKENIZER))
    spec = mtok.read(source, {}).spec
    stored = mtok.engine_tables(source)
    assert {tag: bytes(stored[tag]) for tag in tables(spec)} == tables(spec)
    loaded = load_source(source)
    assert isinstance(loaded, Tokenizer)
    assert callable(loaded._spec)
    for text in TEXTS[:-2]:
        assert loaded.encode_ids(text) == Pipeline(spec).encode_ids(text)


def test_what_the_core_lacks_is_done_by_the_pipeline() -> None:
    spec = fixture(FILES[0])
    assert isinstance(spec.model, models.BPE)
    spec = replace(spec, model=replace(spec.model, dropout=0.1))
    assert isinstance(load_engine(spec), Pipeline)


# Texts that are not valid UTF-8: the core itself gives what the pipeline gives. A byte that no
# character has is drawn among those around it that may go on with it: lead bytes in front of
# marks and blanks, surrogates, long forms, code points beyond U+10FFFF, cut characters.


RULES: tuple[Rule, ...] = ("replace", "keep", "loose", "wide")
METHODS = "encode_ids", "encode", "encode_offsets"
BAD = [
    b"\xff", b"\x80", b"\xbf", b"\xc0", b"\xe2", b"\xe2\x96", b"\xf0", b"\xf0\x9f", b"\xf4",
    b"\xf8",
    b"\xc0\xaf", b"\xc1\x81", b"\xe0\x80\x80", b"\xf0\x82\x96\x81", b"\xc0\xa0",  # long forms
    b"\xed\xa0\x80", b"\xed\xbf\xbf", b"\xed\xb2\x80", b"\xed\xa0\xbd\xed\xb8\x80",  # surrogates
    b"\xf0\x8d\xa0\x80", b"\xf0\x8d\xb2\x80", b"\xf4\x90\x80\x80", b"\xf7\xbf\xbf\xbf",
]  # fmt: skip
GOOD = ["a", "ab", " ", "  ", "\n", "1", "\u2581", "\u2581a", "é", "漢", "漢字", "👍🏽", "!", ".",
        "'s", "e\u0301", "ﬁ", "<s>", "Hello", "word", "\u3000", "\u00a0", "İ"]  # fmt: skip


def texts(rng: random.Random, count: int, longest: int = 30) -> list[bytes]:
    """Return texts of which most have bytes that are not valid UTF-8."""
    made: list[bytes] = []
    for _ in range(count):
        rare = rng.choice((0.02, 0.2, 0.6))
        parts = rng.choices(GOOD, k=rng.randrange(longest))
        made.append(b"".join(rng.choice(BAD) if rng.random() < rare else p.encode() for p in parts))
    return made


def most(spec: TokenizerSpec) -> float:
    """Return what part of the texts the pipeline may take."""
    loose = spec.invalid_utf8 in {"loose", "wide"}
    return 1.0 if loose and isinstance(spec.normalizer, normalizers.Spaces) else HANDED_OVER


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", FILES)
def test_files_under_every_rule(name: str, rule: Rule) -> None:
    rng = random.Random(name + rule)
    spec = replace(fixture(name), invalid_utf8=rule)
    with Both(spec, most(spec)) as both:
        for text in texts(rng, 60) + texts(rng, 4, 1500):
            for method in METHODS:
                both.same(method, text)


@pytest.mark.parametrize("name", ["bbpe-8k", "spm-bpe", "spm-unigram", "wordpiece"])
def test_ggufs(name: str) -> None:
    rng = random.Random(name)
    with Both(mtkit.load(FIXTURES / name / "vocab.gguf").spec) as both:
        for text in texts(rng, 60) + texts(rng, 4, 1500):
            for method in METHODS:
                both.same(method, text)


def test_drawn_tokenizers_on_texts_that_are_not_valid() -> None:
    given = st.integers(0, 1 << 32).map(lambda seed: texts(random.Random(seed), 1)[0])
    drawn = tokenizers(invalid_utf8=RULES)
    say_the_same(drawn, given, fixed=texts(random.Random(0), 20), examples=40, handed_over=most)


# One engine, many threads: encoding, offsets and decoding at once (`make sanitize-threads`).


THREADS = 6


@pytest.mark.parametrize("name", FILES)
def test_first_calls_of_all_threads_at_once(name: str) -> None:
    """What an engine makes when it is first asked is made once, and seen whole by every thread."""
    texts = [text for text in TEXTS if isinstance(text, str)] + random_texts(5, 60)
    texts.append("漢字かな " * 3000)  # enough for what is made when much was seen
    reference = load_engine(fixture(name))
    expected = [reference.encode(text) for text in texts]
    for _ in range(3):
        engine, start = load_engine(fixture(name)), Barrier(THREADS)

        def work(number: int, engine=engine, start=start) -> None:
            start.wait(60)
            for at in range(len(texts)):
                place = (at + number * 7) % len(texts)
                ids = engine.encode_ids(texts[place])
                assert ids == expected[place].ids
                assert list(engine.encode_array(texts[place])) == ids
                assert engine.encode(texts[place]).offsets == expected[place].offsets
                assert engine.decode(ids) == reference.decode(ids)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
