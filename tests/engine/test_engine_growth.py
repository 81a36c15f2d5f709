"""Time and memory stay in proportion: bad bytes in a text, steps and slots that are repeated."""

from __future__ import annotations

import time

import pytest
from engine_cases import FILES, fixture
from support import FIXTURES, posix

import mtkit
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import Engine, load_engine
from mtkit.pipeline import Pipeline
from mtkit.spec import (
    TokenizerSpec,
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
