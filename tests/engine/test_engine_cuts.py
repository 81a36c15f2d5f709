"""Words are cut where no token can reach over; ids stay the pipeline's."""

from __future__ import annotations

import random

import pytest
from engine_beside_pipeline import HANDED_OVER, Both
from engine_cases import TEXTS, answer, fixture, random_texts

pytest.importorskip("mtkit._native")
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import Engine, load_engine
from mtkit.pipeline import Pipeline
from mtkit.spec import TokenizerSpec, TokenType, models, normalizers, replace
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.vocabulary import Vocabulary

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
