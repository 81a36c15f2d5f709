"""The program's part and the tables of models that few tokenizers have."""

from __future__ import annotations

import struct

from mtkit.base.native import native
from mtkit.engine.opcodes import ModelKind
from mtkit.engine.program_writer import NONE, OUTSIDE, f64, numbers, text, u8, u32
from mtkit.spec import models, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.engine.program import Program
    from mtkit.spec import Vocabulary

    Sections = dict[str, bytes]


def guarded(model: models.Model) -> tuple[models.Model, bool]:
    """Return a model with OUTSIDE for ids that are none, and whether it has such ids."""
    names = [name for name in ("unk", "unknown") if hasattr(model, name)]
    bad = [name for name in names if not 0 <= (getattr(model, name) or 0) < OUTSIDE]
    changed: models.Model = replace(model, **dict.fromkeys(bad, OUTSIDE))
    if isinstance(changed, models.SectionBPE):
        inner, is_bad = guarded(changed.bpe)
        return replace(changed, bpe=inner), is_bad or bool(bad)
    return changed, bool(bad)


def shortest_path(vocabulary: Vocabulary, sections: Sections) -> bytes:
    """Make the tables of ``ShortestPath``: a trie of the pieces that can be taken, their costs."""
    from mtkit.pipeline.models.shortest_path import byte_tokens, costs

    priced = costs(vocabulary)
    every = range(len(vocabulary))
    sections["TRIE"] = native.build_trie(
        sections["PCSB"], sections["PCSE"], bytes(int(i in priced) for i in every)
    )
    sections["COST"] = struct.pack(f"<{len(every)}i", *(priced.get(i, 0) for i in every))
    return u8(ModelKind.SHORTEST_PATH) + numbers(byte_tokens(vocabulary))


def loose_bpe(vocabulary: Vocabulary, model: models.LooseBPE, sections: Sections) -> bytes:
    """Make the tables of ``LooseBPE``: the pairs that can come up, and the rank of each."""
    found = set(vocabulary.ids.values())
    order = {rank: place for place, rank in enumerate(sorted(set(model.ranks)))}
    parts = iter(model.pairs)
    pairs: list[int] = []
    ranks: list[int] = []
    for left, right, rank in zip(parts, parts, model.ranks, strict=True):
        if left in found and right in found:
            pairs += left, right
            ranks.append(order[rank])
    sections["PAIR"], sections["MRGD"], sections["PBIT"] = native.build_pairs(
        struct.pack(f"<{len(pairs)}I", *pairs), dict[str, object](sections), 0, True
    )
    sections["RANK"] = struct.pack(f"<{len(ranks)}I", *ranks)
    return u8(ModelKind.LOOSE_BPE)


def lattice_unigram(
    vocabulary: Vocabulary, model: models.LatticeUnigram, sections: Sections
) -> bytes:
    """Make the scores of ``LatticeUnigram`` as f64."""
    from mtkit.spec.vocabulary import BYTE_TOKENS

    size = len(vocabulary)
    scores = list(vocabulary.scores or [0.0] * size)
    sections["OFRS"] = struct.pack(f"<{size}d", *scores)
    ids = vocabulary.ids
    return b"".join(
        [
            u8(ModelKind.LATTICE_UNIGRAM),
            u32(model.unk),
            f64(scores[model.unk]),
            u8(model.byte_fallback),
            numbers(ids.get(piece, NONE) for piece in BYTE_TOKENS),
        ]
    )


def section_bpe(program: Program, model: models.SectionBPE, sections: Sections) -> bytes:
    """Make the table of runs of ``SectionBPE``; its BPE stands behind, without its kind."""
    from mtkit.pipeline.models.section_bpe import MARK, RUN_BYTES

    pieces = program.spec.vocabulary.pieces
    size = RUN_BYTES + len(MARK)
    runs = bytes(int(len(piece) == size and piece.endswith(MARK)) for piece in pieces)
    sections["RUNS"] = native.build_words(sections["PCSB"], sections["PCSE"], b"", b"", runs)
    return b"".join(
        [
            u8(ModelKind.SECTION_BPE),
            u32(model.begin),
            text(pieces[model.begin]),
            u32(model.end),
            text(pieces[model.end]),
            u32(model.unknown),
            program.inner(model.words),
        ]
    )
