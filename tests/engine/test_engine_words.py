"""Words that are pieces, pairs that cannot merge, new words: ids are those of the library."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from engine_beside_pipeline import Both
from engine_cases import TEXTS
from support import FIXTURES, at_level, shared_tokenizer
from tokenizers import Tokenizer

from mtkit import load
from mtkit.base.packed import Numbers, Pieces
from mtkit.engine import Engine, load_engine, stored_tables, tables
from mtkit.errors import FormatError
from mtkit.spec import TokenizerSpec, models
from mtkit.spec import pre_tokenizers as pre
from mtkit.spec.vocabulary import Vocabulary
from mtkit.unicode.utf8 import letters_of_bytes

if TYPE_CHECKING:
    from pathlib import Path

pytest.importorskip("mtkit._native")


LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
LEVELS = ["scalar", "avx2", "avx512"]
WHOLE = """
import json, random, sys
from mtkit import load
from mtkit.engine import Engine, tables

def damaged(data, rng):
    most = rng.choice([4, 64, len(data)])
    places = rng.sample(range(0, len(data), 4), min(most, len(data) // 4))
    changed = bytearray(data)
    for at in places:
        changed[at : at + 4] = rng.choice([b"\\xff" * 4, rng.randbytes(4), changed[:4]])
    return bytes(changed)

asked = json.load(sys.stdin)
spec = load(asked["path"]).spec
whole = tables(spec)
answers = []
for seed in asked["seeds"] or [None]:
    rng = random.Random(seed)
    tags = [] if seed is None else rng.choice([["PAIR"], ["MRGD"], ["PBIT"], ["PAIR", "MRGD"]])
    made = Engine({**whole, **{tag: damaged(whole[tag], rng) for tag in tags}}, lambda: spec)
    answers.append([made.encode_ids(text) for text in asked["texts"]])
print(json.dumps(answers))
"""
FILES: dict[str, dict[str, Any]] = {
    "pairs": {"merged": 0},
    "small": {"merged": 5_000},
    "in order": {"merged": 5_000, "in_order": True},
    "ignoring merges": {"merged": 5_000, "ignore_merges": True},
    "large": {"merged": 70_000},
}


def _file(*, ignore_merges: bool = False, merged: int = 70_000, in_order: bool = False) -> str:
    """Return a tokenizer.json with merges of pairs of letters and at least so many longer ones.

    ``in_order``: each makes a symbol of its own, with numbers in the order of the merges.
    """
    rng = random.Random(5)
    pairs = list(product(["\u0120", *LETTERS], LETTERS))
    parts = ["".join(pair) for pair in pairs]
    merges = [*pairs, *rng.sample(list(product(parts, LETTERS)), merged)]
    longer = rng.choices(parts, k=merged // 2), rng.choices(parts, k=merged // 2)
    merges = list(dict.fromkeys([*merges, *zip(*longer, strict=True)]))
    if in_order:
        merges = list({"".join(pair): pair for pair in merges}.values())
    else:
        rng.shuffle(merges)
    symbols = [letters_of_bytes(bytes((byte,))) for byte in range(256)]
    vocabulary = dict.fromkeys([*symbols, *map("".join, merges)])
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    model = {
        "type": "BPE",
        "vocab": {piece: number for number, piece in enumerate(vocabulary)},
        "merges": merges,
        "ignore_merges": ignore_merges,
    }
    file = {"version": "1.0", "pre_tokenizer": level, "decoder": level, "model": model}
    return json.dumps(file, ensure_ascii=False)


def _texts(seed: int, count: int) -> list[str]:
    """Draw texts of which most words are new, some come again at once, and few are long."""
    rng = random.Random(seed)

    def word() -> str:
        return "".join(rng.choices(LETTERS, k=rng.choice([1, 2, 3, 5, 7, 8, 9, 14, 15, 16, 24])))

    def words() -> list[str]:
        drawn = [word() for _ in range(rng.choice([1, 2, 15, 16, 17, 40, 200]))]
        return [*drawn, *rng.choices(drawn, k=len(drawn)), rng.choice(["", "\n", "12 的一", "é!"])]

    return ["".join(rng.choice(["", " ", " "]) + w for w in words()) for _ in range(count)]


@pytest.mark.parametrize("ignore_merges", [False, True])
def test_ids_are_those_of_the_library(tmp_path: Path, *, ignore_merges: bool) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(_file(ignore_merges=ignore_merges), encoding="utf-8")
    reference = Tokenizer.from_file(str(path))
    spec = load(path).spec
    texts = [*_texts(1, 120), " qjxzk" * 300 + " a", " qjxzk" * 127 + " vwqxj" * 127 + " b" * 30]
    engines: list[Any] = [
        load_engine(spec),
        *(load_engine(spec, cache_bytes=size) for size in (0, 1 << 16, 1 << 17)),
        Engine(tables(spec), lambda: spec),  # which knows no words
    ]
    for text in texts:
        expected = reference.encode(text).ids
        for engine in engines:
            assert engine.encode_ids(text) == expected
            assert engine.encode(text).ids == expected


def _at_level(level: str, path: Path, texts: list[str], seeds: tuple[int, ...] = ()) -> list[Any]:
    """Encode in a process of that level, with whole tables or with some that are damaged."""
    child = subprocess.run(
        [sys.executable, "-c", WHOLE],
        input=json.dumps({"path": str(path), "texts": texts, "seeds": seeds}),
        env=at_level(level),
        capture_output=True,
        text=True,
        check=True,
    )
    answers: list[Any] = json.loads(child.stdout)
    return answers


def _long_texts() -> list[str]:
    """Texts with one new word to many, of each length."""
    rng = random.Random(3)
    texts = [
        " ".join("".join(rng.choices(LETTERS, k=size)) for size in rng.choices(range(1, 16), k=new))
        for new in range(1, 70)
    ]
    texts += [" ".join("ab" * (size // 2) + "c" for _ in range(9)) for size in range(1, 16)]
    texts = [text + rng.choice(["", " a" * 600]) for text in texts]
    rng.shuffle(texts)
    return [*_texts(2, 20), *texts]


@pytest.mark.slow
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("name", FILES)
def test_each_level_gives_the_same_ids(tmp_path: Path, name: str, level: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(_file(**FILES[name]), encoding="utf-8")
    texts = _long_texts()
    reference = Tokenizer.from_file(str(path))
    expected = [reference.encode(text).ids for text in texts]
    assert _at_level(level, path, texts) == [expected]


@pytest.mark.parametrize("name", ["small", "in order"])
def test_damaged_pairs_give_the_same_ids(tmp_path: Path, name: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(_file(**FILES[name]), encoding="utf-8")
    texts = [" ".join(_texts(4, 6)), *_texts(5, 6)]
    seeds = tuple(range(40))
    levels = importlib.import_module("mtkit._native").simd_levels()
    first, *others = (_at_level(level, path, texts, seeds) for level in levels)
    assert all(answers == first for answers in others)


# The tables say which pieces are encoded as themselves; ids stay those that merging gives.


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
        b"x", "中".encode(), b"\xe4", b"\xb8", b"\xad", b"x\xe4", b"\xb8\xad", "x中".encode(),
    ]  # fmt: skip
    merges = Numbers.of("I", [0, 2, 3, 4, 5, 6])
    vocabulary = Vocabulary(Pieces.of(symbols))
    spec = TokenizerSpec(vocabulary, models.BPE(models.Merges(merges, Pieces.of([]))))
    with Both(spec) as both:
        for _ in range(2):
            assert both.same("encode_ids", "x中") == [0, 1]


# Pairs that cannot merge are told by a bit, without a look into the table of pairs.


@pytest.fixture(scope="module")
def made() -> tuple[Engine, dict[str, bytes]]:
    spec = load(FIXTURES / "bbpe-8k/tokenizer.json").spec
    sections = tables(spec)
    return Engine(sections, lambda: spec), sections


def test_bits_are_asked_first(made: tuple[Engine, dict[str, bytes]]) -> None:
    """A table whose bits are all forged to zero merges nothing."""
    engine, sections = made
    forged = Engine(
        sections | {"PBIT": bytes(len(sections["PBIT"])), "OWNW": b""}, lambda: engine.spec
    )
    short, long = "files and directories", "configuration" * 9
    for text in short, long:
        assert forged.encode_ids(text) == [engine.encode_ids(c)[0] for c in text]
        assert len(engine.encode_ids(text)) < len(text) / 2


def test_ids_are_those_without_bits(made: tuple[Engine, dict[str, bytes]]) -> None:
    engine, sections = made
    asking = Engine({tag: s for tag, s in sections.items() if tag != "PBIT"}, lambda: engine.spec)
    rng = random.Random(4)
    texts = [text for text in TEXTS if isinstance(text, str)]
    texts += ["".join(rng.choices("abcdehilorst .", k=60)) for _ in range(200)]
    for text in texts:
        assert engine.encode_ids(text) == asking.encode_ids(text)


def test_most_pairs_need_no_look(made: tuple[Engine, dict[str, bytes]]) -> None:
    bits = made[1]["PBIT"]
    assert 0.02 < int.from_bytes(bits, "little").bit_count() / (8 * len(bits)) < 0.17


@pytest.mark.parametrize("size", [7, 24])
def test_bits_of_another_size_are_refused(made: tuple[Engine, dict[str, bytes]], size: int) -> None:
    engine, sections = made
    with pytest.raises(FormatError, match="PBIT"):
        Engine(sections | {"PBIT": bytes(size)}, lambda: engine.spec)
