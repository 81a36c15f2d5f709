"""The order in which C++'s ``std::sort`` leaves equal elements.

llama.cpp sorts its special tokens by length with a sort that is not stable, and where two of one
length overlap in a text the order shows in the ids. This is the introsort of libstdc++: quicksort
with the median of three moved to the front, down to ranges of 16, then one insertion sort; heap
sort when the recursion gets too deep.
Source: the GNU C++ library, bits/stl_algo.h and bits/stl_heap.h.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

SMALL = 16
"""Ranges up to this length are left to the insertion sort."""


def sorted_as_cpp(items: Sequence[int], key: Callable[[int], int]) -> list[int]:
    """Return the items by ascending key, equal ones as ``std::sort`` leaves them."""
    rows = [(key(item), item) for item in items]
    if rows:
        _introsort(rows, 0, len(rows), 2 * (len(rows).bit_length() - 1))
        _finish(rows)
    return [item for _, item in rows]


def _introsort(rows: list[tuple[int, int]], first: int, last: int, depth: int) -> None:
    while last - first > SMALL:
        if depth == 0:
            _heap_sort(rows, first, last)
            return
        depth -= 1
        cut = _partition(rows, first, last)
        _introsort(rows, cut, last, depth)
        last = cut


def _partition(rows: list[tuple[int, int]], first: int, last: int) -> int:
    """Move the median of three to the front and divide the rest around it."""
    a, b, c = first + 1, first + (last - first) // 2, last - 1
    ka, kb, kc = rows[a][0], rows[b][0], rows[c][0]
    if ka < kb:
        median = b if kb < kc else (c if ka < kc else a)
    else:
        median = a if ka < kc else (c if kb < kc else b)
    rows[first], rows[median] = rows[median], rows[first]
    pivot = rows[first][0]
    low, high = first + 1, last
    while True:
        while rows[low][0] < pivot:
            low += 1
        high -= 1
        while pivot < rows[high][0]:
            high -= 1
        if low >= high:
            return low
        rows[low], rows[high] = rows[high], rows[low]
        low += 1


def _finish(rows: list[tuple[int, int]]) -> None:
    """Insertion sort over the whole; stable, so a stable sort of nearly sorted ranges equals it."""
    for at in range(1, len(rows)):
        row = rows[at]
        to = at
        while to and row[0] < rows[to - 1][0]:
            rows[to] = rows[to - 1]
            to -= 1
        rows[to] = row


def _heap_sort(rows: list[tuple[int, int]], first: int, last: int) -> None:
    size = last - first
    for parent in range((size - 2) // 2, -1, -1):
        _sift(rows, first, parent, size, rows[first + parent])
    for end in range(last - 1, first, -1):
        row = rows[end]
        rows[end] = rows[first]
        _sift(rows, first, 0, end - first, row)


def _sift(
    rows: list[tuple[int, int]], first: int, hole: int, size: int, row: tuple[int, int]
) -> None:
    """Let a hole sink to the bottom, then let ``row`` rise from there."""
    top, child = hole, hole
    while child < (size - 1) // 2:
        child = 2 * (child + 1)
        if rows[first + child][0] < rows[first + child - 1][0]:
            child -= 1
        rows[first + hole] = rows[first + child]
        hole = child
    if size % 2 == 0 and child == (size - 2) // 2:
        child = 2 * (child + 1)
        rows[first + hole] = rows[first + child - 1]
        hole = child - 1
    parent = (hole - 1) // 2
    while hole > top and rows[first + parent][0] < row[0]:
        rows[first + hole] = rows[first + parent]
        hole = parent
        parent = (hole - 1) // 2
    rows[first + hole] = row
