"""Words and merges are cut where no token can reach over; ids stay those of the whole."""

from __future__ import annotations

import random

import pytest
from engine_beside_pipeline import HANDED_OVER, Both
from engine_cases import TEXTS, answer, fixture, random_texts
from sentencepiece import SentencePieceProcessor
from support import shared_tokenizer
from tokenizers import Tokenizer

from mtkit import load
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import Engine, load_engine
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, TokenType, models, normalizers, replace
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.vocabulary import Vocabulary
from mtkit.unicode.utf8 import letters_of_bytes

pytest.importorskip("mtkit._native")


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
NORMAL, USER_DEFINED, UNUSED = TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED


def vocabulary(*pieces: str, roles: dict[str, int] | None = None) -> Vocabulary:
    """Pieces of which an earlier one has the higher score."""
    texts = ["<unk>", *pieces]
    types: list[int] = [TokenType.UNKNOWN]
    types += [TokenType.BYTE if p in BYTES else (roles or {}).get(p, NORMAL) for p in pieces]
    scores = [-float(index) for index in range(len(texts))]
    return Vocabulary(
        Pieces.of([text.encode() for text in texts]),
        Numbers.of("B", types),
        Numbers.of("f", scores),
    )


def bpe(words: Vocabulary, *unlisted: str, **options: object) -> TokenizerSpec:
    """Every way to make a piece is a merge; ``unlisted`` are symbols, too."""
    parts = [piece.decode() for piece in words.pieces] + list(unlisted)
    numbers = {text: number for number, text in enumerate(parts)}
    pairs = [
        number
        for text in parts
        for at in range(1, len(text))
        if text[:at] in numbers and text[at:] in numbers
        for number in (numbers[text[:at]], numbers[text[at:]])
    ]
    merges = models.Merges(Numbers.of("I", pairs), Pieces.of([text.encode() for text in unlisted]))
    return TokenizerSpec(words, replace(models.BPE(merges), **options))


def texts(units: list[str], seed: int, count: int) -> list[str]:
    rng = random.Random(seed)
    return ["".join(rng.choices(units, k=rng.randrange(1, 16))) for _ in range(count)]


UNK = {"unk": 0}
PLAIN = ("▁", "a", "b", "▁a", "▁▁", "▁▁a", "ab", "▁ab")
SCORES = models.ScoreBPE(unk=0)
LOOSE = dict.fromkeys(("▁▁", "▁▁b", "ab", "a▁"), USER_DEFINED)
CASES: dict[str, tuple[TokenizerSpec, bool]] = {
    "no piece has a mark inside": (bpe(vocabulary(*PLAIN), **UNK), True),
    "some have": (bpe(vocabulary(*PLAIN, "b▁", "b▁a", "ab▁▁"), **UNK), True),
    "a symbol has that is not a token": (
        bpe(vocabulary(*PLAIN), "a▁", missing="after", **UNK),
        False,
    ),
    "the unknown token merges with a mark": (bpe(vocabulary(*PLAIN, "<unk>▁"), **UNK), False),
    "the unknown token is a mark": (bpe(vocabulary(*PLAIN), unk=1), False),
    "a byte token merges": (
        bpe(vocabulary(*PLAIN, *BYTES, "<0x0A>▁"), byte_fallback=True, **UNK),
        False,
    ),
    "bytes stand for what is unknown": (
        bpe(vocabulary(*PLAIN, *BYTES, ">▁"), byte_fallback=True, unk=None),
        True,
    ),
    "a byte is left out": (
        bpe(vocabulary(*PLAIN, *BYTES[:-80], "a▁"), byte_fallback=True, unk=None),
        False,
    ),
    "unknown characters are left out": (bpe(vocabulary(*PLAIN, "a▁"), unk=None), False),
    "unknown characters are one": (bpe(vocabulary(*PLAIN), fuse_unk=True, **UNK), True),
    "words are looked up first": (bpe(vocabulary(*PLAIN), ignore_merges=True, **UNK), True),
    "newlines alone are": (
        bpe(vocabulary(*PLAIN, "\n\n"), whole_newlines=True, fuse_unk=True, **UNK),
        True,
    ),
    "the last character is another": (
        bpe(vocabulary(*PLAIN, "ae"), end_of_word_suffix="e", **UNK),
        False,
    ),
    "the mark is not a token": (bpe(vocabulary("a", "b", "ab"), fuse_unk=True, **UNK), True),
    "a piece is unused": (
        TokenizerSpec(vocabulary(*PLAIN, roles={"▁": UNUSED}), SCORES),
        False,
    ),
    "by score": (TokenizerSpec(vocabulary(*PLAIN, "a▁▁b"), SCORES), True),
    "user-defined pieces": (
        TokenizerSpec(vocabulary(*PLAIN, "▁▁b", "a▁", roles=LOOSE), SCORES),
        True,
    ),
}
UNITS = ["a", "b", "ab", "▁", "▁", "▁▁", "\n", "\n\n", ">", "é", "<unk>", "e"]


