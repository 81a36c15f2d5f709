"""New words of drawn vocabularies, whole tables and damaged ones; ids are those of the library."""

from __future__ import annotations

import importlib
import json
import random
import subprocess
import sys
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from support import at_level
from tokenizers import Tokenizer

pytest.importorskip("mtkit._native")
from mtkit import load
from mtkit.engine import Engine, load_engine, tables
from mtkit.unicode.utf8 import letters_of_bytes

if TYPE_CHECKING:
    from pathlib import Path

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
