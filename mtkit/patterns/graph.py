"""A pattern's tree to a graph of choices, conditions and character sets.

Symbols are the classes 0 … count - 1 (characters that no set of the pattern tells apart) and
``count``, the end of the text; a mask has bit ``symbol`` set where a symbol fits. A look-around at
one neighbor is a condition on symbols. Any other becomes an oracle: a graph of its own, run over
the whole text beforehand, that says for each place whether the item matches there.
"""

from __future__ import annotations

from mtkit.patterns import tree
from mtkit.patterns.errors import refuse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.patterns.tree import Edges, Node

NODE_LIMIT = 20_000
ORACLE_LIMIT = 4
SPLIT, TAKE, TEST, MATCH = range(4)


def collect(node: Node, found: dict[Edges, None]) -> None:
    """Gather the sets that a tree mentions."""
    match node:
        case tree.Set(edges=edges):
            found[edges] = None
        case tree.Edge(before=before, after=after):
            found.update({edges: None for edges in (before, after) if edges is not None})
        case tree.Chain(items=items) | tree.Choice(items=items):
            for item in items:
                collect(item, found)
        case _:
            collect(node.item, found)


class Classes:
    """Partition of the characters by the sets of a pattern.

    Attributes:
        count: Number of classes.
        runs: (start, class) of each run of characters, from 0 on.
        masks: Classes of each set.
    """

    def __init__(self, sets: dict[Edges, None]) -> None:
        events: list[tuple[int, int]] = []
        for number, edges in enumerate(sets):
            events += [(edge, 1 << number) for edge in edges if edge < tree.LIMIT]
        events.sort()
        known: dict[int, int] = {}
        self.runs: list[tuple[int, int]] = []
        signature = 0
        last = 0
        for edge, bit in [*events, (tree.LIMIT, 0)]:
            if edge != last:
                self.runs.append((last, known.setdefault(signature, len(known))))
                last = edge
            signature ^= bit
        self.count = len(known)
        if self.count > 250:
            raise refuse("more than 250 kinds of characters")
        self.masks = {
            edges: sum(1 << c for s, c in known.items() if s >> number & 1)
            for number, edges in enumerate(sets)
        }


class Graph:
    """Nodes by number: ``kinds``, ``args`` and ``outs`` in parallel.

    TAKE has a mask, TEST a tuple (mask before, mask after, oracle or -1, oracle's answer),
    SPLIT its ways in order of preference.
    """

    def __init__(self, builder: Builder, node: Node, *, backward: bool) -> None:
        self.builder = builder
        self.backward = backward
        self.kinds: list[int] = [MATCH]
        self.masks: list[int] = [0]
        self.tests: list[tuple[int, int, int, bool]] = [(0, 0, -1, False)]
        self.outs: list[list[int]] = [[]]
        self.start = self.compile(node, 0)

    def add(self, kind: int, outs: list[int]) -> int:
        """Add a node."""
        if len(self.kinds) >= NODE_LIMIT:
            raise refuse("a repetition that unfolds to more than 20000 parts")
        self.kinds.append(kind)
        self.masks.append(0)
        self.tests.append((0, 0, -1, False))
        self.outs.append(outs)
        return len(self.kinds) - 1

    def test(self, before: int, after: int, out: int, oracle: int = -1, want: bool = True) -> int:
        """Add a condition."""
        at = self.add(TEST, [out])
        self.tests[at] = (before, after, oracle, want)
        return at

    def compile(self, node: Node, out: int) -> int:
        """Add what matches a node and goes on at ``out``; returns its entry."""
        builder = self.builder
        match node:
            case tree.Set(edges=edges):
                at = self.add(TAKE, [out])
                self.masks[at] = builder.classes.masks[edges]
                return at
            case tree.Chain(items=items):
                for item in items if self.backward else reversed(items):
                    out = self.compile(item, out)
                return out
            case tree.Choice(items=items):
                at = self.add(SPLIT, [])
                self.outs[at] = [self.compile(item, out) for item in items]
                return at
            case tree.Repeat():
                return self.repeat(node, out)
            case tree.Atomic(item=item):
                settled = tree.settle(item)
                if settled is None:
                    raise refuse("an atomic group or possessive repetition of several lengths")
                return self.compile(settled, out)
            case tree.Edge(before=before, after=after, at_start=start, at_end=end):
                return self.test(builder.mask(before, start), builder.mask(after, end), out)
            case tree.Look():
                return self.look(node, out)

    def repeat(self, node: tree.Repeat, out: int) -> int:
        """Unfold a repetition."""

        def ways(more: int, done: int) -> list[int]:
            return [done, more] if node.lazy else [more, done]

        if node.high is None:
            # The body comes before the choice to stop even where it can be empty: an empty turn
            # ends the repetition, as in backtracking engines.
            loop = self.add(SPLIT, [])
            body = self.compile(node.item, loop)
            self.outs[loop] = ways(body, out)
            entry = body
            copies = node.low - 1
            if node.low == 0:
                entry = self.add(SPLIT, ways(body, out))
        else:
            entry = out
            for _ in range(node.high - node.low):
                at = self.add(SPLIT, [])
                self.outs[at] = ways(self.compile(node.item, entry), out)
                entry = at
            copies = node.low
        for _ in range(copies):
            entry = self.compile(node.item, entry)
        return entry

    def look(self, node: tree.Look, out: int) -> int:
        """A look-around as a condition on one neighbor, or as an oracle."""
        builder = self.builder
        item = node.item
        if isinstance(item, tree.Set):
            mask = builder.classes.masks[item.edges]
            if node.negated:
                mask = builder.full & ~mask
            if node.behind:
                return self.test(mask, builder.full, out)
            return self.test(builder.full, mask, out)
        oracle = builder.oracle(item, backward=not node.behind)
        return self.test(builder.full, builder.full, out, oracle, not node.negated)


class Builder:
    """Compiles a tree and its oracles, those that others ask before these."""

    def __init__(self, node: Node) -> None:
        found: dict[Edges, None] = {}
        collect(node, found)
        self.classes = Classes(found)
        self.full = (1 << (self.classes.count + 1)) - 1
        self.oracles: list[Graph] = []
        self.known: dict[tuple[Node, bool], int] = {}
        self.main = Graph(self, node, backward=False)

    def mask(self, edges: Edges | None, at_edge: bool) -> int:
        """Mask of a neighbor."""
        if edges is None:
            return self.full
        return self.classes.masks[edges] | (at_edge << self.classes.count)

    def oracle(self, item: Node, *, backward: bool) -> int:
        """Number of the oracle for a look-around's item."""
        key = (item, backward)
        if key not in self.known:
            graph = Graph(self, item, backward=backward)
            self.known[key] = len(self.oracles)
            self.oracles.append(graph)
            if len(self.oracles) > ORACLE_LIMIT:
                raise refuse(f"more than {ORACLE_LIMIT} look-arounds at several characters")
        return self.known[key]
