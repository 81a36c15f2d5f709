"""Models in the core: ids, offsets, errors and traces of damage, as by the pipeline."""

from __future__ import annotations

import random
import struct
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest
from drawn_tokenizers import STAGES, any_model, say_the_same, tokenizers
from engine_beside_pipeline import Both
from engine_cases import PRE_TOKENIZERS, TEXTS, answer, damage, random_merges, random_vocabulary

from mtkit.base.native import native
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import Engine, load_engine, tables
from mtkit.errors import MtkitError, UnsupportedError
from mtkit.pipeline import Pipeline
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    TokenizerSpec,
    Vocabulary,
    models,
    normalizers,
    replace,
)
from mtkit.spec import pre_tokenizers as pre
from mtkit.unicode.utf8 import BYTE_LETTERS

if TYPE_CHECKING:
    from collections.abc import Callable

pytest.importorskip("mtkit._native")


BYTES = [b"<0x%02X>" % byte for byte in range(256)]
ODD_SCORES = (
    *(-2000.0, -1999.99995, -3000.0, -999.99995, -1000.00005, 0.00005, 1e30, -1e30),
    *(float("inf"), float("-inf"), float("nan")),
)


def with_bytes(rng: random.Random, *more: bytes) -> tuple[list[bytes], list[int], list[float]]:
    """Return pieces, types and scores: all byte tokens, then others."""
    drawn = random_vocabulary(rng, "\u2581")
    pieces = [*BYTES, *more, *drawn.pieces]
    assert drawn.types is not None
    types = [6] * 256 + [1] * len(more) + list(drawn.types)
    scores = [-rng.random() * 1500 for _ in pieces]
    return pieces, types, scores


def shortest_path(rng: random.Random) -> tuple[Vocabulary, models.Model]:
    # Pieces that begin or end inside a character are found only where the text is broken, too.
    pieces, types, scores = with_bytes(rng, b"\xe4", b"\xe4\xb8", b"\xff", "\ufeff".encode(), b"")
    odd = [rng.choice(ODD_SCORES) if rng.random() < 0.1 else score for score in scores]
    return vocabulary_of(pieces, types, odd), models.ShortestPath()


def vocabulary_of(pieces: list[bytes], types: list[int], scores: list[float]) -> Vocabulary:
    return Vocabulary(Pieces.of(pieces), Numbers.of("B", types), Numbers.of("d", scores))


