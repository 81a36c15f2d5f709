"""A pattern's tree to a graph, and that to a deterministic automaton.

The graph has choices, conditions and character sets. Symbols are the classes 0 … count - 1
(characters that no set of the pattern tells apart) and ``count``, the end of the text; a mask has
bit ``symbol`` set where a symbol fits. A look-around at one neighbor is a condition on symbols. Any
other becomes an oracle: a graph of its own, run over the whole text beforehand, that says for each
place whether the item matches there.

The automaton has the meaning of leftmost-first backtracking. A state is the list of graph nodes
that a backtracking matcher would still try, in its order of preference, before any look at the next
character. A step with the next symbol follows the list through choices and conditions (both
neighbors of the place are known by then), ends it at the first match, which holds if nothing before
it in the list does better later, and takes the symbol. An oracle's state is a set and takes up the
start again at each place.

An automaton as bytes, numbers little-endian: u32 states, u32 stride, u32 oracle bits, u32 backward
(1: runs from the end of the text), u16 start state for each symbol before it (behind it where
backward; padded to an even number), then states * stride u32 ``next << 1 | match``: a match ends
in front of the symbol. The column of a symbol is ``symbol + (classes + 1) * bits of the oracles``.
State 0 goes nowhere.
"""

from __future__ import annotations

import struct

from mtkit.patterns import refuse, tree

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.patterns.tree import Edges, Node


NODE_LIMIT = 20_000
ORACLE_LIMIT = 4
SPLIT, TAKE, TEST, MATCH = range(4)


def collect_sets(node: Node, sets: dict[Edges, None]) -> None:
    """Gather the sets that a tree mentions."""
    match node:
        case tree.Set(edges=edges):
            sets[edges] = None
        case tree.Edge(before=before, after=after):
            sets.update({edges: None for edges in (before, after) if edges is not None})
        case tree.Chain(items=items) | tree.Choice(items=items):
            for item in items:
                collect_sets(item, sets)
        case _:
            collect_sets(node.item, sets)


class CharacterPartition:
    """Partition of the characters by the sets of a pattern.

    Attributes:
        runs: (start, class) of each run of characters, from 0 on.
    """

    def __init__(self, sets: dict[Edges, None]) -> None:
        events: list[tuple[int, int]] = []
        for number, edges in enumerate(sets):
            events += [(edge, 1 << number) for edge in edges if edge < tree.LIMIT]
        events.sort()
        numbers: dict[int, int] = {}
        self.runs: list[tuple[int, int]] = []
        signature = 0
        last = 0
        for edge, bit in [*events, (tree.LIMIT, 0)]:
            if edge != last:
                self.runs.append((last, numbers.setdefault(signature, len(numbers))))
                last = edge
            signature ^= bit
        self.count = len(numbers)
        if self.count > 250:
            raise refuse("more than 250 kinds of characters")
        self.masks = {
            edges: sum(1 << c for s, c in numbers.items() if s >> number & 1)
            for number, edges in enumerate(sets)
        }


class Graph:
    """Nodes by number: ``kinds``, ``args`` and ``outs`` in parallel.

    TAKE has a mask, TEST a tuple (mask before, mask after, oracle or -1, oracle's answer),
    SPLIT its ways in order of preference.
    """

    def __init__(self, builder: GraphBuilder, node: Node, *, backward: bool) -> None:
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

        def ways(more: int, count: int) -> list[int]:
            return [count, more] if node.lazy else [more, count]

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


class GraphBuilder:
    """Compiles a tree and its oracles, those that others ask before these."""

    def __init__(self, node: Node) -> None:
        sets: dict[Edges, None] = {}
        collect_sets(node, sets)
        self.classes = CharacterPartition(sets)
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


STATE_LIMIT = 16_000
CELL_LIMIT = 1_000_000
WORK_LIMIT = 2_000_000