@pytest.mark.parametrize("name", CASES)
def test_where_words_are_cut(name: str) -> None:
    spec, expected = CASES[name]
    # Offsets behind a byte that is left out are the pipeline's.
    left = 0.5 if name == "a byte is left out" else HANDED_OVER
    with Both(spec, left) as both:
        assert both.cold_and_warm(texts(UNITS, len(name), 400)) is expected


def test_generated_vocabularies() -> None:
    seen = {True: 0, False: 0}
    for seed in range(120):
        rng = random.Random(seed)
        found = ["".join(rng.choices("aab▁▁é\n", k=rng.randrange(2, 5))) for _ in range(25)]
        if seed % 2:
            found = ["▁" * rng.randrange(3) + text.replace("▁", "a") for text in found]
        letters = [letter for letter in "▁abé\n" if rng.random() < 0.9]
        pieces = [*dict.fromkeys([*letters, *found])]
        if rng.random() < 0.5:
            pieces += BYTES
        roles: dict[str, int] = {
            piece: rng.choices((NORMAL, USER_DEFINED, UNUSED), (8, 2, 1))[0] for piece in found
        }
        words = vocabulary(*pieces, roles=roles)
        options = {"byte_fallback": rng.random() < 0.5, "missing": rng.choice(("before", "after"))}
        if rng.random() < 0.5:
            unk = rng.choice((0, 0, None))
            spec = bpe(words, **options, unk=unk, fuse_unk=rng.random() < 0.5)
        else:
            spec = TokenizerSpec(words, replace(SCORES, **options, mergeable="any"))
        with Both(spec) as both:
            seen[both.cold_and_warm(texts(UNITS, seed, 60))] += 1
    assert min(seen.values()) > 10, seen


@pytest.mark.parametrize(
    ("after", "cut"),
    [
        (None, pre.ByteLevel()),
        (None, pre.Sequence((pre.WhitespaceSplit(), pre.ByteLevel(add_prefix_space=False)))),
        (None, pre.Metaspace(prepend_scheme="first")),
        (normalizers.Strip(), None),
        (normalizers.Prepend("x"), pre.ByteLevel()),
    ],
)
@pytest.mark.parametrize("rule", [{}, {"prefix": "word"}, {"remove_extra_whitespaces": False}])
def test_steps_behind_spaces_are_the_pipelines(after, cut, rule: dict[str, object]) -> None:
    """What ``Spaces`` wrote may stand for nothing, which such a step counts on."""
    spaces = replace(normalizers.Spaces(), **rule)
    spec = fixture("spm-bpe/tokenizer.model")
    lone = load_engine(replace(spec, normalizer=spaces, pre_tokenizer=pre.MarkSpaces()))
    assert isinstance(lone, Engine)
    both = normalizers.Sequence((spaces, after)) if after else spaces
    spec = replace(spec, normalizer=both, pre_tokenizer=cut)
    engine, pipeline = load_engine(spec), Pipeline(spec)
    for text in TEXTS + random_texts(5, 20):
        assert answer(engine.encode_ids, text) == answer(pipeline.encode_ids, text), text


# Merges are cut where no symbol reaches over a border; ids stay those of whole words.


LETTERS = "的一是不かなカ한글é。 aא🙂"
"""Of one to four bytes, three mostly; several share their first or last bytes."""

SINGLE_BYTES = [bytes((byte,)) for byte in range(256)]


def drawn(rng: random.Random, count: int, ignore_merges: bool) -> TokenizerSpec:
    """Draw a byte-level model whose merges join bytes, parts of characters, and characters."""
    texts = ["".join(rng.choices(LETTERS, k=rng.randint(2, 5))).encode() for _ in range(8)]
    symbols = list(SINGLE_BYTES)
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
    ("name", "file", "cuts"),
    [("llama-2", "tokenizer.json", True), ("llama-2", "tokenizer.model", True),
     ("chinese-llama-2", "tokenizer.model", True), ("mistral-v0.3", "tokenizer.json", True),
     ("sp-test-ja", "tokenizer.model", None), ("sp-test-unigram", "tokenizer.model", None),
     ("t5-small", "tokenizer.json", None), ("xlnet-base-cased", "tokenizer.json", None)],
)  # fmt: skip
def test_published_models(name: str, file: str, cuts: bool | None) -> None:
    """Against the library whose file it is, with words so long that they are cut."""
    path = shared_tokenizer(name) / file
    engine = load(path).engine
    assert isinstance(engine, Engine)
    rng = random.Random(name)
    letters = "的一是不了人我在有他这中大来上们国家かなカ한글，。 a的一是在中国人们大家タ"
    letters += " bcdefghij the ▁é\U0001f389\u3099"
    texts = ["".join(rng.choices(letters, k=rng.choice([3, 30, 300]))) for _ in range(200)]
    texts.append("".join(texts))
    if path.suffix == ".model":
        wanted = SentencePieceProcessor(model_file=str(path)).encode(texts)
    else:
        library = Tokenizer.from_file(str(path))
        wanted = [row.ids for row in library.encode_batch(texts, add_special_tokens=False)]
    for _ in range(2):
        assert [engine.encode_ids(text, add_special_tokens=False) for text in texts] == wanted
        assert engine._native.warm() or cuts is None


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
