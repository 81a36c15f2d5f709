"""Sets of code points by name, as the edges of their runs."""

from __future__ import annotations

from functools import lru_cache

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

Edges = tuple[int, ...]
"""start, end, start, end ... ascending, ends exclusive."""

LIMIT = 0x110000


@lru_cache(maxsize=32)
def set_of(name: str) -> Edges:
    """Return the set of the characters for which ``pipeline.characters.is_NAME`` holds."""
    from mtkit.pipeline import characters

    holds: Callable[[str], bool] = getattr(characters, f"is_{name}")
    edges: list[int] = []
    inside = False
    for code_point in range(LIMIT):
        if holds(chr(code_point)) != inside:
            inside = not inside
            edges.append(code_point)
    if inside:
        edges.append(LIMIT)
    return tuple(edges)
