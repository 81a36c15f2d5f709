"""The alphabet on which a split pattern sees kinds of characters only.

Source: alibaba/MNN, transformers/llm/engine/src/tokenizer, unicode.cpp, by its behavior.
"""

from __future__ import annotations

from mtkit.patterns import sets as pattern_sets
from mtkit.unicode import tables as unicode


def kinds_of(table: bytes, version: str) -> bytes:
    """Return the class of each character, given the class of each byte of the alphabet."""
    kinds = bytearray(unicode.LIMIT)
    for name, edges in unicode.ranges(f"gc.{version}").items():
        # Line and paragraph separators are not white space here.
        kind = pattern_sets.KINDS["C" if name in {"Zl", "Zp"} else name[0]]
        for at in range(0, len(edges), 2):
            kinds[edges[at] : edges[at + 1]] = bytes((kind,)) * (edges[at + 1] - edges[at])
    kinds[:128] = bytes(range(128))
    return bytes(kinds.translate(table[:256]))
