"""Changes of bytes and of lines, whatever they mean."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

NUMBERS = (0, 1, 2, 3, 127, 255, 1 << 15, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 63, -1)
JUNK = (b"\0", b"\n", b" ", b"\t", b"\xff", b"\xed\xa0\x80", "\u2581".encode(), b"<0xFF>", b"-1",
        b"99999999999999999999", b"nan", b"1e999", b"#version", b"=", b"'", b'"', b"\\x",
        b"A" * 300, b"\xf4\x90\x80\x80", b"\xe2\x96", b"[UNK]", b"<unk>")  # fmt: skip


def mutate(rng: Random, data: bytes) -> bytes:
    """Change one stretch of a file."""
    return rng.choice(CHANGES)(rng, data)


def mutate_lines(rng: Random, data: bytes) -> bytes:
    """Repeat, drop, swap or change lines."""
    lines = data.split(b"\n")
    at, other = rng.randrange(len(lines)), rng.randrange(len(lines))
    match rng.randrange(6):
        case 0:
            lines.insert(at, lines[other])
        case 1:
            del lines[at]
        case 2:
            lines[at], lines[other] = lines[other], lines[at]
        case 3:
            lines[at] = mutate(rng, lines[at] or b" ")
        case 4:
            words = re.split(rb"(\s+)", lines[at])
            words[rng.randrange(len(words))] = rng.choice(JUNK)
            lines[at] = b"".join(words)
        case _:
            lines[at] = lines[other]
    return b"\n".join(lines)


def flip(rng: Random, data: bytes) -> bytes:
    """Change one bit."""
    at = rng.randrange(max(len(data), 1))
    return data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :] if data else b"\1"


def forge(rng: Random, data: bytes) -> bytes:
    """Write a number of 1 to 8 bytes over what is there."""
    size = rng.choice((1, 2, 4, 4, 8))
    raw = (rng.choice(NUMBERS) & (1 << 8 * size) - 1).to_bytes(size, "little")
    at = rng.randrange(max(len(data), 1))
    return data[:at] + raw + data[at + size :]


def cut(rng: Random, data: bytes) -> bytes:
    """Leave out the end or a stretch."""
    at = rng.randrange(len(data) + 1)
    return data[:at] + (b"" if rng.random() < 0.5 else data[at + rng.randrange(1, 40) :])


def splice(rng: Random, data: bytes) -> bytes:
    """Put a stretch of the file elsewhere in it."""
    start, at = rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)
    stretch = data[start : start + rng.randrange(1, 40)]
    return data[:at] + stretch + data[at + (len(stretch) if rng.random() < 0.5 else 0) :]


def insert(rng: Random, data: bytes) -> bytes:
    """Put in or write over something that some reader takes for special."""
    at, junk = rng.randrange(len(data) + 1), rng.choice(JUNK)
    return data[:at] + junk + data[at + (len(junk) if rng.random() < 0.5 else 0) :]


def number(rng: Random, data: bytes) -> bytes:
    """Change a number that is written as text."""
    found = list(re.finditer(rb"-?\d+", data))
    if not found:
        return flip(rng, data)
    match = rng.choice(found)
    value = rng.choice((*NUMBERS, int(match[0][:15]) + 1, int(match[0][:15]) - 1))
    return data[: match.start()] + b"%d" % value + data[match.end() :]


CHANGES = (flip, forge, cut, splice, insert, number)
