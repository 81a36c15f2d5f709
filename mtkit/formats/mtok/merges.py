"""Merges for the base of a .mtok: (left id, right id, rank), found by the two ids.

The loader allows equal ranks (the leftmost pair merges), so a model that merges by score is held
exactly: all pairs that make tokens of one score have one rank. A model that merges whatever makes
a token has for each token the one pair that its own merging ends in.
"""

from __future__ import annotations

from mtkit.errors import counted
from mtkit.formats.mtok.read_tables import RANK_LIMIT
from mtkit.pipeline.models.merging import merge
from mtkit.spec import TokenType, models
from mtkit.spec.vocabulary import SEGMENTED
from mtkit.unicode.utf8 import to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.contract import Losses
    from mtkit.spec import TokenizerSpec

    Merge = tuple[int, int, int]

FIELD = "model.merges"


def merges_of(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> list[Merge]:
    """Return the merges of a model."""
    model = spec.model
    if isinstance(model, models.BPE):
        return _listed(spec, pieces, losses)
    if isinstance(model, models.LooseBPE):
        ranked = zip(model.pairs.pairs(), model.ranks, strict=True)
        return [(left, right, rank) for (left, right), rank in ranked]
    if isinstance(model, models.ScoreBPE):
        return _by_score(spec, losses)
    if isinstance(model, models.RankBPE):
        return _by_id(spec, losses)
    return []


def _listed(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> list[Merge]:
    model = spec.model
    assert isinstance(model, models.BPE)
    found = spec.vocabulary.ids
    size = len(spec.vocabulary)
    ranks: dict[tuple[int, int], int] = {}
    skipped = 0
    for rank, pair in enumerate(model.merges.pairs.pairs()):
        left, right = pair
        if left >= size or right >= size or pieces[left] + pieces[right] not in found:
            skipped += 1
        elif model.missing == "before":
            ranks[pair] = rank  # of a pair listed twice the later rank counts
        else:
            ranks.setdefault(pair, rank)
    if skipped:
        losses.add("ids-possible", FIELD, f"{skipped} merges that produce no token are left out")
    return [(left, right, rank) for (left, right), rank in ranks.items() if rank < RANK_LIMIT]


def _by_score(spec: TokenizerSpec, losses: Losses) -> list[Merge]:
    model, vocabulary = spec.model, spec.vocabulary
    assert isinstance(model, models.ScoreBPE)
    scores = [0.0] * len(vocabulary) if vocabulary.scores is None else list(vocabulary.scores)
    made: dict[bytes, int] = {}
    for token_id, piece in enumerate(vocabulary.pieces):
        kind = vocabulary.type_of(token_id)
        if piece and kind != TokenType.ABSENT and (model.mergeable == "any" or kind in SEGMENTED):
            made.setdefault(piece, token_id)
            if kind == TokenType.UNUSED:
                losses.add("ids-possible", FIELD, "unused tokens are not split again")
    if model.score_above is not None:
        made_by_merging = {p: i for p, i in made.items() if scores[i] > model.score_above}
    else:
        made_by_merging = made
    order = sorted({scores[token_id] for token_id in made_by_merging.values()}, reverse=True)
    rank_of = {score: rank for rank, score in enumerate(order)}
    merges: list[Merge] = []
    for piece, token_id in made_by_merging.items():
        rank = rank_of[scores[token_id]]
        for cut in range(1, len(piece)):
            left = made.get(piece[:cut])
            right = None if left is None else made.get(piece[cut:])
            if left is not None and right is not None:
                merges.append((left, right, rank))
    return merges


def _by_id(spec: TokenizerSpec, losses: Losses) -> list[Merge]:
    """Find for each token the two parts that merging the ids below it ends in."""
    found = spec.vocabulary.ids
    merges: list[Merge] = []
    skipped = 0
    for piece, token_id in sorted(found.items(), key=lambda item: item[1]):
        letters = list(map(to_bytes, piece.decode("utf-8", "surrogateescape")))
        if len(letters) < 2 or spec.vocabulary.type_of(token_id) != TokenType.NORMAL:
            continue

        def candidate(left: bytes, right: bytes, below: int = token_id) -> tuple[int, bytes] | None:
            made = found.get(left + right)
            return None if made is None or made >= below else (made, left + right)

        parts = merge(letters, [1] * len(letters), candidate, lambda left, right: left + right)
        ids = [found.get(part) for part, _ in parts]
        if len(ids) == 2 and ids[0] is not None and ids[1] is not None:
            merges.append((ids[0], ids[1], token_id))
        else:
            skipped += 1
    if skipped:
        losses.add(
            "ids-possible", FIELD, f"{counted(skipped, 'token')} cannot be produced by merging"
        )
    return merges
