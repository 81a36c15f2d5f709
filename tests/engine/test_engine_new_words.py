"""New words are encoded together where a vocabulary is large; ids are those of the library."""

from __future__ import annotations

import json
import random
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
"""Bytes of a table of pairs beyond which words are encoded together."""


def _file(*, ignore_merges: bool) -> str:
    """Return a tokenizer.json with 100,000 merges in any order."""
    rng = random.Random(5)
    pairs = list(product(["\u0120", *LETTERS], LETTERS))
    parts = ["".join(pair) for pair in pairs]
    merges = [*pairs, *rng.sample(list(product(parts, LETTERS)), 70_000)]
    merges += zip(rng.choices(parts, k=30_000), rng.choices(parts, k=30_000), strict=True)
    merges = list(dict.fromkeys(merges))
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
