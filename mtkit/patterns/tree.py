"""What a parsed split pattern consists of, and sets of characters as lists of edges.

A set is ``(start, end, start, end, …)``, sorted, ends exclusive. Captures are plain groups: a
split asks only where a match begins and ends.
"""

from __future__ import annotations

from bisect import bisect_right

from mtkit.base.record import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Union

    Edges = tuple[int, ...]

LIMIT = 0x110000


class Set(Record):
    """One character of a set."""

    edges: Edges


class Chain(Record):
    """One after the other; empty: matches nothing, everywhere."""

    items: tuple[Node, ...] = ()


class Choice(Record):
    """The first alternative that leads to a match."""

    items: tuple[Node, ...]


class Repeat(Record):
    """From ``low`` to ``high`` times (None: without end), with ``lazy`` as few as can be."""

    item: Node
    low: int
    high: int | None
    lazy: bool = False


class Atomic(Record):
    """The first way to match the item, whatever follows."""

    item: Node


class Look(Record):
    """Whether the item matches ahead (or up to here with ``behind``), without consuming it."""

    item: Node
    behind: bool
    negated: bool


class Edge(Record):
    """A place by its neighbors: the one before is in ``before``, the one after in ``after``.

    None in place of a set: any neighbor; ``at_start`` and ``at_end`` say whether the end of the
    text counts as a neighbor that fits.
    """

    before: Edges | None = None
    after: Edges | None = None
    at_start: bool = True
    at_end: bool = True


if TYPE_CHECKING:
    Node = Union[Set, Chain, Choice, Repeat, Atomic, Look, Edge]


def union(sets: Iterable[Sequence[int]]) -> Edges:
    """Characters that are in any of the sets."""
    spans = sorted((s[at], s[at + 1]) for s in sets for at in range(0, len(s), 2))
    out: list[int] = []
    for start, end in spans:
        if out and start <= out[-1]:
            out[-1] = max(out[-1], end)
        else:
            out += (start, end)
    return tuple(out)


def negate(edges: Sequence[int]) -> Edges:
    """Characters that are not in a set."""
    out = list(edges)
    if out and out[0] == 0:
        del out[0]
    else:
        out.insert(0, 0)
    if out[-1] == LIMIT:
        out.pop()
    else:
        out.append(LIMIT)
    return tuple(out)


def intersect(a: Sequence[int], b: Sequence[int]) -> Edges:
    """Characters that are in both sets."""
    return negate(union((negate(a), negate(b))))


def contains(edges: Sequence[int], code: int) -> bool:
    """Whether a set has a character."""
    return bisect_right(edges, code) % 2 == 1


def width(node: Node) -> int | None:
    """Length of every match of a node, or None where it varies."""
    match node:
        case Set():
            return 1
        case Look() | Edge():
            return 0
        case Atomic(item=item):
            return width(item)
        case Repeat(item=item, low=low, high=high):
            inner = width(item)
            if inner is None or (inner and low != high):
                return None
            return inner * low
        case Chain(items=items):
            total = 0
            for item in items:
                inner = width(item)
                if inner is None:
                    return None
                total += inner
            return total
        case Choice(items=items):
            widths = {width(item) for item in items}
            return widths.pop() if len(widths) == 1 else None


def nullable(node: Node) -> bool:
    """Whether a node can match without consuming a character."""
    match node:
        case Set():
            return False
        case Look() | Edge():
            return True
        case Atomic(item=item):
            return nullable(item)
        case Repeat(item=item, low=low):
            return low == 0 or nullable(item)
        case Chain(items=items):
            return all(nullable(item) for item in items)
        case Choice(items=items):
            return any(nullable(item) for item in items)


def settle(node: Node) -> Node | None:
    """Rewrite an atomic node's item without need of atomicity; None where that cannot be done.

    A match of fixed length is the only one. Where parts before the last are of fixed length, only
    the last can give way; an alternative is final when those before it match nowhere here; a
    repetition of something of fixed length is final when it cannot go on.
    """
    if width(node) is not None:
        return node
    match node:
        case Chain(items=items):
            if any(width(item) is None for item in items[:-1]):
                return None
            last = settle(items[-1])
            return None if last is None else Chain((*items[:-1], last))
        case Choice(items=items):
            out: list[Node] = []
            failed: tuple[Node, ...] = ()
            for item in items:
                inner = settle(item)
                if inner is None:
                    return None
                out.append(Chain((*failed, inner)))
                failed = (*failed, Look(item, behind=False, negated=True))
            return Choice(tuple(out))
        case Repeat(item=item, low=low, high=high, lazy=lazy):
            if not width(item):
                return None
            if lazy:
                return Repeat(item, low, low)
            stop = Look(item, behind=False, negated=True)
            if high is None:
                return Chain((Repeat(item, low, None), stop))
            short: Node = Chain((Repeat(item, low, high - 1), stop))
            return Choice((Repeat(item, high, high), short))
        case Atomic(item=item):
            return settle(item)
        case _:
            return None