class AutomatonBuilder:
    """Determinizes one graph."""

    def __init__(self, graph: Graph, symbols: int, *, oracle: bool) -> None:
        self.graph = graph
        self.symbols = symbols
        self.oracle = oracle
        self.bits = 1 + max((test[2] for test in graph.tests), default=-1)
        self.stride = symbols << self.bits
        self.kinds = self._kinds_before()
        # States in the order of their numbers; those that a row mentions are added behind.
        self.states: list[tuple[tuple[int, ...], int]] = [((), 0)]
        self.numbers = {self.states[0]: 0}
        self.table: list[int] = []
        self.work = 0

    def _kinds_before(self) -> list[int]:
        """For each symbol passed, the first symbol that all conditions take alike."""
        masks = {test[1] if self.graph.backward else test[0] for test in self.graph.tests}
        numbers: dict[tuple[int, ...], int] = {}
        return [
            numbers.setdefault(tuple(mask >> symbol & 1 for mask in masks), symbol)
            for symbol in range(self.symbols)
        ]

    def build(self) -> bytes:
        """Return the automaton as bytes."""
        first = () if self.oracle else (self.graph.start,)
        starts = [self._number(first, symbol) for symbol in range(self.symbols)]
        for nodes, passed in self.states:
            self.table += self._row(nodes, passed)
            large = len(self.states) > STATE_LIMIT or len(self.table) > CELL_LIMIT
            if large or self.work > WORK_LIMIT:
                raise refuse("a combination that needs too many states")
        head = struct.pack("<4I", len(self.states), self.stride, self.bits, self.graph.backward)
        if len(starts) % 2:
            starts.append(0)
        body = struct.pack(f"<{len(self.table)}I", *self.table)
        return head + struct.pack(f"<{len(starts)}H", *starts) + body

    def _number(self, nodes: tuple[int, ...], passed: int) -> int:
        if not nodes and not self.oracle:
            return 0
        state = (nodes, self.kinds[passed])
        number = self.numbers.setdefault(state, len(self.numbers))
        if number == len(self.states):
            self.states.append(state)
        return number

    def _row(self, nodes: tuple[int, ...], passed: int) -> list[int]:
        if not nodes and not self.oracle:
            return [0] * self.stride
        row = []
        threads = tuple({*nodes, self.graph.start}) if self.oracle else nodes
        same: tuple[list[int], bool] | None = None
        for column in range(self.stride):
            symbol = column % self.symbols
            target = same
            if target is None:
                places, match, tested = self._follow(
                    threads, passed, symbol, column // self.symbols
                )
                target = (places, match)
                if not tested:
                    same = target
            places, match = target
            after = {
                self.graph.outs[place][0]: None
                for place in places
                if self.graph.masks[place] >> symbol & 1
            }
            # Nothing follows the end; what stands there in a backward run is its beginning.
            if symbol == self.symbols - 1:
                row.append(int(match))
                continue
            nodes_after = tuple(sorted(after)) if self.oracle else tuple(after)
            row.append(self._number(nodes_after, symbol) << 1 | match)
        return row

    def _follow(
        self, threads: tuple[int, ...], passed: int, symbol: int, bits: int
    ) -> tuple[list[int], bool, bool]:
        """Places that take a symbol, in order; whether a match ends here; whether it was tested."""
        graph = self.graph
        before, after = (symbol, passed) if graph.backward else (passed, symbol)
        places: list[int] = []
        seen: set[int] = set()
        tested = match = False
        stack = list(reversed(threads))
        while stack:
            at = stack.pop()
            if at in seen:
                continue
            seen.add(at)
            kind = graph.kinds[at]
            if kind == TAKE:
                places.append(at)
            elif kind == SPLIT:
                stack.extend(reversed(graph.outs[at]))
            elif kind == MATCH:
                match = True
                if not self.oracle:
                    break
            else:
                tested = True
                left, right, oracle, want = graph.tests[at]
                fits = left >> before & 1 and right >> after & 1
                if fits and oracle >= 0:
                    fits = (bits >> oracle & 1) == want
                if fits:
                    stack.append(graph.outs[at][0])
        self.work += len(seen)
        return places, match, tested
