"""A stream of ids gives whole characters and, joined, what decoding the whole sequence gives."""

from __future__ import annotations

import random
from typing import Any

import pytest
from support import FIXTURES

from mtkit.base.binary import Source
from mtkit.base.packed import Numbers, Pieces
from mtkit.formats import read
from mtkit.pipeline import Pipeline
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    decoders,
    models,
    replace,
)
from mtkit.spec.text import Text

PIECES = [
    *(b"<0x%02X>" % byte for byte in range(256)),
    *("\u2581a", "b", " ", " .", "'", " '", "s", " n't", "##c", "\u2581", "\u2581\u2581d"),
    *(
        "\u00e9",
        "\u0120",
        "\u0120x",
        "\u00c3",
        "\u00a9",
        "[X]",
        "</w>",
        "e</w>",
        "|",
        "<s>",
        "<pad>",
    ),
]
ENCODED = [piece if isinstance(piece, bytes) else piece.encode() for piece in PIECES]
MARK = Text("\u2581")
DECODERS = {
    "none": None,
    "pieces": decoders.Pieces("marks", drop_first_space=True),
    "alphabet": decoders.Pieces("byte_alphabet"),
    "words": decoders.Pieces("words", drop_first_space=True),
    "subwords": decoders.Subwords(),
    "subwords-all": decoders.Subwords(drop_marks="all"),
    "after-bos": decoders.AfterBos(),
    "bytewise-llama": decoders.Bytewise(
        (
            decoders.Replace(MARK, " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        )
    ),
    "bytewise-words": decoders.Bytewise((decoders.WordPiece(),)),
    "bytewise-bytes": decoders.Bytewise((decoders.ByteLevel(),)),
    "bytewise-strip": decoders.Bytewise((decoders.Metaspace(), decoders.Strip(" ", 1, 1))),
}


def built(decoder: Any, clean_up: Any) -> Pipeline:
    types = [TokenType.BYTE] * 256 + [TokenType.NORMAL] * (len(ENCODED) - 256)
    types[-2] = TokenType.CONTROL
    types[256 + 4] = TokenType.UNKNOWN
    added = AddedToken(len(ENCODED) - 2, b"<s>", special=True)
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(ENCODED), Numbers.of("B", types)),
        models.WordLevel(),
        decoder=decoder,
        added_tokens=AddedTokens((added,)),
        clean_up_spaces=clean_up,
    )
    return Pipeline(replace(spec, special_ids=replace(spec.special_ids, bos=added.id)))


@pytest.mark.parametrize("name", DECODERS)
@pytest.mark.parametrize("clean_up", ["none", "full", "contractions", "three_passes"])
def test_joined_stream_is_whole_decoding(name: str, clean_up: str) -> None:
    rng = random.Random(f"{name} {clean_up}")
    pipeline = built(DECODERS[name], clean_up)
    for _ in range(120):
        ids = [
            rng.choice([rng.randrange(256, len(ENCODED)), rng.randrange(len(ENCODED)), 0xC3, 0xA9])
            for _ in range(rng.randint(0, 9))
        ]
        skip = rng.random() < 0.5
        stream = pipeline.decode_stream(skip_special_tokens=skip)
        given = [stream.push(token_id) for token_id in ids]
        whole = pipeline.decode(ids, skip_special_tokens=skip)
        assert "".join(given) + stream.finish() == whole, (ids, skip)


@pytest.mark.parametrize("fixture", ["bbpe-8k/tokenizer.json", "spm-bpe/tokenizer.model"])
def test_no_half_characters(fixture: str) -> None:
    pipeline = Pipeline(read(Source.open(str(FIXTURES / fixture)))[1].spec)
    text = "Grüße, 世界! \U0001f468\u200d\U0001f469 and so on"
    stream = pipeline.decode_stream()
    given = [stream.push(token_id) for token_id in pipeline.encode_ids(text)]
    assert not any("\ufffd" in part for part in given)
    assert len([part for part in given if part]) > 5
    assert "".join(given) + stream.finish() == text
