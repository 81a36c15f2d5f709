"""Byte tokens stand for their whole character, as in tokenizers; beyond a word as it says, too."""

from __future__ import annotations

import random
from typing import Any

from support import reference

from mtkit.base.binary import Source
from mtkit.engine import load_engine
from mtkit.formats import hf
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
