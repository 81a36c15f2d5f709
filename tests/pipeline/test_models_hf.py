"""BPE, Unigram, WordPiece and WordLevel give the ids and offsets of the tokenizers library.

Small random vocabularies make the rare cases common: unknown characters, missing byte tokens,
fused unknowns, ties, prefixes and suffixes.
"""

from __future__ import annotations

import random

import pytest
from support import reference

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import UnsupportedError
from mtkit.pipeline import Pipeline
from mtkit.pipeline.models import build
from mtkit.spec import TokenizerSpec, Vocabulary
from mtkit.spec import models as spec_models

ALPHABET = "aab bcé日本🙂<u>k\n"
BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def words(seed: int, count: int) -> list[str]:
    chance = random.Random(seed)
    made = ["".join(chance.choices(ALPHABET, k=chance.randint(1, 12))) for _ in range(count)]
    return [*made, "<unk>", "<unk>a", "a<unk><unk>日", "ab" * 40, "\n\n", "\n"]


def compare(spec: TokenizerSpec, model: object, texts: list[str]) -> int:
    """Compare with the library; return how many texts gave ids."""
    tokenizer = reference("tokenizers").Tokenizer(model)
    pipeline, encoder = Pipeline(spec), build(spec)
    compared = 0
    for text in texts:
        try:
            expected = tokenizer.encode(text)
        except Exception:  # noqa: BLE001  the library raises nothing more special
            with pytest.raises(UnsupportedError):
                encoder.encode(text)
            continue
        found = pipeline.encode(text)
        assert found.ids == expected.ids, text
        assert found.offsets == expected.offsets, text
        assert encoder.trace(text).ids == expected.ids
        compared += 1
    return compared


def random_merges(chance: random.Random, prefix: str, suffix: str) -> tuple[list[str], list]:
    """A vocabulary of characters and merges whose products are tokens."""
    units = sorted(set(ALPHABET) - set(chance.sample(ALPHABET, 3)))
    vocabulary = list(units)
    if prefix:
        vocabulary += [prefix + unit for unit in units]
    if suffix:
        vocabulary += [unit + suffix for unit in units]
        vocabulary += [prefix + unit + suffix for unit in units if prefix]
    vocabulary.append("<unk>")
    merges = []
    for _ in range(60):
        left, right = chance.choice(vocabulary), chance.choice(vocabulary)
        if prefix and not right.startswith(prefix):
            continue
        made = left + right[len(prefix) :]
        if len(made) > 24:
            continue
        merges.append((left, right))
        if made not in vocabulary:
            vocabulary.append(made)
    return vocabulary, merges


@pytest.mark.parametrize("seed", range(40))
def test_bpe(seed: int) -> None:
    chance = random.Random(seed)
    prefix = chance.choice(["", "", "##"])
    suffix = chance.choice(["", "", "</w>"])
    vocabulary, merges = random_merges(chance, prefix, suffix)
    vocabulary += chance.choice([[], BYTES, BYTES[:0xE4]])
    vocabulary = list(dict.fromkeys([*vocabulary, "a日b", "  "]))
    ids = {token: number for number, token in enumerate(vocabulary)}
    switches = {
        "fuse_unk": chance.random() < 0.5,
        "byte_fallback": chance.random() < 0.6,
        "ignore_merges": chance.random() < 0.3,
    }
    unk = chance.choice([None, "<unk>", "<unk>"])
    affixes = {"continuing_subword_prefix": prefix, "end_of_word_suffix": suffix, "unk_token": unk}
    given = {name: value for name, value in affixes.items() if value}
    model = reference("tokenizers").models.BPE(vocab=ids, merges=merges, **given, **switches)
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(token.encode() for token in vocabulary)),
        spec_models.BPE(
            spec_models.Merges(
                Numbers.of("I", [ids[part] for pair in merges for part in pair]), Pieces.of([])
            ),
            unk=None if unk is None else ids[unk],
            continuing_subword_prefix=prefix,
            end_of_word_suffix=suffix,
            **switches,
        ),
    )
    assert compare(spec, model, words(seed, 150)) > 3


@pytest.mark.parametrize("seed", range(40))
def test_unigram(seed: int) -> None:
    chance = random.Random(seed)
    pieces = ["<unk>", *sorted(set(ALPHABET) - set(chance.sample(ALPHABET, 3)))]
    pieces += {"".join(chance.choices(ALPHABET, k=chance.randint(2, 5))) for _ in range(40)}
    pieces = list(dict.fromkeys(pieces + chance.choice([[], BYTES, BYTES[:0xE4]])))
    scores = [chance.choice([-1.0, -2.0, -3.5, -1.5, chance.uniform(-9, 30)]) for _ in pieces]
    unk = chance.choice([None, 0, 0, 0])
    byte_fallback = chance.random() < 0.5
    model = reference("tokenizers").models.Unigram(
        list(zip(pieces, scores, strict=True)), unk, byte_fallback
    )
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(piece.encode() for piece in pieces), None, Numbers.of("d", scores)),
        spec_models.Unigram(unk=unk, byte_fallback=byte_fallback),
    )
    assert compare(spec, model, words(seed, 150)) > 10


@pytest.mark.parametrize("seed", range(10))
def test_word_piece(seed: int) -> None:
    chance = random.Random(seed)
    starts = sorted(set(ALPHABET) - {"k"})
    pieces = ["[UNK]", *starts, *("##" + unit for unit in starts if chance.random() < 0.8)]
    pieces += {"".join(chance.choices(ALPHABET, k=3)) for _ in range(20)}
    pieces += {"##" + "".join(chance.choices(ALPHABET, k=2)) for _ in range(20)}
    pieces = list(dict.fromkeys(pieces))
    limit = chance.choice([5, 8, 100])
    model = reference("tokenizers").models.WordPiece(
        vocab={piece: number for number, piece in enumerate(pieces)},
        unk_token="[UNK]",
        max_input_chars_per_word=limit,
    )
    spec = TokenizerSpec(
        Vocabulary(Pieces.of(piece.encode() for piece in pieces)),
        spec_models.WordPiece(unk=0, max_chars=limit),
    )
    assert compare(spec, model, words(seed, 200)) > 100


def test_word_level() -> None:
    pieces = ["<unk>", "a", "ab", "日本"]
    ids = {piece: number for number, piece in enumerate(pieces)}
    vocabulary = Vocabulary(Pieces.of(piece.encode() for piece in pieces))
    models = reference("tokenizers").models
    texts = ["a", "ab", "日本", "x", "aab"]
    known = TokenizerSpec(vocabulary, spec_models.WordLevel(unk=0))
    assert compare(known, models.WordLevel(ids, unk_token="<unk>"), texts) == 5
    unknown = TokenizerSpec(vocabulary, spec_models.WordLevel())
    assert compare(unknown, models.WordLevel(ids, unk_token="nothing"), texts) == 3


def test_dropout_is_refused() -> None:
    merges = spec_models.Merges(Numbers.of("I", []), Pieces.of([]))
    spec = TokenizerSpec(Vocabulary(Pieces.of([b"a"])), spec_models.BPE(merges, dropout=0.1))
    with pytest.raises(UnsupportedError, match="dropout"):
        build(spec)
