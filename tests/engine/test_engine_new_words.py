"""New words are encoded together, in lanes or as they wait; ids are those of the library."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from tokenizers import Tokenizer

pytest.importorskip("mtkit._native")
from mtkit import load
from mtkit.engine import Engine, load_engine, stored_tables, tables
from mtkit.unicode.byte_alphabet import to_letters

if TYPE_CHECKING:
    from pathlib import Path

LETTERS = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
LARGE = 1 << 20
"""Bytes of a table of pairs beyond which words are encoded together without lanes, too."""
WHOLE = """
import json, sys
from mtkit import load
from mtkit.engine import Engine, tables
spec = load(sys.argv[1]).spec
made = Engine(tables(spec), lambda: spec)
print(json.dumps([made.encode_ids(text) for text in json.load(sys.stdin)]))
"""


def _file(*, ignore_merges: bool = False, merged: int = 70_000) -> str:
    """Return a tokenizer.json with merges of pairs of letters and so many others, in any order."""
    rng = random.Random(5)
    pairs = list(product(["\u0120", *LETTERS], LETTERS))
    parts = ["".join(pair) for pair in pairs]
    merges = [*pairs, *rng.sample(list(product(parts, LETTERS)), merged)]
    longer = rng.choices(parts, k=merged // 2), rng.choices(parts, k=merged // 2)
    merges = list(dict.fromkeys([*merges, *zip(*longer, strict=True)]))
    rng.shuffle(merges)
    symbols = [to_letters(bytes((byte,))) for byte in range(256)]
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
    made = tables(spec)
    assert len(made["PAIR"]) > LARGE
    # One word at more places than there are gaps, and two words at as many.
    texts = [*_texts(1, 120), " qjxzk" * 200 + " a", " qjxzk" * 63 + " vwqxj" * 63 + " b" * 30]
    seeded = stored_tables(spec, [text.encode() for text in texts[::2]])
    assert seeded["SEED"]
    engines: list[Any] = [
        load_engine(spec),
        *(load_engine(spec, cache_bytes=size) for size in (0, 1 << 16, 1 << 17)),
        Engine(made, lambda: spec),  # which knows no words, and moves those that it meets
        Engine(seeded, lambda: spec),
    ]
    for text in texts:
        expected = reference.encode(text).ids
        for engine in engines:
            assert engine.encode_ids(text) == expected
            assert engine.encode(text).ids == expected


@pytest.mark.parametrize("level", ["scalar", "sse2", "avx2", "avx512"])
@pytest.mark.parametrize("merged", [0, 5_000, 70_000])
def test_each_level_gives_the_same_ids(tmp_path: Path, merged: int, level: str) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(_file(merged=merged), encoding="utf-8")
    # A text for each number of new words, of each length.
    rng = random.Random(merged)
    texts = [
        " ".join("".join(rng.choices(LETTERS, k=size)) for size in rng.choices(range(1, 16), k=new))
        for new in range(1, 70)
    ]
    texts += [" ".join("ab" * (size // 2) + "c" for _ in range(9)) for size in range(1, 16)]
    random.Random(1).shuffle(texts)
    texts = [*texts, *_texts(2, 20)]
    child = subprocess.run(
        [sys.executable, "-c", WHOLE, str(path)],
        input=json.dumps(texts),
        env={**os.environ, "MTKIT_SIMD": level, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=True,
    )
    reference = Tokenizer.from_file(str(path))
    assert json.loads(child.stdout) == [reference.encode(text).ids for text in texts]
