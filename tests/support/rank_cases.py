"""Drawn ranks, and the patterns and texts that they are compared on."""

from __future__ import annotations

import random

NASTY = [
    "", " ", "\n\n", "a  b", "don't", "naïve", "日本語 テスト", "👨\u200d👩\u200d👧", "x\u0301y",
    "1234567", "\x00\x01", "ſ's",
]  # fmt: skip


PATTERNS = [
    r"\p{L}+|\p{N}{1,3}|\s+|[^\s\p{L}\p{N}]+",
    r".+|\n",
    (
        r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+"
        r"|\s++$|\s*[\r\n]|\s+(?!\S)|\s"
    ),
    r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+",
    r"[\p{Han}]+|[^\p{Han}\s]+|\s",
    r"(?s:.{1,7})",
]
"""Each text is covered, as tiktoken asks for no less."""


def random_ranks(seed: int) -> dict[bytes, int]:
    """Make ranks whose longer entries are unions of two earlier ones."""
    rng = random.Random(seed)
    pieces = [bytes([byte]) for byte in rng.sample(range(256), 256)]
    letters = [b"a", b"b", b" ", b"e", b"\n", b"1", "é".encode()[:1], "é".encode()[1:]]
    known = set(pieces)
    while len(pieces) < 400:
        piece = rng.choice(letters + pieces[256:]) + rng.choice(letters + pieces[256:])
        if piece not in known and len(piece) < 9:
            known.add(piece)
            pieces.append(piece)
    return {piece: rank for rank, piece in enumerate(pieces)}
