"""The program's part and the tables of models that few tokenizers have."""

from __future__ import annotations

import struct

from mtkit.core import native
from mtkit.engine.encoding import numbers, u8

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import Vocabulary

    Sections = dict[str, bytes]


def shortest_path(vocabulary: Vocabulary, sections: Sections) -> bytes:
    """Make the tables of ``ShortestPath``: a trie of the pieces that can be taken, their costs."""
    from mtkit.pipeline.models.shortest_path import byte_tokens, costs

    priced = costs(vocabulary)
    every = range(len(vocabulary))
    sections["TRIE"], sections["TRID"] = native.build_trie(
        sections["PCSB"], sections["PCSE"], bytes(int(i in priced) for i in every)
    )
    sections["COST"] = struct.pack(f"<{len(every)}i", *(priced.get(i, 0) for i in every))
    return u8(9) + numbers(byte_tokens(vocabulary))
