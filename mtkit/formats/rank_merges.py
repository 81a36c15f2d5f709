"""A merge list for a model that may merge any neighbors whose union is a token.

The list has every way to cut a token in two tokens, ordered by the token; of one token, by the ids
of the parts. Two cuts of one token at overlapping places can then merge in another order than from
the left.

Source: huggingface/transformers 5, convert_slow_tokenizer.py (``generate_merges``).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.spec.models import Merges

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mtkit.spec import Vocabulary


def merges_by_rank(vocabulary: Vocabulary, special: Collection[int]) -> Merges:
    """Return the merges that make every token but the special ones, the lowest id first."""
    usable = {
        piece: number
        for number, piece in enumerate(vocabulary.pieces)
        if piece and number not in special
    }
    return all_cuts(usable.values(), usable)


def all_cuts(made: Iterable[int], usable: Mapping[bytes, int]) -> Merges:
    """Return the merges that make the given tokens, in their order.

    Args:
        made: Ids of usable tokens.
        usable: Piece -> id of the tokens that a merge can take and make.
    """
    pieces = {number: piece for piece, number in usable.items()}
    flat: list[int] = []
    for number in made:
        piece = pieces[number]
        cuts = []
        for cut in range(1, len(piece)):
            left = usable.get(piece[:cut])
            if left is not None and piece[cut] & 0xC0 != 0x80:  # not inside a character
                right = usable.get(piece[cut:])
                if right is not None:
                    cuts.append((left, right))
        for pair in sorted(cuts):
            flat += pair
    return Merges(Numbers.of("I", flat), Pieces.of([]))