def loose_bpe(rng: random.Random) -> tuple[Vocabulary, models.Model]:
    """Pairs twice, ranks alike, pairs that make nothing, and ids that no text begins as."""
    pieces, types, scores = with_bytes(rng, b"\xe4", b"a", b"\xff")
    if rng.random() < 0.5:
        for at in rng.sample(range(256), 40):  # bytes without a token are dropped
            pieces[at] = b"a"
    vocabulary = vocabulary_of(pieces, types, scores)
    hidden = tuple(sorted(rng.sample(range(256, len(pieces)), 20)))
    vocabulary = Vocabulary(vocabulary.pieces, vocabulary.types, vocabulary.scores, hidden)
    pairs = list(random_merges(rng, vocabulary).pairs)
    ids = list(vocabulary.ids.values())
    for _ in range(40):
        pairs += rng.choices([*ids, 7, len(pieces), 0xFFFFFFFF], k=2)
    pairs += pairs[:20]
    ranks = sorted(rng.choices(range(len(pairs)), k=len(pairs) // 2))
    if rng.random() < 0.3:
        ranks[-3:] = [0xFFFFFFFF] * 3
    return vocabulary, models.LooseBPE(Numbers.of("I", pairs), Numbers.of("I", ranks))


def lattice_unigram(rng: random.Random) -> tuple[Vocabulary, models.Model]:
    pieces, types, scores = with_bytes(rng, b"\xe4", b"\xb8\xad", b"")
    if rng.random() < 0.5:
        for at in rng.sample(range(256), 60):
            pieces[at] = b"\xc3" + bytes([at])
    ties = [round(score / 500) * 1.0 for score in scores]
    odd = [rng.choice(ODD_SCORES) if rng.random() < 0.02 else score for score in ties]
    unk = rng.randrange(len(pieces))
    return vocabulary_of(pieces, types, odd), models.LatticeUnigram(unk, rng.random() < 0.5)


def section_bpe(rng: random.Random) -> tuple[Vocabulary, models.Model]:
    runs = [run + "\ue000".encode() for run in (b"ABABAB", b"AABCAA", b"ABCAAA", b"A\xc3\xa9AAA")]
    drawn = random_vocabulary(rng, "\u2581")
    pieces = [
        *drawn.pieces, *(BYTE_LETTERS[byte].encode() for byte in range(256)), b"<>", b"ab", *runs,
    ]  # fmt: skip
    pieces = list(dict.fromkeys(pieces))
    vocabulary = Vocabulary(Pieces.of(pieces))
    begin, end = vocabulary.ids[b"<>"], vocabulary.ids[rng.choice((b"<>", b"ab", b"1"))]
    bpe = models.BPE(
        random_merges(rng, vocabulary),
        unk=rng.choice((0, None)),
        byte_fallback=rng.random() < 0.5,
        missing=rng.choice(("before", "after")),
        without_unk=rng.choice(("left_out", "error")),
    )
    words = rng.choice(PRE_TOKENIZERS) or pre.ByteLevel()
    return vocabulary, models.SectionBPE(bpe, words, begin, end, rng.choice((0, 3, len(pieces))))


def refusing_bpe(rng: random.Random) -> tuple[Vocabulary, models.Model]:
    vocabulary = random_vocabulary(rng, "\u2581")
    return vocabulary, models.BPE(
        random_merges(rng, vocabulary),
        ignore_merges=rng.random() < 0.5,
        end_of_word_suffix=rng.choice(("", "\u00e9")),
        without_unk="error",
    )


def refusing_bytes(rng: random.Random) -> tuple[Vocabulary, models.Model]:
    """Byte tokens without an affix: beside one their offsets are the pipeline's."""
    vocabulary, model = refusing_bpe(rng)
    return vocabulary, replace(model, byte_fallback=True, end_of_word_suffix="")


def without_token(rng: random.Random) -> tuple[Vocabulary, models.Model]:
    """An unknown token that is none."""
    while True:
        vocabulary, model = any_model(rng)
        if getattr(model, "unk", None) is not None:
            return vocabulary, replace(model, unk=rng.choice((-1, 2**32 - 1, 2**40, 5000)))


DRAW: dict[str, Callable[[random.Random], tuple[Vocabulary, models.Model]]] = {
    "ShortestPath": shortest_path, "LooseBPE": loose_bpe, "LatticeUnigram": lattice_unigram,
    "SectionBPE": section_bpe, "BPE without_unk": refusing_bpe,
    "BPE without_unk, with bytes": refusing_bytes, "unk outside": without_token,
}  # fmt: skip
MORE = ["\ufeff", "\ufeffab\ufeff", "\ufeff\ufeff a", "\ud7ff\ue000", "a" * 40, "ab" * 60]
MORE += ["a <>ababababAabc<> b", "<>", "x<>aé<>ab<>", "ab<>Ababab é1 a<>", "漢漢\u4e2d\u4e2d"]


@pytest.mark.parametrize("name", DRAW)
def test_drawn_tokenizers(name: str) -> None:
    rules = ("error", "replace", "keep", "loose", "wide")
    for stages in ({"pre_tokenizer": (None,)}, {"normalizer": (None,)}):
        drawn = tokenizers(DRAW[name], invalid_utf8=rules, prefix_ids=((),), **stages)
        say_the_same(
            drawn, fixed=TEXTS + MORE, examples=8, handed_over=0.1, places=True,
            methods=("encode",),  # an unknown token may be an id of more than 32 bits
        )  # fmt: skip


def merges_of_nothing(rng: random.Random) -> tuple[Vocabulary, models.Model]:
    """A merge that makes no token never happens: drawn among merges that do."""
    vocabulary = random_vocabulary(rng, "\u2581")
    ids = list(vocabulary.ids.values())
    pairs = [*random_merges(rng, vocabulary).pairs.view.tolist(), *rng.choices(ids, k=100)]
    order = rng.sample(range(0, len(pairs), 2), len(pairs) // 2)
    mixed = Numbers.of("I", [number for at in order for number in pairs[at : at + 2]])
    return vocabulary, models.BPE(models.Merges(mixed, Pieces.of([])), unk=0)


@pytest.mark.parametrize("words", [None, pre.ByteLevel(add_prefix_space=False)])
def test_merges_of_nothing(words: pre.ByteLevel | None) -> None:
    """Of ids and of letters of bytes."""
    only = {name: choices[:1] for name, choices in STAGES.items()}
    say_the_same(tokenizers(merges_of_nothing, **only | {"pre_tokenizer": (words,)}), examples=20)


@pytest.mark.parametrize("name", [name for name in DRAW if name != "unk outside"])
def test_the_core_takes_the_texts_itself(name: str) -> None:
    engine = load_engine(TokenizerSpec(*DRAW[name](random.Random(1)), invalid_utf8="replace"))
    assert isinstance(engine, Engine)
    texts: list[object] = [*TEXTS, *MORE]
    left = [
        text
        for text, found in zip(texts, engine._native.encode_tokens(texts, None), strict=True)
        if not found
    ]
    assert not [text for text in left if not isinstance(answer(engine.encode, text), tuple)]


@pytest.mark.parametrize("name", DRAW)
def test_damaged_tables_never_harm(name: str) -> None:
    spec = TokenizerSpec(*DRAW[name](random.Random(2)), invalid_utf8="keep")
    good = tables(spec)
    rng = random.Random(name)
    answered = refused = 0
    for _ in range(200):
        tag = rng.choice(["PROG", *sorted(good)])
        try:
            core = Engine({**good, tag: damage(good[tag], rng, 1, 1, 40)}, lambda: spec)._native
            for text in (*TEXTS, *MORE):
                core.encode_tokens([text], None)
            answered += 1
        except MtkitError:
            refused += 1
    assert answered
    assert refused


def test_added_tokens_keep_the_pieces_that_the_normalizer_keeps() -> None:
    pieces = Pieces.of([b"<unk>", b"  ", b"x", b"y", "\u2581".encode()])
    scores = Numbers.of("f", [0, -1, -1, -1, -1])
    spec = TokenizerSpec(
        Vocabulary(pieces, Numbers.of("B", [2, 4, 1, 1, 1]), scores),
        models.Unigram(unk=0),
        normalizer=normalizers.Spaces(add_dummy_prefix=False),
        added_tokens=AddedTokens((AddedToken(7, b"x  y", normalized=True),)),
    )
    engine, pipeline = load_engine(spec), Pipeline(spec)
    assert isinstance(engine, Engine)
    assert pipeline.encode_ids("x  y") == [7]
    for text in ("x  y", "a x  y b", "x y"):
        assert engine.encode_ids(text) == pipeline.encode_ids(text)


@pytest.mark.parametrize("hidden", [(), (0,), (1,), (2,), (0, 1), (3,)])
def test_hidden_pieces_still_merge_as_text(hidden: tuple[int, ...]) -> None:
    """They are never given; the symbols of a merge need not be tokens."""
    pieces = Pieces.of([b"a", b"b", b"ab", b"b"])
    spec = TokenizerSpec(
        Vocabulary(pieces, hidden=hidden),
        models.BPE(models.Merges(Numbers.of("I", [0, 1]), Pieces.of([])), missing="after"),
    )
    engine, pipeline = load_engine(spec), Pipeline(spec)
    for text in ("ab", "abab b", "ba", "aab"):
        assert engine.encode_ids(text) == pipeline.encode_ids(text), text
    assert isinstance(engine, Engine) == (0 not in hidden)


@pytest.mark.parametrize("prefix", ["", "b", "##"])
@pytest.mark.parametrize("suffix", ["", "a", "</w>"])
def test_characters_that_merge_as_text_take_no_affixes(prefix: str, suffix: str) -> None:
    pieces = Pieces.of([b"a", b"b", b"ab", b"##b", b"b</w>"])
    merges = models.Merges(Numbers.of("I", [0, 1]), Pieces.of([]))
    model = models.BPE(
        merges, missing="after", continuing_subword_prefix=prefix, end_of_word_suffix=suffix
    )
    spec = TokenizerSpec(Vocabulary(pieces), model)
    engine, pipeline = load_engine(spec), Pipeline(spec)
    assert isinstance(engine, Engine)
    for text in ("ab", "abab b", "ba", "aab", "b"):
        assert engine.encode_ids(text) == pipeline.encode_ids(text), text
    assert engine.encode_ids("ab") == [2]


def test_ranks_of_scores_that_are_no_numbers() -> None:
    """Scores in any order have ranks; NaN, which has no place among them, is the pipeline's."""
    scores = struct.pack("<5f", 1.0, float("nan"), 7.0, 6.0, 5.0)
    with pytest.raises(UnsupportedError, match="numbers"):
        native.build_ranks(scores, False, None)
    plain = struct.pack("<6f", 0.0, -1.0, -1.0, 3.0, -2.0, 3.0)
    assert struct.unpack("<6I", native.build_ranks(plain, False, None)) == (1, 2, 2, 0, 3, 0)


@pytest.mark.parametrize("runs", [1, 2, 5, 63, 64, 65, 200])
def test_ranks_of_scores_in_runs(runs: int) -> None:
    """However many times scores begin anew, equal ones have the same place."""
    rng = random.Random(runs)
    scores = [s for _ in range(runs) for s in sorted(rng.choices(range(-99, 9), k=20))[::-1]]
    order = sorted(set(scores), reverse=True)
    found = native.build_ranks(struct.pack(f"<{len(scores)}f", *scores), False, None)
    assert list(struct.unpack(f"<{len(scores)}I", found)) == [order.index(s) for s in scores]


INF = float("inf")


@pytest.mark.parametrize(
    "others",
    [(), (-1e9,), (-1e9, -3e7, -1e9), (0.5,), (-0.5,), (7.0,), (-1e30,) * 70, (INF, -INF), (-INF,)],
)
@pytest.mark.parametrize("layout", ["f", "d"])
def test_ranks_of_scores_that_number_merges(others: tuple[float, ...], layout: str) -> None:
    """Places are counted where scores are 0, -1, -2 ...; a few lower ones do not hinder that."""
    assert native.build_ranks(b"", layout == "d", None) == b""
    rng = random.Random(len(others))
    scores = [-0.0, 0.0, *(float(-number) for number in range(300) if number % 7), *others]
    rng.shuffle(scores)
    order = sorted(set(scores), reverse=True)
    for floor in (None, -250.0):
        packed = struct.pack(f"<{len(scores)}{layout}", *scores)
        found = struct.unpack(f"<{len(scores)}I", native.build_ranks(packed, layout == "d", floor))
        wanted = [order.index(s) if floor is None or s > floor else 0xFFFFFFFF for s in scores]
        assert list(found) == wanted


# Long words are encoded in stretches: as the pipeline encodes them.


SIZE = 20_000  # characters of a word of more than one stretch


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
