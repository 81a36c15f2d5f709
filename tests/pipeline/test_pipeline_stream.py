"""A stream of ids gives what decoding the whole gives, as soon as nothing can change it."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from itertools import product, takewhile
from typing import TYPE_CHECKING

import pytest
from decoder_cases import CLEAN_UPS, DECODERS, PIECES, drawn_spec, sequences
from engine_cases import answer
from support import FIXTURES

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import MtkitError, UsageError
from mtkit.formats import read
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, TokenType, Vocabulary, decoders, models, replace
from mtkit.spec.text import Text

if TYPE_CHECKING:
    from collections.abc import Sequence

FUSED: list[decoders.Decoder] = [
    decoders.Sequence((decoders.Fuse(), step))
    for step in (
        decoders.Strip("a", 1, 2),
        decoders.Strip(" ", 2, 0),
        decoders.Sequence((decoders.ByteFallback(), decoders.CTC("a", "b"), decoders.Strip("a"))),
        decoders.Replace(Text("aa"), "a"), decoders.Replace(Text("xax"), "▁"),
        decoders.Metaspace("a", "never"), decoders.WordPiece(), decoders.WordPiece(cleanup=False),
        decoders.BPE("</w>"), decoders.ByteLevel(),
    )
]  # fmt: skip
FUSED += [
    decoders.Bytewise((decoders.Fuse(), step))
    for step in (
        decoders.Strip("aab", 1, 1),
        decoders.Strip("x", 0, 1),
        decoders.Strip("", 1, 1),
        decoders.Sequence((decoders.Replace(Text("aa"), "▁"), decoders.Metaspace())),
    )
]


def streamed(pipeline: Pipeline, ids: Sequence[int], *, skip: bool) -> str:
    stream = pipeline.decode_stream(skip_special_tokens=skip)
    return "".join([stream.push(token_id) for token_id in ids]) + stream.finish()


@pytest.mark.parametrize("clean_up", CLEAN_UPS)
@pytest.mark.parametrize("broken", [False, True])
def test_joined_stream_is_whole_decoding(clean_up: str, broken: bool) -> None:
    """For every decoder, errors included."""
    rng = random.Random(clean_up)
    for decoder in DECODERS + FUSED:
        spec = drawn_spec(rng, decoder, clean_up, broken=broken)
        pipeline = Pipeline(spec)
        for ids in sequences(rng.randrange(99), spec.vocab_size, 20):
            skip = rng.random() < 0.5
            whole = answer(pipeline.decode, ids, skip_special_tokens=skip)
            assert answer(streamed, pipeline, ids, skip=skip) == whole, (decoder, ids, skip)


LETTERS = [" ", ".", "'", "n", "t", "s", "m", "re", "a", "▁", "▁a"]
BYTES = [b"<0x%02X>" % byte for byte in (0x41, 0x80, 0xA9, 0xC3, 0xE0, 0xE2, 0xF0, 0xFF)]
EARLY: dict[str, decoders.Decoder | None] = {
    "none": None,
    "byte fallback": decoders.ByteFallback(),
    "llama": decoders.Sequence(
        (
            decoders.Replace(Text("▁"), " "), decoders.ByteFallback(), decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        )
    ),
    "strip": decoders.Sequence((decoders.Fuse(), decoders.Strip("a", 2, 3))),
    "literal": decoders.Sequence((decoders.Fuse(), decoders.Replace(Text("aa▁a"), "n"))),
    "subwords": decoders.Subwords(),
    "every mark": decoders.Subwords(drop_marks="all"),
    "roles": decoders.Pieces("marks", drop_first_space=True),
    "bytewise": decoders.Bytewise((decoders.ByteFallback(), decoders.Strip("a", 1, 1))),
    "fused": decoders.Bytewise(
        (
            decoders.ByteFallback(), decoders.Fuse(), decoders.Replace(Text("s."), " "),
            decoders.Strip(" ", 1, 1),
        )
    ),
    "after bos": decoders.AfterBos(),
}  # fmt: skip


def small(decoder: decoders.Decoder | None, clean_up: str) -> TokenizerSpec:
    pieces = [b"<s>", *BYTES, *(letter.encode() for letter in LETTERS)]
    types = [TokenType.CONTROL] + [TokenType.BYTE] * len(BYTES) + [TokenType.NORMAL] * len(LETTERS)
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(pieces), Numbers.of("B", types)), models.WordLevel(), decoder=decoder
    )
    return replace(spec, clean_up_spaces=clean_up, special_ids=replace(spec.special_ids, bos=0))


@pytest.mark.parametrize("name", EARLY)
@pytest.mark.parametrize("clean_up", CLEAN_UPS)
def test_text_comes_out_as_soon_as_it_is_certain(name: str, clean_up: str) -> None:
    """What is held back is what the next tokens could still change.

    Each of the ten rules of a clean-up may hold back its own space of a run of them.
    """
    rng = random.Random(f"{name} {clean_up}")
    pipeline = Pipeline(small(EARLY[name], clean_up))
    every = range(len(BYTES) + len(LETTERS) + 1)
    endings = [list(ending) for size in range(2) for ending in product(every, repeat=size)]
    endings += [list(ending) for ending in product([3, 9, 11, 13, 14, 17], repeat=3)]
    endings += [[17, 17, 18, 17], [17, 18, 17], [18, 17], [9, 11, 9, 11, 14], [3, 3, 3, 8]]
    for _ in range(12):
        drawn = rng.choice((every, range(1, 9), [9, 11, 14, 18, 5, 3], [9, 9, 10, 11, 17]))
        stream, ids, given = pipeline.decode_stream(), [], ""
        for _ in range(rng.randrange(1, 10)):
            ids.append(rng.choice(drawn))
            given += stream.push(ids[-1])
        texts = [pipeline.decode(ids + more) for more in endings]
        columns = zip(*texts, strict=False)
        certain = "".join(column[0] for column in takewhile(lambda c: len({*c}) == 1, columns))
        assert certain.startswith(given)
        assert len(certain) - len(given) <= (0 if clean_up == "none" else 8), (ids, given, certain)


def test_byte_tokens_are_given_as_the_characters_they_become() -> None:
    """A trained model's bytes came out when their run ended, after time growing with its square."""
    pieces = [b"<0x%02X>" % byte for byte in range(256)]
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(pieces), Numbers.of("B", [TokenType.BYTE] * 256)),
        models.WordLevel(),
        decoder=decoders.Subwords(),
    )
    stream = Pipeline(spec).decode_stream()
    given = [stream.push(byte) for byte in "é漢".encode() + b"\xe2\x96a"]
    assert given == ["", "é", "", "", "漢", "", "", "\ufffd\ufffda"]


