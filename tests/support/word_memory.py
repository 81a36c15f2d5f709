"""Memory of long words; a module that a new process imports by its name, as no test module is."""

from __future__ import annotations

import random

from forked import forked
from support import FIXTURES

import mtkit


def bytes_a_byte(name: str, letters: str) -> dict[str, float]:
    """How much memory each call takes, beyond what a shorter one took and a full cache has."""
    tokenizer = mtkit.load(FIXTURES / name)
    word = "".join(random.Random(name).choices(letters, k=1 << 14)) * 100
    taken = {}
    for call in ("encode_array", "encode_ids", "encode_offsets"):
        encode = getattr(tokenizer, call)
        encode(word[:100_000])
        _, grown = forked(lambda encode=encode: len(encode(word)))
        taken[call] = (grown - (10 << 20)) / len(word.encode())
    return taken
