"""The native engine gives what the pipeline gives: on files, generated pipelines, nasty text."""

from __future__ import annotations

import random
from concurrent.futures import ThreadPoolExecutor

import pipeline_cases as cases
import pytest
from drawn_tokenizers import compare, say_the_same, tokenizers
from engine_beside_pipeline import Both
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

from mtkit.base.binary import Source
from mtkit.engine import load_engine
from mtkit.errors import FormatError, MtkitError
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, models, normalizers, replace

pytest.importorskip("mtkit._native")
from mtkit.engine import Engine, tables


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
