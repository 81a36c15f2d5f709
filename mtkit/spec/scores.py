"""Byte-pair encoding by a merge list, written as encoding by score where both are the same.

With scores any two neighbors merge whose union is a token, and all ways to make a token are
equally good. A merge list says the same when it has every way to make each token it makes, the
ways to make one token stand next to each other, and no other token could be made. Then the place of
a token's merges gives its score. One difference remains: of three symbols where the first two and
the last two make the same token, scores take the left pair, the list its own favorite.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers
from mtkit.errors import UnsupportedError
from mtkit.spec import TokenType, Vocabulary, replace
from mtkit.spec.models import BPE, ScoreBPE

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.spec import TokenizerSpec


def score_form(spec: TokenizerSpec) -> TokenizerSpec:
    """Return a specification with scores in place of its merge list."""
    model = spec.model
    assert isinstance(model, BPE)
    for name, plain in (
        ("continuing_subword_prefix", ""),
        ("end_of_word_suffix", ""),
        ("ignore_merges", False),
        ("whole_newlines", False),
        ("missing", "before"),
    ):
        if getattr(model, name) != plain:
            raise _no_scores(f"has {name} {getattr(model, name)!r}")
    places = _places(spec, model)
    _check_complete(spec, model, places)
    count = len(set(places.values()))
    scores = [-float(count)] * len(spec.vocabulary)
    ids = spec.vocabulary.ids
    for piece, place in places.items():
        scores[ids[piece]] = -float(place)
    vocabulary = Vocabulary(spec.vocabulary.pieces, spec.vocabulary.types, Numbers.of("f", scores))
    by_score = ScoreBPE(unk=model.unk, byte_fallback=model.byte_fallback)
    return replace(spec, vocabulary=vocabulary, model=by_score)


def _places(spec: TokenizerSpec, model: BPE) -> dict[bytes, int]:
    """Return token made -> place of its run of merges."""
    pieces = list(spec.vocabulary.pieces)
    places: dict[bytes, int] = {}
    last = b""
    for rank, (left, right) in enumerate(model.merges.pairs.pairs()):
        if max(left, right) >= len(pieces):
            raise _no_scores(f"merge {rank} joins what is not a token")
        piece = pieces[left] + pieces[right]
        if piece != last and places.setdefault(piece, len(places)) != len(places) - 1:
            raise _no_scores(f"merge {rank} makes {piece!r} again, after others")
        last = piece
    return places


def _check_complete(spec: TokenizerSpec, model: BPE, places: dict[bytes, int]) -> None:
    """Check that exactly the listed ways lead to tokens."""
    pieces = list(spec.vocabulary.pieces)
    types = spec.vocabulary.types
    listed = {(pieces[a], pieces[b]) for a, b in model.merges.pairs.pairs()}
    found_first = {token.id for token in spec.added_tokens.tokens}
    for token_id, piece in enumerate(pieces):
        if token_id in found_first or (types is not None and types[token_id] != TokenType.NORMAL):
            continue
        text = piece.decode("utf-8", "surrogateescape")
        if model.byte_fallback and len(piece) == 6 and text.startswith("<0x"):
            continue
        for at in range(1, len(text)):
            left, right = text[:at], text[at:]
            parts = (
                left.encode("utf-8", "surrogateescape"),
                right.encode("utf-8", "surrogateescape"),
            )
            can_be = all(
                len(side) == 1 or part in places
                for side, part in zip((left, right), parts, strict=True)
            )
            if can_be and parts not in listed:
                raise _no_scores(f"nothing merges {left!r} and {right!r}, although that is a token")


def _no_scores(why: str) -> UnsupportedError:
    return UnsupportedError(
        f"{why}: the merge list cannot be written as scores", field="model.merges"
    )
