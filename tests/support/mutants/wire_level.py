"""Changes of protocol-buffer fields, with the lengths in front of them kept true."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from mtkit.errors import FormatError
from mtkit.formats.spm.message import BYTES, FIXED32, FIXED64, VARINT, encode_field, parse_fields
from mutants import byte_level

if TYPE_CHECKING:
    from random import Random

VALUES = (0, 1, 2, 3, 4, 5, 6, 7, 100, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, (1 << 64) - 1)
FLOATS = (0.0, -0.0, 1.0, -1e30, float("nan"), float("inf"), -float("inf"), 3.4e38, 1e-45)


def mutate(rng: Random, data: bytes) -> bytes:
    """Change one field of a message or of a message in it."""
    try:
        fields = [
            (part.number, part.wire, part.number_value, part.data)
            for part in parse_fields(data, "")
        ]
    except FormatError:
        return byte_level.mutate(rng, data)
    if not fields:
        return encode_field(rng.randrange(1, 50), rng.choice(VALUES))
    at = rng.randrange(len(fields))
    if rng.random() < 0.3:  # the messages at the end are the settings
        at = max(len(fields) - 1 - rng.randrange(3), 0)
    number, wire, value, content = fields[at]
    match rng.randrange(8):
        case 0:
            del fields[at]
        case 1:
            fields.insert(rng.randrange(len(fields) + 1), fields[at])
        case 2:
            fields[at] = (rng.choice((number + 1, rng.randrange(1, 60))), wire, value, content)
        case 3:
            fields.append((rng.randrange(1, 60), VARINT, rng.choice(VALUES), b""))
        case _:
            fields[at] = (number, *_changed(rng, wire, value, content))
    return b"".join(_written(*part) for part in fields)


def _changed(rng: Random, wire: int, value: int, content: bytes) -> tuple[int, int, bytes]:
    if wire == VARINT:
        return wire, rng.choice((*VALUES, value + 1)), b""
    if wire == FIXED32:
        return wire, 0, struct.pack("<f", rng.choice(FLOATS))
    if wire == BYTES:
        inner = mutate if _is_message(content) and rng.random() < 0.9 else byte_level.mutate
        return wire, 0, inner(rng, content)
    return wire, 0, byte_level.flip(rng, content)[:8]


def _is_message(content: bytes) -> bool:
    try:
        return len(list(parse_fields(content, ""))) > 0
    except FormatError:
        return False


def _written(number: int, wire: int, value: int, content: bytes) -> bytes:
    if wire == VARINT:
        return encode_field(number, value & (1 << 64) - 1)
    if wire == BYTES:
        return encode_field(number, content)
    assert wire in (FIXED32, FIXED64)
    tag = encode_field(number, 0)[:-1]
    return bytes([tag[0] | wire]) + tag[1:] + content
