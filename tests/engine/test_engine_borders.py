"""Merges are cut where no symbol reaches over a border; ids stay those of whole words."""

from __future__ import annotations

import random

import pytest
from engine_beside_pipeline import Both
from support import shared_tokenizer

pytest.importorskip("mtkit._native")
from mtkit import load
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import Engine, load_engine
from mtkit.spec import TokenizerSpec, TokenType, models
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.vocabulary import Vocabulary
from mtkit.unicode.utf8 import letters_of_bytes

LETTERS = "的一是不かなカ한글é。 aא🙂"
"""Of one to four bytes, three mostly; several share their first or last bytes."""

BYTES = [bytes((byte,)) for byte in range(256)]


def drawn(rng: random.Random, count: int, ignore_merges: bool) -> TokenizerSpec:
    """Draw a byte-level model whose merges join bytes, parts of characters, and characters."""
    texts = ["".join(rng.choices(LETTERS, k=rng.randint(2, 5))).encode() for _ in range(8)]
    symbols = list(BYTES)
    pairs: list[int] = []
    for _ in range(count):
        parts = _parted(rng, rng.choice(texts), symbols)
        at = rng.randrange(len(parts) - 1)
        joined = symbols[parts[at]] + symbols[parts[at + 1]]
        if joined not in symbols:
            symbols.append(joined)
            pairs += parts[at : at + 2]
    merges = Numbers.of("I", pairs)
    if ignore_merges:
        # Tokens that merges do not make.
        symbols += {text[:9] for text in texts} - set(symbols)
    vocabulary = Vocabulary(
        Pieces.of([letters_of_bytes(symbol).encode() for symbol in symbols]),
        Numbers.of("B", [TokenType.NORMAL] * len(symbols)),
        Numbers.of("f", [0.0] * len(symbols)),
    )
    model = models.BPE(models.Merges(merges, Pieces.of([])), ignore_merges=ignore_merges)
    split = pre.ByteLevel(add_prefix_space=False, use_regex=rng.random() < 0.8)
    invalid = rng.choice(["error", "replace", "keep"])
    return TokenizerSpec(vocabulary, model, pre_tokenizer=split, invalid_utf8=invalid)


def _parted(rng: random.Random, text: bytes, symbols: list[bytes]) -> list[int]:
    """Part a text into two symbols and more."""
    parts = []
    at = 0
    while at < len(text):
        fitting = [i for i, symbol in enumerate(symbols) if text.startswith(symbol, at)]
        fitting = [i for i in fitting if len(symbols[i]) < len(text)]
        part = max(fitting[-rng.randint(1, 3) :])
        parts.append(part)
        at += len(symbols[part])
    return parts


@pytest.mark.parametrize("ignore_merges", [False, True])
@pytest.mark.parametrize("seed", range(40))
def test_drawn_models(seed: int, ignore_merges: bool) -> None:
    rng = random.Random(f"{seed} {ignore_merges}")
    spec = drawn(rng, rng.choice([5, 20, 60]), ignore_merges)
    words = ["".join(rng.choices(LETTERS, k=rng.randint(1, 12))) for _ in range(20)]
    texts = words + ["".join(rng.choices(words, k=rng.randint(1, 8))) for _ in range(20)]
    with Both(spec) as both:
        # Few bytes come before warm(): words are merged whole, some of them are remembered so.
        assert both.cold_and_warm(texts)
        for text in texts:
            both.same("encode_ids", text.encode()[:-1])


def test_cutting_everywhere_would_be_seen() -> None:
    """In the models drawn above merges do reach over borders, and others are not crossed."""
    crossed = kept = 0
    for seed in range(20):
        rng = random.Random(seed)
        engine = load_engine(drawn(rng, 60, ignore_merges=False))
        for _ in range(50):
            two = rng.choices("的一是不かなカ한글", k=2)
            apart = [i for c in two for i in engine.encode_ids(c)]
            same = engine.encode_ids("".join(two)) == apart
            crossed, kept = crossed + (not same), kept + same
    assert crossed > 20
    assert kept > 200


