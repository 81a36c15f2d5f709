"""Byte tokens lie where the libraries have them."""

from __future__ import annotations

import io
import random
from typing import Any

import pytest
from support import reference

from mtkit.base.binary import Source
from mtkit.base.record import replace
from mtkit.engine import load_engine
from mtkit.formats import hf, spm
from mtkit.formats.contract import WriteOptions
from mtkit.pipeline import Pipeline
from mtkit.pipeline.trace import trace

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
LETTERS = "abcб日🙂 "


def both(tokenizer: Any) -> list[Any]:
    spec = hf.read(Source("tokenizer.json", tokenizer.to_str().encode()), {}).spec
    return [load_engine(spec), Pipeline(spec)]


def drawn(rng: random.Random) -> Any:
    """Draw a tokenizer of the library: BPE with byte tokens, a prefix, a suffix, or both."""
    t = reference("tokenizers")
    prefix, suffix = rng.choice([("##", ""), ("", "</w>"), ("_", "é")])
    units = rng.sample(LETTERS, 4)
    pieces = ["<unk>", *units, *(prefix + u for u in units), *(u + suffix for u in units)]
    pieces += rng.choice([BYTES, BYTES, BYTES[:200]])
    ids = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    merges = []
    for left, right in (rng.sample(units, 2) for _ in range(3)):
        if prefix + right in ids and left + right not in ids:
            ids[left + right] = len(ids)
            merges.append((left, prefix + right))
    affixes = {"continuing_subword_prefix": prefix, "end_of_word_suffix": suffix}
    model = t.models.BPE(
        ids,
        merges,
        unk_token=rng.choice(["<unk>", None]),
        fuse_unk=rng.random() < 0.5,
        byte_fallback=True,
        **{name: value for name, value in affixes.items() if value},
    )
    tokenizer = t.Tokenizer(model)
    if rng.random() < 0.7:
        tokenizer.pre_tokenizer = t.pre_tokenizers.WhitespaceSplit()
    if rng.random() < 0.3:
        tokenizer.normalizer = t.normalizers.Replace("c", rng.choice(["日", ""]))
    return tokenizer


def test_offsets_of_byte_tokens_with_a_prefix_or_suffix() -> None:
    """Each affix is spelled in bytes, too, so tokens come to lie behind the end of their word."""
    outside = 0
    for seed in range(30):
        rng = random.Random(seed)
        tokenizer = drawn(rng)
        ours = both(tokenizer)
        for _ in range(40):
            text = "".join(rng.choices(LETTERS, k=rng.randrange(1, 9)))
            expected = tokenizer.encode(text)
            outside += any(end > len(text) for _, end in expected.offsets)
            for one in ours:
                found = one.encode(text)
                assert (found.ids, found.offsets) == (expected.ids, expected.offsets), (seed, text)
                assert one.encode_ids(text) == expected.ids
            assert list(trace(ours[1], text).ids) == expected.ids
    assert outside > 100


def test_offsets_of_a_character_in_bytes() -> None:
    """sentencepiece gives bytes of one character different offsets: (1, 1), then (1, 2)."""
    t = reference("tokenizers")
    pieces = ["<unk>", "a", "c", *BYTES]
    ids = {piece: at for at, piece in enumerate(pieces)}
    bpe = t.models.BPE(ids, [], byte_fallback=True)
    unigram = t.models.Unigram([(piece, -1.0) for piece in pieces], 0, byte_fallback=True)
    alone = [(0, 1), (1, 2), (1, 2), (2, 3), (2, 3), (2, 3), (2, 3), (3, 4)]
    for model, offsets in ((bpe, alone), (unigram, [(0, 1), *[(1, 3)] * 6, (3, 4)])):
        tokenizer = t.Tokenizer(model)
        assert tokenizer.encode("aб𒀀c").offsets == offsets
        for ours in both(tokenizer):
            assert ours.encode("aб𒀀c").offsets == offsets


# The last byte token of a character covers it, those before it nothing, as in sentencepiece.


RULES = ("identity", "nmt_nfkc", "nfkc_cf")
PLACE_LETTERS = "abc XYéßﬁ½日\u3000か\u0301🙂▁\n"


