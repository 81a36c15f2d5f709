"""Steps of the core that take characters one by one: dropped, set apart, mapped."""

from __future__ import annotations

from functools import lru_cache

from mtkit.engine.opcodes import NormalizerKind
from mtkit.engine.program_writer import code_point_map, numbers, text, u8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.engine.sets import Edges

SIMPLE_CASE = "15.1"
"""Version of llama.cpp's lower case."""


def drop(edges: Edges) -> bytes:
    """Drop the characters of a set."""
    return u8(NormalizerKind.DROP) + u8(1) + text("") + numbers(edges)


def set_apart(edges: Edges) -> bytes:
    """Put a blank on both sides of the characters of a set."""
    return u8(NormalizerKind.DROP) + u8(0) + text(" ") + numbers(edges)


def blank(edges: Edges) -> bytes:
    """Make the characters of a set blanks."""
    runs = zip(edges[::2], edges[1::2], strict=True)
    blanks = code_point_map((c, b" ") for start, end in runs for c in range(start, end))
    return u8(NormalizerKind.MAP) + blanks


@lru_cache(maxsize=3)
def lower(*, full: bool, version: str = SIMPLE_CASE) -> bytes:
    """Make characters lower case; one for one where not ``full``, those that a version assigns."""
    from mtkit.unicode.tables import category
    from mtkit.unicode.tables import numbers as section

    found = section("lower")
    mapping = dict(zip(found[::2], (chr(c).encode() for c in found[1::2]), strict=True))
    if full:
        mapping[0x130] = "i\u0307".encode()
    else:
        mapping = {c: to for c, to in mapping.items() if category(chr(c), version) != "Cn"}
    return u8(NormalizerKind.MAP) + code_point_map(mapping.items())