def drawn_of_characters(rng: random.Random, scored: bool, named: bool) -> TokenizerSpec:
    """Draw a model that merges characters and has a token for each byte of the others.

    Where ``named``, bytes merge, too: what that makes does not spell what it stands for.
    """
    known = [letter for letter in LETTERS if rng.random() < 0.8]
    symbols = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256)), *known]
    pairs: list[int] = []
    for _ in range(40):
        parts = rng.choices(range(257, len(symbols)), k=2)
        if named and rng.random() < 0.3:
            parts = [1 + byte for byte in rng.choice("的한é").encode()[:2]]
        joined = symbols[parts[0]] + symbols[parts[1]]
        if joined not in symbols:
            symbols.append(joined)
            pairs += parts
    types = [TokenType.UNKNOWN, *[TokenType.BYTE] * 256, *[TokenType.NORMAL] * len(symbols)]
    if scored and rng.random() < 0.3:  # SentencePiece takes them whole, and nothing merges them
        at = rng.randrange(257 + len(known), len(symbols))
        types[at] = TokenType.USER_DEFINED
    if scored and rng.random() < 0.2:  # SentencePiece takes them apart again as they were merged
        types[rng.randrange(257 + len(known), len(symbols))] = TokenType.UNUSED
    vocabulary = Vocabulary(
        Pieces.of([symbol.encode() for symbol in symbols]),
        Numbers.of("B", types[: len(symbols)]),
        Numbers.of("f", [rng.choice([-1.0, -2.0, -3.0, -4.5]) for _ in symbols]),
    )
    if scored:
        before = named or rng.random() < 0.5  # as llama2.c, else as SentencePiece
        model = models.ScoreBPE(
            unk=0, byte_fallback=True, mergeable="any" if before else "listed", whole=not before,
            symbols="first_byte", missing="before" if before else "after", score_above=None,
        )  # fmt: skip
        return TokenizerSpec(vocabulary, model)
    merges = models.Merges(Numbers.of("I", pairs), Pieces.of([]))
    return TokenizerSpec(
        vocabulary,
        models.BPE(
            merges, unk=0, byte_fallback=True,
            fuse_unk=rng.random() < 0.5, ignore_merges=rng.random() < 0.3,
        ),
        invalid_utf8=rng.choice(["error", "replace", "keep"]),
    )  # fmt: skip


@pytest.mark.parametrize("named", [False, True])
@pytest.mark.parametrize("scored", [False, True])
@pytest.mark.parametrize("seed", range(20))
def test_drawn_models_of_characters(seed: int, scored: bool, named: bool) -> None:
    rng = random.Random(f"{seed} {scored} {named}")
    spec = drawn_of_characters(rng, scored, named)
    words = [
        "".join(rng.choices(LETTERS + "\u2581<0xE4>", k=rng.randint(1, 12))) for _ in range(20)
    ]
    texts = words + ["".join(rng.choices(words, k=rng.randint(1, 8))) for _ in range(20)]
    model = spec.model
    after = isinstance(model, models.ScoreBPE) and model.missing == "after"
    whole = named or (after and TokenType.UNUSED in bytes(spec.vocabulary.types))
    with Both(spec) as both:
        assert both.cold_and_warm(texts) is not whole
        for text in texts:
            both.same("encode_ids", text.encode()[:-1])


@pytest.mark.parametrize(
    ("name", "file"),
    [("llama-2", "tokenizer.json"), ("llama-2", "tokenizer.model"),
     ("chinese-llama-2", "tokenizer.model"), ("mistral-v0.3", "tokenizer.json")],
)  # fmt: skip
def test_published_models_of_characters(name: str, file: str) -> None:
    """Against the library whose file it is."""
    path = shared_tokenizer(name) / file
    engine = load(path).engine
    assert isinstance(engine, Engine)
    rng = random.Random(name)
    letters = "的一是不了人我在有他这中大来上们国家かなカ한글，。 a的一是在中国人们大家\U0001f389"
    texts = ["".join(rng.choices(letters, k=rng.choice([3, 30, 300]))) for _ in range(200)]
    texts.append("".join(texts))
    if path.suffix == ".model":
        from sentencepiece import SentencePieceProcessor

        encode = SentencePieceProcessor(model_file=str(path)).encode
    else:
        from tokenizers import Tokenizer

        library = Tokenizer.from_file(str(path))

        def encode(text: str) -> list[int]:
            ids: list[int] = library.encode(text, add_special_tokens=False).ids
            return ids

    wanted = [encode(text) for text in texts]
    for _ in range(2):
        assert [engine.encode_ids(text, add_special_tokens=False) for text in texts] == wanted
        assert engine._native.warm()


@pytest.mark.parametrize("name", ["gpt2", "qwen3", "llama-3", "cl100k_base", "o200k_base"])
def test_the_published_models_take_the_short_way(name: str) -> None:
    """What is said of their speed holds only where the core cuts at the pattern and at borders."""
    tokenizer = load(shared_tokenizer(name))
    engine = tokenizer.engine
    assert isinstance(engine, Engine)
    assert engine._native.cuts_at_pattern
    cold = load_engine(tokenizer.spec)
    rng = random.Random(name)
    texts = [
        "".join(rng.choices("的一是不了人我在有他这中大来上かなカ한글，。 a", k=30))
        for _ in range(300)
    ]
    before = [cold.encode_ids(text, add_special_tokens=False) for text in texts[:100]]
    assert engine._native.warm()
    after = [engine.encode_ids(text, add_special_tokens=False) for text in texts]
    assert after[:100] == before
    assert engine.encode_ids("".join(texts)) == load_engine(tokenizer.spec).encode_ids(
        "".join(texts)
    )
    assert engine.deferred == 0