def trained(rng: random.Random, kind: str) -> bytes:
    """Train a model with byte tokens on a text that lacks most letters."""
    words = ["".join(rng.choices("abcd", k=rng.randint(1, 4))) for _ in range(60)]
    model = io.BytesIO()
    reference("sentencepiece").SentencePieceTrainer.train(
        sentence_iterator=iter([" ".join(rng.choices(words, k=12)) for _ in range(30)]),
        model_writer=model,
        vocab_size=300,
        model_type=kind,
        hard_vocab_limit=False,
        byte_fallback=True,
        normalization_rule_name=rng.choice(RULES),
        add_dummy_prefix=rng.random() < 0.7,
        remove_extra_whitespaces=rng.random() < 0.7,
        treat_whitespace_as_suffix=rng.random() < 0.3,
        user_defined_symbols=rng.choice(["", "X日", "bY"]),
        minloglevel=2,
    )
    return model.getvalue()


def drawn_text(rng: random.Random) -> str:
    if rng.random() < 0.1:  # long enough to be cut, and of characters that are never pieces
        return "".join(
            rng.choice(["日本語", "か", "ab ", "X"]) for _ in range(rng.randint(50, 900))
        )
    return "".join(rng.choices(PLACE_LETTERS, k=rng.randint(1, 12)))


@pytest.mark.parametrize("kind", ["unigram", "bpe", "char", "word"])
def test_byte_tokens_lie_where_sentencepiece_has_them(kind: str) -> None:
    sentencepiece = reference("sentencepiece")
    empty = 0
    for seed in range(6):
        rng = random.Random(f"{kind} {seed}")
        data = trained(rng, kind)
        theirs = sentencepiece.SentencePieceProcessor(model_proto=data)
        spec = spm.read(Source("m.model", data), {}).spec
        engine, pipeline = load_engine(spec), Pipeline(spec)
        assert engine.name == "native"
        texts = [drawn_text(rng) for _ in range(40)]
        for text in texts + texts[:20]:  # some are remembered
            expected = places(theirs, text)
            empty += sum(start == end for _, (start, end) in expected)
            found: list[Any] = [engine.encode(text)]
            found += [pipeline.encode(text)] if len(text) < 50 else []
            for one in found:
                assert list(zip(one.ids, one.offsets, strict=True)) == expected, (seed, text)
            ids, ends = engine.encode_offsets(text)
            flat = [place for _, pair in expected for place in pair]
            assert (ids.tolist(), ends.tolist()) == ([i for i, _ in expected], flat)
    assert empty > 200


def places(theirs: Any, text: str) -> list[tuple[int, tuple[int, int]]]:
    """Return ids and places in characters: the library has places in bytes in its result."""
    data = text.encode()
    return [
        (piece.id, (len(data[: piece.begin].decode()), len(data[: piece.end].decode())))
        for piece in theirs.encode(text, return_type="proto").pieces
    ]


def test_a_tokenizer_json_of_a_model_file_has_the_places_of_its_own_library() -> None:
    data = trained(random.Random(1), "unigram")
    spec = spm.read(Source("m.model", data), {}).spec
    written = hf.write(spec, WriteOptions()).files["tokenizer.json"]
    theirs = reference("tokenizers").Tokenizer.from_str(written.decode())
    back = hf.read(Source("tokenizer.json", written), {}).spec
    assert [theirs.encode("aXY🙂").offsets] == [load_engine(back).encode("aXY🙂").offsets]
    assert load_engine(spec).encode("aXY🙂").offsets != theirs.encode("aXY🙂").offsets


def test_places_with_some_byte_tokens_only() -> None:
    """What no file has: then characters are fused where the tokens of their bytes are missing."""
    spec = spm.read(Source("m.model", trained(random.Random(2), "unigram")), {}).spec
    pieces = [b"none" if piece == b"<0x58>" else piece for piece in spec.vocabulary.pieces]
    vocabulary = replace(spec.vocabulary, pieces=type(spec.vocabulary.pieces).of(pieces))
    spec = replace(spec, vocabulary=vocabulary)
    found = load_engine(spec).encode("XXéX")
    unk = spec.special_ids.unk
    assert [pair for i, pair in zip(found.ids, found.offsets, strict=True) if i == unk] == [
        (0, 2),
        (3, 4),
    ]
