"""Batches on several threads: forks in the middle of them, and more ids than was reckoned with."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from engine_cases import fixture

from mtkit.tokenizer.tokenizer import Tokenizer

pytest.importorskip("mtkit._native")

FORKS = """
import os, signal, threading
import mtkit
tokenizer = mtkit.load()
texts = [f"Line {i} of a text é, and 漢字 {i * 7919}.\\n" * (1 + i % 40) for i in range(400)]
wanted = tokenizer.encode_batch_ids(texts, threads=1)
whole = [i for ids in wanted for i in ids]
unlike, over = [], threading.Event()

def encode():
    while not over.is_set():
        if tokenizer.encode_batch_ids(texts, threads=2) != wanted:
            unlike.append("lists")
        if tokenizer.encode_batch_arrays(texts, threads=2)[0].tolist() != whole:
            unlike.append("arrays")

# ThreadSanitizer knows no threads that a child begins.
own = 1 if "TSAN_OPTIONS" in os.environ else 2
thread = threading.Thread(target=encode)
thread.start()
try:
    for _ in range(8):
        child = os.fork()
        if not child:
            signal.alarm(60)
            os._exit(tokenizer.encode_batch_ids(texts, threads=own) != wanted)
        assert os.waitpid(child, 0)[1] == 0
finally:
    over.set()
    thread.join()
assert not unlike, unlike
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_fork_in_the_middle_of_a_batch() -> None:
    """A child has none of the threads, and locks nobody gives back; the parent goes on."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", FORKS]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("threads", [1, 2])
def test_more_ids_than_bytes(threads: int) -> None:
    """Room for the ids of all texts is reckoned from their bytes: here it is too small."""
    tokenizer = Tokenizer(fixture("wordpiece/tokenizer.json"))
    texts = ["a"] * 70_000
    wanted = tokenizer.encode_ids("a")
    assert len(wanted) > 2
    ids, starts = tokenizer.encode_batch_arrays(texts, threads=threads)
    assert ids.tolist() == wanted * len(texts)
    assert starts[-1] == len(ids)
    assert tokenizer.encode_batch_ids(texts, threads=threads) == [wanted] * len(texts)


@pytest.mark.parametrize("threads", [1, 2])
def test_texts_without_ids(threads: int) -> None:
    tokenizer = Tokenizer(fixture("bbpe-8k/tokenizer.json"))
    for texts in ([], [""], ["", ""]):
        assert tokenizer.encode_batch_ids(texts, threads=threads) == [[] for _ in texts]
