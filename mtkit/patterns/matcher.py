"""Split patterns: compiled to flat tables, and the matcher that walks them.

``check_patterns`` asks whether those of a specification can be compiled, when its file is read.

The tables are what the C++ core walks, too (native/steps/pattern.hpp). All numbers little-endian:

    u32 magic "MTKP", u32 classes, u32 flags (1: empty matches do not count), u32 oracles,
    u32 offset of the block numbers, of the blocks, of each oracle's automaton, of the main one
    u16[4352] block number of each 256 characters; u8[256] classes a block; automata

A character's class is ``blocks[256 * numbers[code >> 8] + (code & 255)]``; automata are described
in automaton.py. Finding takes time linear in the text: a look beyond the end of a match
that came to nothing is remembered once it is long, and not gone again.

Source: find_iter of the onig crate and of fancy-regex: an empty match right behind a match does not
count.
"""

from __future__ import annotations

import struct
from functools import lru_cache

from mtkit.errors import UnsupportedError
from mtkit.spec import components_of
from mtkit.spec.text import Regex, Text

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.patterns.automaton import CharacterPartition
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.text import Pattern


MAGIC = b"MTKP"
IGNORE_EMPTY = 1
LONG_LOOK = 64


class AutomatonView:
    """View of one automaton in the tables."""

    def __init__(self, tables: memoryview, at: int, symbols: int) -> None:
        states, self.stride, self.bits, self.backward = struct.unpack_from("<4I", tables, at)
        at += 16
        self.starts = struct.unpack_from(f"<{symbols}H", tables, at)
        at += 2 * (symbols + symbols % 2)
        self.table = struct.unpack_from(f"<{states * self.stride}I", tables, at)


class Matcher:
    """A compiled pattern."""

    def __init__(self, tables: bytes) -> None:
        self.tables = tables
        view = memoryview(tables)
        magic, self.classes, self.flags, oracles = struct.unpack_from("<4s3I", view)
        assert magic == MAGIC
        offsets = struct.unpack_from(f"<{3 + oracles}I", view, 16)
        self.numbers = struct.unpack_from("<4352H", view, offsets[0])
        self.blocks = view[offsets[1] :]
        automata = [AutomatonView(view, at, self.classes + 1) for at in offsets[2:]]
        self.oracles, self.main = automata[:-1], automata[-1]

    def find(self, text: str) -> list[tuple[int, int]]:
        """Return the matches from left to right as (start, end) in characters."""
        symbols = self._symbols(text)
        columns = self._columns(symbols)
        starts, table, stride = self.main.starts, self.main.table, self.main.stride
        length = len(text)
        out: list[tuple[int, int]] = []
        ignore_empty = self.flags & IGNORE_EMPTY
        failed: set[tuple[int, int]] = set()
        place = 0
        behind = -1
        while place <= length:
            at, last = place, -1
            state = accepted = starts[symbols[place - 1]]
            while True:
                step = table[state * stride + columns[at]]
                if step & 1:
                    last, accepted = at, state
                state = step >> 1
                if not state:
                    break
                at += 1
                if failed and (at, state) in failed:
                    break
            looked = place if last < 0 else last
            if at - looked > LONG_LOOK:
                again = accepted
                for passed in range(looked, at):
                    again = table[again * stride + columns[passed]] >> 1
                    failed.add((passed + 1, again))
            if last <= place:
                if last == place != behind and not ignore_empty:
                    out.append((place, place))
                place += 1
            else:
                out.append((place, last))
                place = behind = last
        return out

    def _symbols(self, text: str) -> list[int]:
        """Class of each character, and the end; the last stands before the first, too."""
        numbers, blocks = self.numbers, self.blocks
        out = [blocks[numbers[code >> 8] << 8 | code & 255] for code in map(ord, text)]
        out.append(self.classes)
        return out

    def _columns(self, symbols: list[int]) -> list[int]:
        """Symbols with the oracles' answers on top."""
        columns = symbols
        unit = self.classes + 1
        for number, oracle in enumerate(self.oracles):
            answers = _run_oracle(oracle, symbols, columns, unit)
            columns = [
                column + answer * (unit << number)
                for column, answer in zip(columns, answers, strict=True)
            ]
        return columns


def _run_oracle(
    oracle: AutomatonView, symbols: list[int], columns: list[int], unit: int
) -> list[int]:
    length = len(symbols)
    answers = [0] * length
    stride, table = oracle.stride, oracle.table
    end = symbols[-1]
    state = oracle.starts[end]
    for step in range(length):
        place = length - 1 - step if oracle.backward else step
        # A backward run meets the character before the place, with the answers at the place.
        symbol = symbols[place - 1] if oracle.backward else symbols[place]
        move = table[state * stride + (columns[place] // unit * unit + symbol) % stride]
        answers[place] = move & 1
        state = move >> 1
    return answers


@lru_cache(maxsize=256)
def compile_pattern(pattern: Pattern) -> Matcher:
    """Compile a pattern, once a process."""
    return Matcher(build_tables(pattern))


def build_tables(pattern: Pattern) -> bytes:
    """Return a pattern's tables."""
    from mtkit.patterns import tree
    from mtkit.patterns.automaton import AutomatonBuilder as Builder
    from mtkit.patterns.automaton import GraphBuilder
    from mtkit.patterns.parser import Parser

    node: tree.Node
    if isinstance(pattern, Text):
        rules = Regex("")
        node = tree.Chain(tuple(tree.Set((ord(c), ord(c) + 1)) for c in pattern.text))
    else:
        rules = pattern
        node = Parser(rules).parse()
    graphs = GraphBuilder(node)
    symbols = graphs.classes.count + 1
    numbers, blocks = class_tables(graphs.classes, rules)
    automata = [Builder(oracle, symbols, oracle=True).build() for oracle in graphs.oracles]
    automata.append(Builder(graphs.main, symbols, oracle=False).build())
    parts = [numbers, blocks, *automata]
    offsets = []
    at = 16 + 4 * len(parts)
    for part in parts:
        offsets.append(at)
        at += len(part) + -len(part) % 4
    flags = IGNORE_EMPTY * (rules.empty == "ignored")
    head = struct.pack("<4s3I", MAGIC, graphs.classes.count, flags, len(graphs.oracles))
    body = b"".join(part + bytes(-len(part) % 4) for part in parts)
    return head + struct.pack(f"<{len(parts)}I", *offsets) + body


def class_tables(classes: CharacterPartition, rules: Regex) -> tuple[bytes, bytes]:
    """Block numbers and blocks of 256 classes."""
    runs = [*classes.runs, (0x110000, 0)]
    table = b"".join(
        bytes((kind,)) * (runs[at + 1][0] - start) for at, (start, kind) in enumerate(runs[:-1])
    )
    if rules.alphabet == "kinds":
        from mtkit.patterns.sets import kinds_of

        table = kinds_of(table, rules.unicode)
    blocks: dict[bytes, int] = {}
    numbers = [
        blocks.setdefault(table[at : at + 256], len(blocks)) for at in range(0, 0x110000, 256)
    ]
    return struct.pack("<4352H", *numbers), b"".join(blocks)


_STAGES = ("normalizer", "pre_tokenizer", "decoder")


def check_patterns(spec: TokenizerSpec) -> None:
    """Compile all patterns; what was compiled once is kept."""
    for stage in _STAGES:
        for component in components_of(getattr(spec, stage)):
            pattern = getattr(component, "pattern", None)
            if isinstance(pattern, Regex):
                try:
                    compile_pattern(pattern)
                except UnsupportedError as error:
                    error.field = f"{stage}: {type(component).__name__}"
                    raise
