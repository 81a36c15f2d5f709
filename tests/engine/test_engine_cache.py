"""What the core remembers of words never changes an id, however much it has seen."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from engine_beside_pipeline import Both
from support import FIXTURES, shared_tokenizer
from tokenizers import Tokenizer

pytest.importorskip("mtkit._native")
import mtkit
from mtkit.engine import Engine, load_engine, tables

FORKED = """
import os
import mtkit
from test_engine_cache import chunks
texts = chunks(5, 40)
engine = mtkit.load().engine
expected = [mtkit.load().engine.encode_ids(text) for text in texts]
assert [engine.encode_ids(text) for text in texts[:20]] == expected[:20]
child = os.fork()
assert [engine.encode_ids(text) for text in texts * 2] == expected * 2
os.write(1, b"%d\\n" % engine._native.cached_bytes)
if not child:
    grandchild = os.fork()
    assert [engine.encode_ids(text) for text in chunks(6, 3) + texts][3:] == expected
    child = grandchild or os._exit(0)
assert os.waitpid(child, 0)[1] == 0
"""
MOST_KEPT = 8191
"""Bytes of the largest word or chunk that is kept, as ``WordCache::MOST_KEPT`` says."""
LETTERS = "abcdefghijklmnopqrstuvwxyzé的一0123 \n"


def chunks(seed: int, count: int) -> list[str]:
    """Draw texts of which each word is new: short ones and those of up to 60 characters."""
    rng = random.Random(seed)
    return [
        " ".join(
            "".join(rng.choices(LETTERS, k=rng.choice([1, 2, 4, 7, 12, 15, 16, 40, 60])))
            for _ in range(1000)
        )
        for _ in range(count)
    ]


def test_more_words_than_are_kept() -> None:
    """130,000 words: the table of short ones is full, and what lies beside it is left behind."""
    texts = chunks(1, 130)
    engine = mtkit.load().engine
    for text in texts:
        expected = mtkit.load().engine.encode_ids(text)
        assert engine.encode_ids(text) == expected
    rng = random.Random(2)
    for text in rng.sample(texts, 30):
        fresh = mtkit.load().engine
        assert engine.encode_ids(text) == fresh.encode_ids(text)
        assert engine.encode(text).offsets == fresh.encode(text).offsets


def test_every_length_at_every_distance_from_the_end() -> None:
    """Words are read in one step where the text goes on, byte by byte at its end."""
    warm = mtkit.load().engine
    for size in range(1, 40):
        for left in range(20):
            text = "x" * size + " " + "y" * left
            for asked in (text, text[:size], text.encode()):
                expected = mtkit.load().engine.encode_ids(asked)
                assert warm.encode_ids(asked) == expected
                assert warm.encode_ids(asked) == expected


ENDS = [
    *("的一是" * count for count in (1, 2, 5, 13)),
    *("\n" + " " * count for count in range(0, 61, 3)),
    *("カタカナ", "한국어", "é", "e\u0301", "\U0001f389", "1234", " x", "!?"),
    *("\n\n  ", "\t\t", "\r\n", "  "),
]


@pytest.mark.parametrize("end", ENDS)
def test_every_end_of_a_text(end: str) -> None:
    """The library's ids, whatever a text ends with and however long the rest is, new or met."""
    path = str(FIXTURES / "bbpe-8k" / "tokenizer.json")
    reference, tokenizer = Tokenizer.from_file(path), mtkit.load(path)
    for size in (0, 1, 15, 16, 60, 62, 63, 64, 65, 79, 80, 81, 144):
        for text in ("x" * size + end, " x" * (size // 2) + end):
            expected = reference.encode(text).ids
            assert tokenizer.encode_ids(text) == expected
            assert tokenizer.encode_ids(text) == expected


def test_threads_share_one_engine() -> None:
    texts = chunks(3, 16)
    expected = [mtkit.load().engine.encode_ids(text) for text in texts]
    engine = mtkit.load().engine
    with ThreadPoolExecutor(8) as threads:
        for _ in range(4):
            assert list(threads.map(engine.encode_ids, texts)) == expected


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_each_process_has_its_own_after_a_fork() -> None:
    """What was shared with the parent is copied: words lie elsewhere from then on."""
    path = os.pathsep.join([os.path.dirname(__file__), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", FORKED],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    of_child, of_parent = done.stdout.split()
    assert of_child == of_parent


def test_words_known_beforehand() -> None:
    """Seeds say what encoding says, and make way for 130,000 words that are met."""
    spec = mtkit.load().spec
    knowing, plain = (
        Engine(tables(spec), lambda: spec, know_words=knows) for knows in (True, False)
    )
    assert plain._native.cached_bytes < 1000
    known = knowing._native.cached_bytes
    assert 4 << 20 <= known < 5 << 20
    pieces = [piece.decode(errors="replace") for piece in spec.vocabulary.pieces]
    lines = [f"{piece}\n{' ' * at}{piece} {piece}" for at, piece in enumerate(pieces[:2000])]
    for text in (*pieces, *lines, *chunks(7, 130), *pieces, *lines):
        assert knowing.encode_ids(text) == plain.encode_ids(text)
    assert load_engine(spec)._native.cached_bytes == known


@pytest.mark.parametrize("size", [1, 70_000, 4 << 20, 8 << 20, 64 << 20])
def test_words_known_beforehand_keep_to_the_size(size: int) -> None:
    """A cache below the usual size begins empty; a larger one has no more of them."""
    engine = load_engine(mtkit.load().spec, cache_bytes=size)
    kept = engine._native.cached_bytes
    assert 4 << 20 <= kept < 5 << 20 if size >= 8 << 20 else kept < 1000


@pytest.mark.parametrize("size", [0, 1, 70_000, 1 << 20, 16 << 20])
def test_its_size_is_an_option(size: int) -> None:
    """What is remembered stays below the size, whatever it is, and ids are the same."""
    path = mtkit.load().source
    tokenizer = mtkit.load(path, cache_bytes=size)
    for text in chunks(4, 60):
        assert tokenizer.encode_ids(text) == mtkit.load().encode_ids(text)
    kept = tokenizer.engine._native.cached_bytes
    assert kept <= 1.2 * size + 200  # empty strings
    assert kept > 0.3 * size or size < 70_000 or size > 4 << 20


@pytest.mark.parametrize("size", [1 << 16, 1 << 17])
def test_what_is_large_stays_below_the_size(size: int) -> None:
    """One chunk may have more ids than a small cache has room for words."""
    tokenizer = mtkit.load(shared_tokenizer("bert-base-uncased"), cache_bytes=size)
    kept = []
    for number in range(40):
        tokenizer.encode_ids("a " + "\ufdfa" * (2000 + number) + " b")
        kept.append(tokenizer.engine._native.cached_bytes)
    assert max(kept) <= 1.2 * size + 200


def test_the_largest_word_that_is_kept() -> None:
    """A word of so many bytes is kept when it came often enough, a longer one never."""
    for size, kept in ((MOST_KEPT, True), (MOST_KEPT + 1, False)):
        tokenizer = mtkit.load()
        for _ in range(4):
            tokenizer.encode_ids("a" * size)
        assert isinstance(tokenizer.engine, Engine)
        assert (tokenizer.engine._native.cached_bytes > 0) == kept


def test_a_size_that_is_none() -> None:
    for size in (-1, 1 << 63, 10**30):
        with pytest.raises(mtkit.UsageError, match="cache_bytes"):
            mtkit.load(cache_bytes=size)
    for size in ("8", 1.5):
        with pytest.raises(TypeError, match="cache_bytes is a number of bytes"):
            mtkit.load(cache_bytes=size)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", ["gpt2", "qwen3", "llama-3", "llama-2", "bert-base-uncased"])
def test_what_is_large_has_the_same_ids_when_it_comes_again(name: str) -> None:
    """Runs of Han are remembered as a whole, three bytes a character, if they came again."""
    rng = random.Random(name)
    with Both(mtkit.load(shared_tokenizer(name)).spec) as both:
        both.engine._native.warm()
        for size in (4, 5, 6, 20, 84, 85, 86, 200, 1000, MOST_KEPT // 3, MOST_KEPT // 3 + 1):
            run = "".join(rng.choices("的一是不了在人有我他", k=size))
            other = run[:-1] + ("他" if run[-1] != "他" else "我")
            for text in (run, other, f"a {run}。{other} b", run * 2, f"x{run} {run}y"):
                for _ in range(3):
                    both.same("encode_ids", text)
        for _ in range(20):  # more than there is plenty of room for
            both.same("encode_ids", " ".join(rng.choices("的一是不了在人有我他", k=3000)))
            both.same("encode_ids", "".join(rng.choices("的一是不了在人有我他。", k=900)))
