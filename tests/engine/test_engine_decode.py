"""The native decoder gives what the pipeline gives: on files, every component, odd ids."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from engine_cases import FILES, answer, fixture

from mtkit.base.packed import Numbers, Pieces
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
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.text import Regex, Text
from mtkit.spec.vocabulary import Vocabulary

pytest.importorskip("mtkit._native")
from mtkit.engine import Engine


def assert_equal(spec: TokenizerSpec, sequences: list[list[int]]) -> None:
    engine = load_engine(spec)
    assert isinstance(engine, Engine)
    assert engine._decoder is not None, spec.decoder
    pipeline = Pipeline(spec)
    assert engine.vocab_size == pipeline.vocab_size
    for ids in sequences:
        assert engine.first_outside(ids) == pipeline.first_outside(ids)
        for skip in (True, False):
            for name in ("decode", "decode_bytes"):
                expected = answer(getattr(pipeline, name), ids, skip_special_tokens=skip)
                got = answer(getattr(engine, name), ids, skip_special_tokens=skip)
                assert got == expected, (name, ids, skip)


def sequences(seed: int, size: int, count: int = 150) -> list[list[int]]:
    """Id sequences: any ids, runs of the same, neighbours, some outside."""
    rng = random.Random(seed)
    found: list[list[int]] = [[], [0], [size - 1], [size], [size + 7, 1], [-1], [2**40]]
    for _ in range(count):
        ids = [rng.randrange(size) for _ in range(rng.randrange(1, 12))]
        first = rng.randrange(size)
        ids += [(first + step) % size for step in range(rng.randrange(6))]
        ids += [rng.choice(ids)] * rng.randrange(3)
        found.append(ids)
    return found


@pytest.mark.parametrize("name", FILES)
def test_files_are_decoded_as_by_the_pipeline(name: str) -> None:
    spec = fixture(name)
    texts = [
        "Hello, MNN! It's  two.",
        "naïve 漢字 😀 e\u0301",
        " ' n't do not 's",
        "\x00\ufffd\x80",
    ]
    encoded = [Pipeline(spec).encode_ids(text) for text in texts]
    assert_equal(spec, encoded + sequences(1, spec.vocab_size, 400))


PIECES = [
    *(b"<unk>", b"<s>", b"</s>"),
    *(b"<0x%02X>" % byte for byte in (0, 0x20, 0x41, 0xC3, 0xA9, 0xE2, 0x96, 0x81, 0xF0, 0xFF)),
    *(b"<0x+f>", b"<0x4>", b"<0x 1>", b"<0xzz>", b"<0xAb>", b"<0x41>x", b" <0x41>", b"<0x"),
    *(text.encode() for text in "ab.,?!'▁ĠĊÃ©"),
    *(" ", "▁a", "▁▁b", "a▁b▁", "##a", "##", "##▁b", "[x]", "[", " a", "  ", "n't", "'s", " 's"),
    *("do", "not", " do not", "'", " '", " ' ", "'ve", "re", "a</w>", "</w>", "</w>b</w>", "|"),
    *("<pad>", "a|b", "é", "Ġa", "Ġé", "Ġ▁", "漢", "aa", "x ", "xx", "xax", ".", "a .", "▁</w>"),
]
BROKEN = [b"\xe4", b"\xe4\xb8", b"a\xffb", b"\x96\x81", b"\xe2"]


def vocabulary(rng: random.Random, *, broken: bool) -> Vocabulary:
    pieces = [p if isinstance(p, bytes) else p.encode() for p in PIECES]
    pieces += BROKEN * broken
    types = [2, 3, 3, *(rng.choice((1, 1, 1, 6, 6)) for _ in range(18))]
    types += [rng.choice((1, 1, 1, 1, 1, 1, 3, 4, 5, 0)) for _ in pieces[len(types) :]]
    holes = [at for at in range(30, len(pieces)) if rng.random() < 0.04]
    for at in holes:
        pieces[at], types[at] = b"", 255
    return Vocabulary(Pieces.of(pieces), Numbers.of("B", types))


DECODERS: list[decoders.Decoder | None] = [
    None,
    decoders.ByteLevel(),
    decoders.Sequence((decoders.ByteLevel(), decoders.Fuse())),
    decoders.Metaspace(),
    decoders.Metaspace("a", "never"),
    decoders.WordPiece(),
    decoders.WordPiece("a", cleanup=False),
    decoders.ByteFallback(),
    decoders.Fuse(),
    decoders.Replace(Text("▁"), " "),
    decoders.Replace(Text("a"), "[é]"),
    decoders.Strip("x", 1, 0),
    decoders.Strip("x", 1, 1),
    decoders.Strip(" ", 0, 2),
    decoders.BPE(),
    decoders.CTC(),
    decoders.CTC("a", " ", cleanup=False),
    decoders.Sequence(
        (
            decoders.Replace(Text("▁"), " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        )
    ),
    decoders.Sequence((decoders.ByteFallback(), decoders.Metaspace())),
    decoders.Sequence((decoders.Fuse(), decoders.Replace(Text("a b"), "-"), decoders.BPE("b"))),
    *(
        decoders.Pieces(spelling, drop_first_space=drop)
        for spelling in ("marks", "byte_alphabet", "words", "plain", "bytes", "ids")
        for drop in (False, True)
    ),
    *(decoders.Subwords(drop_marks=drop) for drop in ("none", "first", "all")),
    decoders.AfterBos(),
    decoders.Bytewise((decoders.ByteLevel(),)),
    decoders.Bytewise((decoders.ByteFallback(), decoders.Metaspace(), decoders.Fuse()), b"?"),
    decoders.Bytewise((decoders.Metaspace("▁", "never"), decoders.Strip(" ", 1, 1))),
    decoders.Bytewise((decoders.WordPiece(),)),
    decoders.Bytewise(
        (decoders.FirstMark(), decoders.Sequence((decoders.Replace(Text("a"), "b"),)))
    ),
    decoders.Replace(Regex("a+|[é漢]"), "b"),
    decoders.Replace(Regex("."), "<é>"),
    decoders.Replace(Regex("x*"), "-"),
    decoders.Replace(Text(""), "-"),
    decoders.Sequence((decoders.Fuse(), decoders.Replace(Regex(".."), "é"), decoders.Fuse())),
    decoders.Sequence((decoders.ByteFallback(), decoders.Fuse(), decoders.Metaspace())),
    decoders.Sequence((decoders.ByteLevel(), decoders.Strip("a", 1))),
    decoders.Sequence((decoders.ByteLevel(), decoders.Replace(Regex("[^a]"), "?"))),
    decoders.Sequence((decoders.Replace(Text("a"), "Ã"), decoders.ByteLevel(), decoders.CTC())),
    decoders.Sequence((decoders.Fuse(), decoders.ByteLevel(), decoders.ByteLevel())),
    decoders.Sequence((decoders.ByteFallback(), decoders.ByteLevel(), decoders.Metaspace("é"))),
    decoders.WordPiece(""),
    decoders.WordPiece("", cleanup=False),
    decoders.Strip("ax", 1, 1),
    decoders.Strip("", 1, 1),
    decoders.Strip("x", 2**40, 2**40),
    decoders.BPE(""),
    decoders.CTC("", "", cleanup=True),
    decoders.Metaspace(""),
    decoders.Sequence((decoders.Fuse(), decoders.BPE(""), decoders.Metaspace("", "never"))),
    decoders.Subwords(denormalizer=normalizers.Spaces()),
    decoders.Subwords(denormalizer=normalizers.Spaces(remove_extra_whitespaces=False, suffix=True)),
    decoders.Bytewise((decoders.Replace(Text(""), "-"), decoders.Fuse())),
    decoders.Bytewise((decoders.WordPiece(""),)),
    decoders.Bytewise((decoders.Metaspace(""), decoders.Strip("ab", 1, 1))),
]
CLEAN_UPS = ("none", "full", "contractions", "three_passes")
ADDED = AddedTokens(
    (
        AddedToken(1, b"<s>", special=True),
        AddedToken(40, b"Ab", normalized=True),
        AddedToken(41, "Ġé<x>".encode(), special=True, normalized=True),
        AddedToken(42, b" 's", special=True),
        AddedToken(200, b"<out>", special=True),
        AddedToken(201, b" a"),
        AddedToken(203, b""),
    )
)


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("broken", [False, True])
@pytest.mark.parametrize("letters", [False, True])
def test_every_decoder(seed: int, broken: bool, letters: bool) -> None:
    """Each with a clean-up and a vocabulary drawn; `letters`: the table of pieces has bytes."""
    rng = random.Random(seed)
    for number, decoder in enumerate(DECODERS):
        spec = TokenizerSpec(
            vocabulary(rng, broken=broken),
            models.RankBPE() if letters else models.WordLevel(unk=0),
            normalizer=rng.choice((None, normalizers.Lowercase())),
            pre_tokenizer=pre.ByteLevel() if letters else None,
            decoder=decoder,
            added_tokens=rng.choice((ADDED, AddedTokens())),
            clean_up_spaces=CLEAN_UPS[(number + seed) % 4],
            join=rng.choice(("", " ", "▁")),
            special_ids=SpecialIds(bos=1, unk=0),
        )
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
            table = bytearray(good["DECO"])
            if rng.random() < 0.3:
                del table[rng.randrange(len(table) + 1) :]
            for _ in range(rng.choice((1, 4))):
                if table:
                    at = rng.choice((rng.randrange(len(table)), rng.randrange(min(64, len(table)))))
                    table[at : at + 4] = rng.choice(
                        (b"\xff\xff\xff\xff", b"\0\0\0\0", rng.randbytes(4), b"\x7f")
                    )[: len(table) - at]
            try:
                engine = Engine({**good, "DECO": bytes(table)}, lambda: base)
                engine.decode([1, 5, 300, 7, 7999, 0])
                answered += 1
            except MtkitError:
                refused += 1
        assert answered
        assert refused
