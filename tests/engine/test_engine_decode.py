"""The native decoder gives what the pipeline gives: on files, every component, odd ids."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from decoder_cases import CLEAN_UPS, DECODERS, PIECES, drawn_spec, sequences, vocabulary
from engine_beside_pipeline import HANDED_OVER, Both
from engine_cases import FILES, damage, fixture

from mtkit.base.packed import Pieces
from mtkit.engine import load_engine
from mtkit.errors import MtkitError, UsageError
from mtkit.pipeline import Pipeline
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    SpecialIds,
    TokenizerSpec,
    decoders,
    models,
    normalizers,
    replace,
)
from mtkit.spec.text import Regex
from mtkit.spec.vocabulary import Vocabulary

pytest.importorskip("mtkit._native")
from mtkit.engine import Engine


def assert_equal(
    spec: TokenizerSpec, sequences: list[list[int]], handed_over: float = HANDED_OVER
) -> None:
    with Both(spec, handed_over) as both:
        assert both.engine._decoder is not None, spec.decoder
        assert both.engine.vocab_size == both.pipeline.vocab_size
        for ids in sequences:
            both.same("first_outside", ids)
            for skip in (True, False):
                for name in ("decode", "decode_bytes"):
                    both.same(name, ids, skip_special_tokens=skip)


@pytest.mark.parametrize("name", FILES)
def test_files_are_decoded_as_by_the_pipeline(name: str) -> None:
    spec = fixture(name)
    texts = [
        "Hello, MNN! It's  two.", "naïve 漢字 😀 e\u0301", " ' n't do not 's", "\x00\ufffd\x80",
    ]  # fmt: skip
    encoded = [Pipeline(spec).encode_ids(text) for text in texts]
    assert_equal(spec, encoded + sequences(1, spec.vocab_size, 400))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("letters", [False, True])
def test_every_decoder(seed: int, broken: bool, letters: bool) -> None:
    """Each with a clean-up and a vocabulary drawn; `letters`: the table of pieces has bytes."""
    rng = random.Random(seed)
    for number, decoder in enumerate(DECODERS):
        rule = CLEAN_UPS[(number + seed) % 4]
        spec = drawn_spec(rng, decoder, rule, broken=broken, letters=letters)
        assert_equal(spec, sequences(seed, spec.vocab_size, 40))


def test_the_core_decodes_itself() -> None:
    """Where pieces are text and nothing is wrong, the pipeline has nothing to do."""
    for decoder in DECODERS:
        spec = TokenizerSpec(vocabulary(random.Random(1), broken=False), models.RankBPE())
        spec = replace(spec, decoder=decoder, special_ids=SpecialIds(bos=1))
        engine, pipeline = load_engine(spec), Pipeline(spec)
        assert isinstance(engine, Engine)
        assert engine._decoder is not None
        for ids in sequences(2, len(PIECES) - 20, 30):
            if any(not 0 <= token_id < len(PIECES) for token_id in ids):
                continue
            with suppress(MtkitError):
                expected = pipeline.decode(ids)
                if "UNK_BYTE" not in expected:
                    assert engine._decoder.decode(ids, True) == expected, decoder


def test_ids_outside_are_refused_without_a_specification() -> None:
    from mtkit.engine import tables
    from mtkit.tokenizer.tokenizer import Tokenizer

    spec = fixture(FILES[0])

    def none() -> TokenizerSpec:
        raise AssertionError("nobody needs it")

    tokenizer = Tokenizer(none, engine=Engine(tables(spec), none))
    ids = Pipeline(spec).encode_ids("Hello, MNN!")
    assert tokenizer.decode(ids) == "Hello, MNN!"
    assert tokenizer.decode_bytes(tuple(ids)) == b"Hello, MNN!"
    assert tokenizer.vocab_size == spec.vocab_size
    for bad in (-1, spec.vocab_size, 2**70):
        with pytest.raises(UsageError, match=f"there is no id {bad}"):
            tokenizer.decode([*ids, bad])


def test_damaged_tables_of_decoding_never_harm() -> None:
    rng = random.Random(5)
    from mtkit.engine import tables

    base = replace(fixture(FILES[0]), decoder=decoders.CTC(), clean_up_spaces="full")
    regex = decoders.Sequence((decoders.Replace(Regex("[a-e]+"), "b"), decoders.ByteLevel()))
    spaces = decoders.Subwords(denormalizer=normalizers.Spaces())
    chains = (regex, decoders.Sequence((regex, decoders.Strip("b", 1), decoders.Fuse())), spaces)
    others = (tables(replace(base, decoder=decoder)) for decoder in chains)
    for good in (tables(fixture(FILES[1])), tables(base), *others):
        answered = refused = 0
        for _ in range(200):
            try:
                damaged = {**good, "DECO": damage(good["DECO"], rng, 1, 4)}
                engine = Engine(damaged, lambda: base)
                engine.decode([1, 5, 300, 7, 7999, 0])
                answered += 1
            except MtkitError:
                refused += 1
        assert answered
        assert refused


LEFT = "left to who asked"


def left(*_args: object, **_flags: object) -> str:
    """Answer where the core does not."""
    return LEFT


def test_known_ids_are_decoded_by_the_core_alone() -> None:
    """What is no id, and what the pipeline has to decode, is left to who asked."""
    spec = TokenizerSpec(Vocabulary(Pieces.of([b"a", b"b"])), models.WordLevel(None))
    engine = load_engine(spec)
    assert isinstance(engine, Engine)
    decode = engine.direct("decode", left)
    assert decode([0, 1]) == engine.decode([0, 1]) != LEFT
    assert decode([1]) == "b"
    for _ in range(2):  # the second time from what is remembered
        assert decode([0], skip_special_tokens=False) == decode([0]) == "a"
    for ids in ([2], [-1], [0, -1], [1 << 40], [-(1 << 80)], (0,), None, ["a"]):
        assert decode(ids) == LEFT
    assert engine.pipeline.direct("decode", left) is left


def test_an_id_alone_is_remembered_as_it_was_asked_for() -> None:
    """A special token is nothing where these are left out, and its name where they are not."""
    vocabulary = Vocabulary(Pieces.of([b"a", b"<s>"]))
    added = AddedTokens((AddedToken(1, b"<s>", special=True),))
    engine = load_engine(TokenizerSpec(vocabulary, models.WordLevel(None), added_tokens=added))
    decode = engine.direct("decode", left)
    for _ in range(2):
        found = [decode([1], skip_special_tokens=skip) for skip in (True, False)]
        assert found == ["", "<s>"]
