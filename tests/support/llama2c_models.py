"""Tiny llama2.c checkpoints with a tokenizer, made for the tests."""

from __future__ import annotations

import random
import struct
from array import array

SIZES = {"dim": 16, "hidden": 24, "layers": 2, "heads": 4, "kv_heads": 2, "seq": 32}
VOCAB = 300


def floats(dim: int, hidden: int, layers: int, heads: int, kv_heads: int, seq: int) -> int:
    """Number of weights behind the header, counted kind by kind."""
    wide = dim // heads * kv_heads
    attention = dim + dim * dim + 2 * dim * wide + dim * dim
    forward = dim + 3 * dim * hidden
    return VOCAB * dim + layers * (attention + forward) + dim + 2 * seq * (dim // heads // 2)


def checkpoint(*, shared: bool = True, seed: int = 1) -> bytes:
    """Return a whole checkpoint of random weights."""
    source = random.Random(seed)
    count = floats(**SIZES) + (0 if shared else VOCAB * SIZES["dim"])
    weights = array("f", (source.gauss(0, 0.2) for _ in range(count)))
    sizes = list(SIZES.values())
    return struct.pack("<7i", *sizes[:5], VOCAB if shared else -VOCAB, sizes[5]) + weights.tobytes()


def vocabulary() -> bytes:
    """Return the tokenizer.bin that goes with them: bytes, letters, a few pairs."""
    tokens = [b"<unk>", b"\n<s>\n", b"\n</s>\n", *(b"<0x%02X>" % byte for byte in range(256))]
    letters = "abcdefghijklmnopqrstuvwxyz"
    tokens += [b" ", *(letter.encode() for letter in letters)]
    tokens += [(" " + letter).encode() for letter in letters][: VOCAB - len(tokens)]
    assert len(tokens) == VOCAB
    scores = [0.0] * 259 + [-float(i) for i in range(VOCAB - 259)]
    longest = max(map(len, tokens))
    return struct.pack("<I", longest) + b"".join(
        struct.pack("<fi", score, len(token)) + token
        for token, score in zip(tokens, scores, strict=True)
    )
