"""Models of other references as those of tokenizer.json: above all, merges from scores or ranks.

Where a reference may merge any neighbours that make a token, the merge list has every way to cut
a token in two tokens, ordered by the token's score or rank; of one token, the longest left part
first. Two cuts of one token at overlapping places can then merge in another order than from the
left (``ids-possible``).

Source: huggingface/transformers 5, convert_slow_tokenizer.py (``generate_merges``).
"""

from __future__ import annotations

from mtkit.errors import UnsupportedError
from mtkit.spec import TokenType, models, replace
from mtkit.spec.packed import Numbers, Pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from mtkit.formats.hf_stages import AddLoss
    from mtkit.spec import TokenizerSpec, Vocabulary
    from mtkit.spec.models import Model

NO_LIMIT = (1 << 31) - 1
"""Stands for a word length without limit."""


def adapt_model(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Return the model of the library's kinds.

    Raises:
        UnsupportedError: It has none that comes near.
    """
    model = spec.model
    if type(model) not in _MODELS:
        name = type(model).__name__
        raise UnsupportedError(f"tokenizer.json has no model for {name}")
    return _MODELS[type(model)](spec, vocabulary, add)


def _bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, models.BPE)
    made = replace(model, missing="before", whole_newlines=False)
    if made != model:
        add("ids-possible", "model", "unknown characters are dealt with before merging")
    kept = _sound(model.merges.pairs, vocabulary, len(model.continuing_subword_prefix.encode()))
    if kept is not None or len(model.merges.unlisted):
        add("ids-possible", "model.merges", "merges that make no token are left out")
        made = replace(made, merges=models.Merges(kept or model.merges.pairs, Pieces.of([])))
    return made


def _sound(pairs: Numbers, vocabulary: Vocabulary, cut: int) -> Numbers | None:
    """Return the merges of tokens that make a token; None when all do."""
    pieces = list(vocabulary.pieces)
    known = set(pieces)
    size = len(pieces)
    numbers = iter(pairs.view.tolist())
    kept: list[int] = []
    for left, right in zip(numbers, numbers, strict=True):
        listed = left < size and right < size and pieces[left] and pieces[right]
        if listed and pieces[left] + pieces[right][cut:] in known:
            kept += (left, right)
    return None if len(kept) == len(pairs) else Numbers.of("I", kept)


def _score_bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Give every token that merging may make its merges, best score first."""
    model = spec.model
    assert isinstance(model, models.ScoreBPE)
    scores = spec.vocabulary.scores
    if scores is None:
        raise UnsupportedError("the vocabulary has no scores to order merges by")
    types = spec.vocabulary.types
    kinds = types.view.tolist() if types is not None else [TokenType.NORMAL] * len(scores)
    parts = {TokenType.NORMAL, TokenType.USER_DEFINED, TokenType.UNUSED}
    usable = {
        piece: number
        for number, piece in enumerate(vocabulary.pieces)
        if piece and kinds[number] in parts
    }
    add("ids-possible", "model", "merges by a list: equal scores and overlapping cuts can differ")
    if any(kind == TokenType.UNUSED for kind in kinds):
        add("ids", "model", "unused pieces are not taken apart again")
    values = scores.view.tolist()
    made = [
        n for n in usable.values() if model.score_above is None or values[n] > model.score_above
    ]
    made.sort(key=lambda number: -values[number])
    return models.BPE(
        _cuts(made, usable),
        unk=model.unk,
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
    )


def _rank_bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Give every token its merges, lowest id first; a word that is a token is that token."""
    add("ids-possible", "model", "merges by a list: overlapping cuts can differ")
    special = {token.id for token in spec.added_tokens.tokens}
    usable = {
        piece: number
        for number, piece in enumerate(vocabulary.pieces)
        if piece and number not in special
    }
    return models.BPE(_cuts(usable.values(), usable), ignore_merges=True)


def _cuts(made: Iterable[int], usable: dict[bytes, int]) -> models.Merges:
    """Return the merges that make the given tokens, in their order."""
    texts = {number: piece.decode("utf-8") for piece, number in usable.items()}
    ids = {text: number for number, text in texts.items()}
    flat: list[int] = []
    for number in made:
        text = texts[number]
        for cut in range(len(text) - 1, 0, -1):
            left = ids.get(text[:cut])
            if left is not None:
                right = ids.get(text[cut:])
                if right is not None:
                    flat += (left, right)
    return models.Merges(Numbers.of("I", flat), Pieces.of([]))


def _loose_bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, models.LooseBPE)
    add("ids-possible", "model", "merges that make no token are left out, equal ranks follow")
    pairs = _sound(model.pairs, vocabulary, 0) or model.pairs
    return models.BPE(models.Merges(pairs, Pieces.of([])), byte_fallback=True)


def _unigram(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, (models.Unigram, models.LatticeUnigram))
    made = models.Unigram(unk=model.unk, byte_fallback=model.byte_fallback)
    if made != model:
        add("ids-possible", "model", "all pieces are tried, sums are kept in double precision")
        types = spec.vocabulary.types
        if types is not None and TokenType.UNUSED in types.view.tolist():
            add("ids", "model", "unused pieces are used")
    if vocabulary.scores is None:
        raise UnsupportedError("the vocabulary has no scores")
    return made


def _word_piece(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:  # noqa: ARG001
    model = spec.model
    assert isinstance(model, models.WordPiece)
    most = NO_LIMIT if model.max_chars is None else model.max_chars
    made = models.WordPiece(model.unk, model.prefix, most)
    if made != model:
        add("ids-possible", "model", "the limit of a word's length counts characters")
    return made


def _word_level(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:  # noqa: ARG001
    return spec.model


_MODELS: dict[type, Callable[[TokenizerSpec, Vocabulary, AddLoss], Model]] = {
    models.BPE: _bpe,
    models.ScoreBPE: _score_bpe,
    models.RankBPE: _rank_bpe,
    models.LooseBPE: _loose_bpe,
    models.Unigram: _unigram,
    models.LatticeUnigram: _unigram,
    models.WordPiece: _word_piece,
    models.WordLevel: _word_level,
}
