"""How a program is written: little-endian numbers, texts, lists, and sets of code points.

Texts and lists have their length in front. Numbers have 32 bits. What needs more, or a sign, is
left to the pipeline: ``UnsupportedError``.

Sets of code points, by name, are the edges of their runs. The Unicode version of each is that of
the reference, see docs/unicode.md; unicode/characters.py tells single characters by the same rules.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable


NONE = 0xFFFFFFFF
"""No id."""
OUTSIDE = 0xFFFFFFFE
"""An id that is none: where a text needs it, the pipeline says what is wrong."""


def u8(value: int) -> bytes:
    """A small number or a flag."""
    return struct.pack("<B", value)


def u32(value: int | None) -> bytes:
    """A number or an id."""
    return _packed("<I", NONE if value is None else value)


def f64(value: float) -> bytes:
    """A float."""
    return struct.pack("<d", value)


def text(value: str | bytes) -> bytes:
    """A text with its length."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    return u32(len(data)) + data


def numbers(values: Iterable[int]) -> bytes:
    """A list of numbers."""
    listed = list(values)
    return _packed(f"<I{len(listed)}I", len(listed), *listed)


def _packed(layout: str, *values: int) -> bytes:
    try:
        return struct.pack(layout, *values)
    except struct.error:
        raise UnsupportedError("the core has numbers of 32 bits without a sign") from None


def code_point_map(pairs: Iterable[tuple[int, bytes]]) -> bytes:
    """Code points with what each becomes."""
    listed = sorted(pairs)
    ends, at = [], 0
    for _, value in listed:
        at += len(value)
        ends.append(at)
    return (
        numbers(code for code, _ in listed)
        + numbers(ends)
        + text(b"".join(value for _, value in listed))
    )


Edges = tuple[int, ...]
"""start, end, start, end ... ascending, ends exclusive."""


def set_of_characters(characters: Iterable[str]) -> Edges:
    """Return the set of some characters."""
    return union_of_sets(*((ord(c), ord(c) + 1) for c in characters))


def union_of_sets(*parts: Iterable[int]) -> Edges:
    """Return the union of sets."""
    runs = sorted(
        run for part in map(tuple, parts) for run in zip(part[::2], part[1::2], strict=True)
    )
    edges: list[int] = []
    for start, end in runs:
        if edges and start <= edges[-1]:
            edges[-1] = max(edges[-1], end)
        else:
            edges += (start, end)
    return tuple(edges)


def set_without(edges: Edges, characters: str) -> Edges:
    """Return a set less some characters."""
    gone = sorted(map(ord, characters))
    left: list[int] = []
    for start, end in zip(edges[::2], edges[1::2], strict=True):
        for code_point in gone:
            if start <= code_point < end:
                if start < code_point:
                    left += (start, code_point)
                start = code_point + 1
        if start < end:
            left += (start, end)
    return tuple(left)


@lru_cache(maxsize=64)
def category_set(version: str, *names: str) -> Edges:
    """Return the characters whose general category begins with one of ``names``."""
    from mtkit.unicode.tables import ranges

    sets = ranges(f"gc.{version}")
    return union_of_sets(*(edges for name, edges in sets.items() if name.startswith(names)))


def punctuation_set(version: str) -> Edges:
    """Return punctuation of a Unicode version and ASCII's symbols."""
    from mtkit.unicode.characters import ASCII_PUNCTUATION

    return union_of_sets(category_set(version, "P"), set_of_characters(ASCII_PUNCTUATION))


@lru_cache(maxsize=16)
def named_set(name: str) -> Edges:
    """Return a set that components name: white_space, ascii_space, blank, word, number."""
    from mtkit.unicode import characters
    from mtkit.unicode import tables as unicode

    if name == "white_space":
        return set_of_characters(characters.WHITE_SPACE)
    if name == "ascii_space":
        return set_of_characters(characters.ASCII_SPACE)
    if name == "blank":
        return union_of_sets(set_of_characters(characters.ASCII_SPACE), category_set("16.0", "Zs"))
    if name == "number":
        return category_set("17.0", "N")
    assert name == "word", name
    return union_of_sets(
        unicode.property_edges("Alphabetic"),
        unicode.property_edges("Join_Control"),
        category_set("16.0", "M", "Nd", "Pc"),
    )


@lru_cache(maxsize=1)
def script_runs() -> tuple[int, ...]:
    """Return the runs of scripts for cutting, start << 8 | number, 0 where there is none."""
    from mtkit.unicode.characters import script
    from mtkit.unicode.tables import ranges

    # Nothing changes but where a script, or what was assigned then, begins or ends.
    starts = {0, 0x20, 0x21, *category_set("9.0", "Cn")}
    starts.update(edge for edges in ranges("sc").values() for edge in edges)
    for odd in (0x30FC, 0x589, 0x61C, 0x953, 0x954):
        starts |= {odd, odd + 1}
    numbers = {"": 0}
    runs: list[int] = []
    for start in sorted(starts - {0x110000}):
        number = numbers.setdefault(script(chr(start)), len(numbers))
        if not runs or runs[-1] & 0xFF != number:
            runs.append(start << 8 | number)
    return tuple(runs)
