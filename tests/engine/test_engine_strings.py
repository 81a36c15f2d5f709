"""A str has the ids of its UTF-8 form, however wide its characters are."""

from __future__ import annotations

import ctypes
import os
import random
import subprocess
import sys
import tracemalloc
from concurrent.futures import ThreadPoolExecutor

import pytest
from support import at_level

pytest.importorskip("mtkit._native")
import mtkit

POOLS = [
    "abc \n", "éß¿ÿ\x80", "жλא\u07ff\u0800", "中文字，。\uffff\ufffe\ue000\ud7ff",
    "😀\U0010ffff\U00010000",
]  # fmt: skip
LONG = 1 << 11
"""Characters of a str whose UTF-8 form is not kept with it."""
LEVELS = """
import sys
from test_engine_strings import compare
compare(int(sys.argv[1]))
"""


def strings(seed: int, count: int) -> list[str]:
    """Draw runs of characters of one to four bytes, of some or of all sizes."""
    rng = random.Random(seed)
    found = []
    for _ in range(count):
        pools = rng.sample(POOLS, rng.randint(1, len(POOLS)))
        sizes = [1, 1, 1, 2, 7, 8, 9, 15, 16, 17, 33]
        found.append(
            "".join(
                rng.choice(rng.choice(pools)) * rng.choice(sizes) for _ in range(rng.randint(1, 40))
            )
        )
    return found


def compare(seed: int) -> None:
    engine = mtkit.load().engine
    for number, text in enumerate(strings(seed, 500)):
        as_bytes = text.encode()
        expected = engine.encode_ids(as_bytes)
        for _ in range(2):  # the second time from what the str kept
            assert engine.encode_ids(text) == expected, ascii(text)
        assert text.encode() == as_bytes  # Python takes it too
        for end in ("é", "中", "😀"):  # the same text in wider units, and long enough
            more = text * (LONG // len(text) + 1) + text[: number % 16] + end
            assert engine.encode_ids(more) == engine.encode_ids(more.encode()), ascii(more)


def test_long_ones_at_once() -> None:
    """The memory of one is another's, or one of its own; ids of many are one block."""
    engine = mtkit.load().engine
    texts = ["".join(strings(seed, 60)) * 8 for seed in range(6)]
    texts += [text * 40 for text in texts[:3]]
    assert max(map(len, texts)) > 1 << 20
    expected = [engine.encode_array(text.encode()).tolist() for text in texts]
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(engine.encode_array, texts * 3))
    assert [ids.tolist() for ids in found] == expected * 3


@pytest.mark.parametrize("wide", ["é", "中", "😀"])
def test_ascii_between_others(wide: str) -> None:
    """Runs of every length: 32 characters are written at a time where so many are ASCII."""
    engine = mtkit.load().engine
    printable = "".join(map(chr, range(0x20, 0x7F))) * 2
    runs = (wide + printable[at % 50 :][: at % 131] for at in range(600))
    text = "".join(runs) + printable[:77]
    for start in range(40):
        part = text[start : len(text) - start]
        assert len(part) >= LONG
        assert engine.encode_ids(part) == engine.encode_ids(part.encode())


@pytest.mark.parametrize("level", ["scalar", "avx2"])
def test_as_its_bytes(level: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LEVELS, "11"],
        env=at_level(level, os.path.dirname(__file__)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("size", [10, LONG - 1, LONG, LONG + 1, 3 * LONG])
@pytest.mark.parametrize("around", ["a", "é", "中", "😀"])
def test_a_surrogate_is_no_text(around: str, size: int) -> None:
    tokenizer = mtkit.load()
    for at in (0, 1, size // 2, size - 1):
        text = around * at + "\ud800" + around * (size - at - 1)
        with pytest.raises(mtkit.UsageError, match=rf"surrogate U\+D800 at character {at}\b"):
            tokenizer.encode_ids(text)


def test_what_has_its_bytes_is_taken_as_it_is() -> None:
    """A str keeps its UTF-8 form where a C extension asked for it."""
    text = "中文é😀 abc" * LONG
    as_utf8 = ctypes.pythonapi.PyUnicode_AsUTF8
    as_utf8.restype = ctypes.c_void_p
    assert as_utf8(ctypes.py_object(text))
    assert mtkit.load().encode_ids(text) == mtkit.load().encode_ids(text.encode())


def test_what_a_str_keeps_goes_with_it() -> None:
    """A short str keeps its UTF-8 form, as Python itself does it."""
    engine = mtkit.load().engine

    rng = random.Random(13)

    def encode_new(count: int) -> int:
        keeping = 0
        for number in range(count):
            text = "é中😀"[number % 3] * rng.choice((rng.randrange(2, 99), rng.randrange(2, LONG)))
            size = sys.getsizeof(text)
            engine.encode_ids(text)
            keeping += sys.getsizeof(text) == size + len(text.encode()) + 1
        return keeping

    encode_new(300)
    tracemalloc.start()
    try:
        before = tracemalloc.get_traced_memory()[0]
        assert encode_new(3000) == 3000
        assert tracemalloc.get_traced_memory()[0] - before < 100_000
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_many_at_once() -> None:
    """Each text of a batch has memory of its own until all are encoded."""
    tokenizer = mtkit.load()
    texts = [
        text * (at % 2 * LONG // len(text) + 1) + "é" for at, text in enumerate(strings(12, 60))
    ]
    expected = [tokenizer.encode_ids(text.encode()) for text in texts]
    for threads in (1, 2):
        assert tokenizer.encode_batch_ids(texts, threads=threads) == expected
    for text in texts:
        as_bytes = tokenizer.encode_ids(text.encode())
        ids, offsets = tokenizer.encode_offsets(text)
        assert ids.tolist() == as_bytes
        assert offsets.tolist() == [list(place) for place in tokenizer.encode(text).offsets]
        assert tokenizer.encode(text.encode()).offsets == tokenizer.encode(text).offsets
