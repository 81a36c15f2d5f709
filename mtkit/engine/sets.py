"""Sets of code points by name, as the edges of their runs.

The Unicode version of each is that of the reference, see docs/unicode.md; unicode/characters.py
tells single characters by the same rules.
"""

from __future__ import annotations

from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

Edges = tuple[int, ...]
"""start, end, start, end ... ascending, ends exclusive."""


def of_characters(characters: Iterable[str]) -> Edges:
    """Return the set of some characters."""
    return union(*((ord(c), ord(c) + 1) for c in characters))


def union(*parts: Iterable[int]) -> Edges:
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


def without(edges: Edges, characters: str) -> Edges:
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
def categories(version: str, *names: str) -> Edges:
    """Return the characters whose general category begins with one of ``names``."""
    from mtkit.unicode.tables import ranges

    found = ranges(f"gc.{version}")
    return union(*(edges for name, edges in found.items() if name.startswith(names)))


def punctuation(version: str) -> Edges:
    """Return punctuation of a Unicode version and ASCII's symbols."""
    from mtkit.unicode.characters import ASCII_PUNCTUATION

    return union(categories(version, "P"), of_characters(ASCII_PUNCTUATION))


@lru_cache(maxsize=16)
def set_of(name: str) -> Edges:
    """Return a set that components name: white_space, ascii_space, blank, word, number."""
    from mtkit.unicode import characters
    from mtkit.unicode import tables as unicode

    if name == "white_space":
        return of_characters(characters.WHITE_SPACE)
    if name == "ascii_space":
        return of_characters(characters.ASCII_SPACE)
    if name == "blank":
        return union(of_characters(characters.ASCII_SPACE), categories("16.0", "Zs"))
    if name == "number":
        return categories("17.0", "N")
    assert name == "word", name
    return union(
        unicode.property_edges("Alphabetic"),
        unicode.property_edges("Join_Control"),
        categories("16.0", "M", "Nd", "Pc"),
    )


@lru_cache(maxsize=1)
def scripts() -> tuple[int, ...]:
    """Return the runs of scripts for cutting, start << 8 | number, 0 where there is none."""
    from mtkit.unicode.characters import script
    from mtkit.unicode.tables import ranges

    # Nothing changes but where a script, or what was assigned then, begins or ends.
    starts = {0, 0x20, 0x21, *categories("9.0", "Cn")}
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
