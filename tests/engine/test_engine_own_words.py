"""The tables say which pieces are encoded as themselves; ids stay those that merging gives."""

from __future__ import annotations

import random

import pytest
from engine_beside_pipeline import Both
from support import shared_tokenizer
from tokenizers import Tokenizer

pytest.importorskip("mtkit._native")
from mtkit import load
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import Engine, load_engine, stored_tables
from mtkit.errors import FormatError
from mtkit.spec import TokenizerSpec, models
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.vocabulary import Vocabulary
from mtkit.unicode.utf8 import letters_of_bytes

BYTES = [bytes((byte,)) for byte in range(256)]


def drawn(rng: random.Random) -> TokenizerSpec:
    """Draw a byte-level model: half with merges in any order, and pieces that no merge makes."""
    symbols = list(BYTES)
    pairs: list[tuple[int, int]] = []
    for _ in range(40):
        known = [ord(c) for c in "abc "] + list(range(256, len(symbols)))
        left, right = rng.choice(known), rng.choice(known)
        joined = symbols[left] + symbols[right]
        if len(joined) < 12 and b" " not in joined[1:] and joined not in symbols:
            symbols.append(joined)
            pairs.append((left, right))
    symbols += {"".join(rng.choices("abc", k=4)).encode() for _ in range(9)} - set(symbols)
    if rng.random() < 0.5:
        rng.shuffle(pairs)
    merges = Numbers.of("I", [part for pair in pairs for part in pair])
    return TokenizerSpec(
        Vocabulary(Pieces.of([letters_of_bytes(symbol).encode() for symbol in symbols])),
        models.BPE(models.Merges(merges, Pieces.of([])), ignore_merges=rng.random() < 0.3),
        pre_tokenizer=pre.ByteLevel(add_prefix_space=False),
    )


def merged(tables: dict[str, bytes], spec: TokenizerSpec) -> int:
    """Return the bits of the pieces that are themselves when they are merged one by one."""
    asking = Engine({tag: t for tag, t in tables.items() if tag != "OWNW"}, lambda: spec)
    return int.from_bytes(asking._native.own_words(), "little")


def test_drawn_models() -> None:
    own = others = unknown = 0
    for seed in range(150):
        rng = random.Random(seed)
        spec = drawn(rng)
        tables = stored_tables(spec)
        found, all_own = int.from_bytes(tables["OWNW"], "little"), merged(tables, spec)
        assert found & ~all_own == 0
        unknown += (all_own & ~found).bit_count()
        engine = Engine(tables, lambda spec=spec: spec)
        words = ["".join(rng.choices("abc", k=rng.randint(1, 9))) for _ in range(50)]
        pieces = [engine.pipeline.decode([i]) for i in range(256, len(spec.vocabulary))]
        for word in words + pieces:
            assert engine.encode_ids(word) == engine.pipeline.encode_ids(word)
        bits = int.from_bytes(tables["OWNW"], "little") >> 256
        own += bits.bit_count()
        others += len(pieces) - bits.bit_count()
    assert own > 500
    assert others > 200
    assert 0 < unknown < own / 2  # where a part is made later than the whole, nothing is said


@pytest.mark.parametrize("name", ["gpt2", "llama-3", "qwen3", "deepseek-v3"])
def test_published_models(name: str) -> None:
    spec = load(shared_tokenizer(name)).spec
    tables = stored_tables(spec)
    engine = Engine(tables, lambda: spec)
    merging = load_engine(spec)
    knowing = Engine(tables, lambda: spec, know_words=True)
    texts = [engine.decode([i]) for i in range(0, len(spec.vocabulary), 7)]
    bits = int.from_bytes(tables["OWNW"], "little")
    unmade = [i for i in range(len(spec.vocabulary)) if not bits >> i & 1]
    reference = Tokenizer.from_file(str(shared_tokenizer(name) / "tokenizer.json"))
    for text in [*texts, *map(engine.decode, ([i] for i in unmade))]:
        expected = reference.encode(text, add_special_tokens=False).ids
        for asked in (engine, merging, knowing):
            assert asked.encode_ids(text, add_special_tokens=False) == expected, ascii(text)
    found, all_own = int.from_bytes(tables["OWNW"], "little"), merged(tables, spec)
    assert found & ~all_own == 0
    assert found.bit_count() > 0.99 * all_own.bit_count() > 0.9 * len(texts) * 7


def test_more_bits_than_pieces() -> None:
    spec = drawn(random.Random(1))
    tables = stored_tables(spec)
    with pytest.raises(FormatError, match="more bits"):
        Engine(tables | {"OWNW": tables["OWNW"] + bytes(2)}, lambda: spec)


def test_characters_are_not_made_of_their_bytes() -> None:
    """A merge that parts a character makes no piece of characters, which begin whole."""
    symbols = [
        b"x",
        "中".encode(),
        b"\xe4",
        b"\xb8",
        b"\xad",
        b"x\xe4",
        b"\xb8\xad",
        "x中".encode(),
    ]
    merges = Numbers.of("I", [0, 2, 3, 4, 5, 6])
    vocabulary = Vocabulary(Pieces.of(symbols))
    spec = TokenizerSpec(vocabulary, models.BPE(models.Merges(merges, Pieces.of([]))))
    with Both(spec) as both:
        for _ in range(2):
            assert both.same("encode_ids", "x中") == [0, 1]