def seconds(pipeline: Pipeline, ids: Sequence[int]) -> float:
    begin = time.process_time()
    stream = pipeline.decode_stream()
    with suppress(MtkitError):  # a strip finds too little
        for token_id in ids:
            stream.push(token_id)
        stream.finish()
    return time.process_time() - begin


def test_every_token_of_a_long_stream_costs_the_same() -> None:
    """Runs of one token: bytes, spaces, what decoders strip and replace."""
    rng = random.Random(3)
    for decoder in DECODERS + FUSED:
        pipeline = Pipeline(drawn_spec(rng, decoder, rng.choice(CLEAN_UPS)))
        for piece in rng.sample([b"<0xC3>", b"<0xFF>", "  ", "'", "xx", "é"], 2):
            spent = seconds(pipeline, [PIECES.index(piece)] * 1_000)
            assert spent < 0.7, (decoder, piece, spent)


@pytest.mark.parametrize(
    ("piece", "decoder", "clean_up"),
    [
        (b"<0x80>", decoders.Subwords(), "none"),
        (b"<0x80>", decoders.ByteFallback(), "none"),
        (" ", None, "full"),
        ("'", None, "three_passes"),
        ("a", decoders.Sequence((decoders.Fuse(), decoders.Strip("a", 0, 2**40))), "none"),
    ],
)
def test_a_run_of_one_token_is_not_read_again_and_again(
    piece: bytes | str, decoder: decoders.Decoder, clean_up: str
) -> None:
    """What could still change was looked through from its begin with each token."""
    pieces = [b"<s>", *BYTES, *(letter.encode() for letter in LETTERS)]
    token_id = pieces.index(piece if isinstance(piece, bytes) else piece.encode())
    assert seconds(Pipeline(small(decoder, clean_up)), [token_id] * 30_000) < 6


@pytest.mark.parametrize("decoder", [decoders.Subwords(), decoders.AfterBos()])
@pytest.mark.parametrize("bad", [-1, 10**6])
def test_an_id_that_is_none_is_refused(decoder: decoders.Decoder, bad: int) -> None:
    stream = Pipeline(drawn_spec(random.Random(1), decoder, "none")).decode_stream()
    with pytest.raises(UsageError, match=str(bad)):
        stream.push(bad)


@pytest.mark.parametrize("fixture", ["bbpe-8k/tokenizer.json", "spm-bpe/tokenizer.model"])
def test_no_half_characters(fixture: str) -> None:
    pipeline = Pipeline(read(Source.open(str(FIXTURES / fixture)))[1].spec)
    text = "Grüße, 世界! \U0001f468\u200d\U0001f469 and so on"
    stream = pipeline.decode_stream()
    given = [stream.push(token_id) for token_id in pipeline.encode_ids(text)]
    assert not any("\ufffd" in part for part in given)
    assert len([part for part in given if part]) > 5
    assert "".join(given) + stream.finish() == text
