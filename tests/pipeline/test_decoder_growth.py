"""What a decoder makes of tokens is bounded: whole and in a stream, in engine and pipeline."""

from __future__ import annotations

import random

import pytest
from support import posix

from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import load_engine
from mtkit.errors import MtkitError, ResourceError
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, Vocabulary, decoders, models
from mtkit.spec.text import Regex, Text

TIMES = decoders.Replace(Text("a"), "a" * 1000)
GROWING = {
    "literal": (TIMES,) * 5,
    "fused": (decoders.Fuse(), *(TIMES,) * 5),
    "pattern": (decoders.Replace(Regex("a"), "a" * 1000),) * 5,
    "fused pattern": (decoders.Fuse(), *(decoders.Replace(Regex("a"), "a" * 1000),) * 5),
    "word ends": (decoders.BPE(""),) * 40,
    "blanks": (decoders.CTC("", "", cleanup=True),) * 40,
}


def tokenizer(steps: tuple[decoders.Decoder, ...]) -> TokenizerSpec:
    pieces = [b"a", b"b", b" ", b"aab", "é".encode()]
    vocabulary = Vocabulary(Pieces.of(pieces), Numbers.of("B", [1] * len(pieces)))
    return TokenizerSpec(vocabulary, models.WordLevel(0), decoder=decoders.Sequence(steps))


def streamed(spec: TokenizerSpec, ids: list[int]) -> str:
    stream = Pipeline(spec).decode_stream()
    return "".join([*map(stream.push, ids), stream.finish()])


@pytest.mark.parametrize("name", GROWING)
def test_growth_ends_with_an_error(name: str) -> None:
    resource = posix("resource")
    spec = tokenizer(GROWING[name])
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for engine in (load_engine(spec), Pipeline(spec)):
        with pytest.raises(ResourceError, match="the text becomes longer than"):
            engine.decode([0, 1] * 10)
    with pytest.raises(ResourceError, match="the text becomes longer than"):
        streamed(spec, [0, 1] * 10)
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
    assert grown < 600 << 10  # KiB


@pytest.mark.parametrize("seed", range(40))
def test_both_draw_the_same_line(seed: int) -> None:
    """Texts a little shorter and longer than what they may become, of steps that are drawn."""
    rng = random.Random(seed)
    pool = [
        decoders.Fuse(),
        decoders.Replace(Text("a"), "b" * rng.choice((1, 30, 200))),
        decoders.Replace(Text("b"), "ab" * rng.choice((1, 9, 90))),
        decoders.Replace(Regex("[ab]"), "a" * rng.choice((1, 8, 50))),
        decoders.Strip(" ", 1, 0),
        decoders.BPE("b"),
    ]
    spec = tokenizer(tuple(rng.choices(pool, k=rng.randrange(1, 5))))
    engine, pipeline = load_engine(spec), Pipeline(spec)
    for size in (1, 100, 5000, 20000):
        ids = rng.choices(range(5), k=size)
        answers = []
        for one in (engine, pipeline):
            try:
                answers.append(one.decode(ids))
            except MtkitError as error:
                answers.append(str(error))
        assert answers[0] == answers[1]
