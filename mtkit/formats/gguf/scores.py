"""Scores for a merge list, so that merging by score makes the same tokens.

llama.cpp merges neighbors whenever their union is a token, the best score first. A merge list says
the same when it has every pair that makes a token, and each token's score falls with the first
merge that makes it.

Source: google/sentencepiece, bpe_model.cc.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import Vocabulary
    from mtkit.spec.models import Merges

NEVER = -1e9
"""Score of what no merge makes."""


def scores_of(merges: Merges, vocabulary: Vocabulary, skip: frozenset[int]) -> list[float] | None:
    """Return a score for each token, or None where scores cannot say what the merges say.

    Args:
        merges: The merge list.
        vocabulary: Its tokens.
        skip: Tokens that are never made: special ones, byte tokens.
    """
    pieces, ids = list(vocabulary.pieces), vocabulary.pieces.ids
    scores = [NEVER] * len(pieces)
    listed: set[tuple[int, int]] = set()
    for rank, (left, right) in enumerate(merges.pairs.pairs()):
        if left >= len(pieces) or right >= len(pieces):
            return None
        made = ids.get(pieces[left] + pieces[right])
        if made is None:
            return None
        listed.add((left, right))
        if scores[made] == NEVER:
            scores[made] = -float(rank)
    for token_id, piece in enumerate(pieces):
        if token_id in skip:
            continue
        for cut in range(1, len(piece)):
            if piece[cut] & 0xC0 == 0x80:
                continue
            left, right = ids.get(piece[:cut]), ids.get(piece[cut:])
            if left is None or right is None or left in skip or right in skip:
                continue
            if (left, right) not in listed:
                return None
    return scores
