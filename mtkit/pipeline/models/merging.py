"""The loop that all byte-pair encodings share: merge the best pair until no pair can merge.

A heap of candidates over a linked list of symbols: O(n log n) merges for a word of n symbols.
Candidates that a merge has overtaken stay in the heap and are recognized when they come up.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Container
    from typing import TypeVar, Union

    Key = TypeVar("Key", int, bytes)
    Rank = Union[int, float]
    More = Union[tuple[bool, bool], None]

SHOWN = 128
"""Symbols of a word that is shown whole after each merge: of a longer one, which would take the
square of its length, ``NEAR`` on each side of the new symbol."""
NEAR = 8


def merge(
    keys: list[Key],
    sizes: list[int],
    candidate: Callable[[Key, Key], tuple[Rank, Key] | None],
    joins_to: Callable[[Key, Key], Key | None],
    *,
    fixed: Container[int] = (),
    observe: Callable[[Rank, Key, Key, list[Key], More], None] | None = None,
) -> list[tuple[Key, int]]:
    """Merge symbols, lowest rank first and leftmost among equals.

    Args:
        keys: What each symbol is.
        sizes: What each symbol covers; added up when symbols merge.
        candidate: The rank of merging two neighbors and what they become, or None; asked once
            whenever two symbols become neighbors.
        joins_to: What two neighbors become now; tells whether a candidate still holds.
        fixed: Positions of symbols that never merge.
        observe: Called with rank, left, right and what ``symbols_near`` gives afterwards.

    Returns:
        (key, size) of the symbols that are left.
    """
    count = len(keys)
    keys, sizes = list(keys), list(sizes)
    following = list(range(1, count + 1))
    preceding = list(range(-1, count - 1))
    gone = [False] * count
    heap: list[tuple[Rank, int, Key]] = []
    for left in range(count - 1):
        if left not in fixed and left + 1 not in fixed:
            found = candidate(keys[left], keys[left + 1])
            if found is not None:
                heap.append((found[0], left, found[1]))
    heapify(heap)
    while heap:
        rank, left, joined = heappop(heap)
        right = following[left]
        if gone[left] or right >= count or joins_to(keys[left], keys[right]) != joined:
            continue
        pair = keys[left], keys[right]
        keys[left] = joined
        sizes[left] += sizes[right]
        gone[right] = True
        after = following[left] = following[right]
        before = preceding[left]
        if after < count:
            preceding[after] = left
        if observe is not None:
            observe(rank, *pair, *symbols_near(left, keys, preceding, following))
        if before >= 0 and before not in fixed:
            found = candidate(keys[before], joined)
            if found is not None:
                heappush(heap, (found[0], before, found[1]))
        if after < count and after not in fixed:
            found = candidate(joined, keys[after])
            if found is not None:
                heappush(heap, (found[0], left, found[1]))
    return [(keys[i], sizes[i]) for i in range(count) if not gone[i]]


def symbols_near(
    at: int, keys: list[Key], preceding: list[int], following: list[int]
) -> tuple[list[Key], More]:
    """Return the symbols of a word around one; also whether there are more on each side.

    Of a word of ``SHOWN`` or fewer all are returned, and None.

    Args:
        at: Place of the symbol.
        keys: The symbols, and what became of those that are gone.
        preceding: Place of the one in front of each; below 0: none.
        following: Place of the one behind each; ``len(keys)``: none.
    """
    count = len(keys)
    near = NEAR if count > SHOWN else count
    front, first = 0, at
    while front < near and preceding[first] >= 0:
        front, first = front + 1, preceding[first]
    found: list[Key] = []
    place = first
    while place < count and len(found) <= front + near:
        found.append(keys[place])
        place = following[place]
    return found, (preceding[first] >= 0, place < count) if count > SHOWN else None
