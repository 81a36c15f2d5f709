"""A pattern's graph to a deterministic automaton with the meaning of leftmost-first backtracking.

A state is the list of graph nodes that a backtracking matcher would still try, in its order of
preference, before any look at the next character. A step with the next symbol follows the list
through choices and conditions (both neighbors of the place are known by then), ends it at the
first match, which holds if nothing before it in the list does better later, and takes the
symbol. An oracle's state is a set and takes up the start again at each place.

An automaton as bytes, numbers little-endian: u32 states, u32 stride, u32 oracle bits, u32 backward
(1: runs from the end of the text), u16 start state for each symbol before it (behind it where
backward; padded to an even number), then states * stride u32 ``next << 1 | match``: a match ends
in front of the symbol. The column of a symbol is ``symbol + (classes + 1) * bits of the oracles``.
State 0 goes nowhere.
"""

from __future__ import annotations

import struct

from mtkit.patterns.errors import refuse
from mtkit.patterns.graph import MATCH, SPLIT, TAKE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.patterns.graph import Graph

STATE_LIMIT = 16_000
CELL_LIMIT = 1_000_000
WORK_LIMIT = 2_000_000


class Automaton:
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
        known: dict[tuple[int, ...], int] = {}
        return [
            known.setdefault(tuple(mask >> symbol & 1 for mask in masks), symbol)
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
            found = same
            if found is None:
                places, match, tested = self._follow(
                    threads, passed, symbol, column // self.symbols
                )
                found = (places, match)
                if not tested:
                    same = found
            places, match = found
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
