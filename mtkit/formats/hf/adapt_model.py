"""Models of other references as those of tokenizer.json: above all, merges from scores or ranks.

Where a reference may merge any neighbors that make a token, the merge list has every way to cut
a token in two tokens, ordered by the token's score or rank; of one token, by the ids of the parts.
Two cuts of one token at overlapping places can then merge in another order than from the
left (``ids-possible``).

Source: huggingface/transformers 5, convert_slow_tokenizer.py (``generate_merges``).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import UnsupportedError
from mtkit.formats.hf.numbers import piece_text
from mtkit.formats.rank_merges import all_cuts, merges_by_rank
from mtkit.spec import TokenType, models, replace, traverse
from mtkit.spec.model_names import model_name
from mtkit.spec.normalizers import Spaces
from mtkit.spec.vocabulary import SEGMENTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from mtkit.formats.contract import AddLoss
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
        raise UnsupportedError(f"tokenizer.json does not support {model_name(model)}")
    return _MODELS[type(model)](spec, vocabulary, add)


def _bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, models.BPE)
    made = replace(model, missing="before", whole_newlines=False)
    if made != model:
        add("ids-possible", "model", "unknown characters are handled before merging")
    kept = _sound(model.merges.pairs, vocabulary, len(model.continuing_subword_prefix.encode()))
    if kept is not None or len(model.merges.unlisted):
        add("ids-possible", "model.merges", "merges that produce no token are left out")
        pairs = model.merges.pairs if kept is None else kept  # none may be left
        made = replace(made, merges=models.Merges(pairs, Pieces.of([])))
    return made


def _sound(pairs: Numbers, vocabulary: Vocabulary, cut: int) -> Numbers | None:
    """Return the merges of tokens that make a token; None when all do."""
    pieces = list(vocabulary.pieces)
    known = {*pieces, *(other.piece for other in vocabulary.also)}
    size = len(pieces)
    kept: list[int] = []
    for left, right in pairs.pairs():
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
    kinds = spec.vocabulary.all_types()
    usable = {
        piece: number
        for number, piece in enumerate(vocabulary.pieces)
        if piece and kinds[number] in SEGMENTED
    }
    add(
        "ids-possible",
        "model",
        "scores become a list of merges, so ties can be decided differently",
    )
    if TokenType.UNUSED in kinds:
        add("ids", "model", "unused tokens are not split again")
    values = scores.view.tolist()
    made = [
        n for n in usable.values() if model.score_above is None or values[n] > model.score_above
    ]
    made.sort(key=lambda number: -values[number])
    return models.BPE(
        all_cuts(made, usable),
        unk=model.unk,
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
        ignore_merges=_whole(spec),
    )


def _characters(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Merge nothing: a character is a token or unknown."""
    model = spec.model
    assert isinstance(model, models.Characters)
    add("ids-possible", "model", "characters are looked up by a model without merges")
    return models.BPE(
        models.Merges(Numbers.of("I", []), Pieces.of([])),
        unk=model.unk,
        fuse_unk=True,
        byte_fallback=model.byte_fallback,
        ignore_merges=_whole(spec),
    )


def _words(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Look words up; see ``adapt_stages`` for how they are cut."""
    model = spec.model
    assert isinstance(model, models.Words)
    if model.byte_fallback:
        raise UnsupportedError("tokenizer.json has no model of words that spells unknown ones")
    add("ids", "model", "consecutive unknown words are not joined into one unknown token")
    return models.WordLevel(model.unk)


def _whole(spec: TokenizerSpec) -> bool:
    return keeps_user_defined(spec, by_splitting=True) and bool(user_defined(spec))


def user_defined(spec: TokenizerSpec) -> list[str]:
    """Return the texts of the user-defined pieces, longest first."""
    texts = [piece_text(piece) for piece in traverse.user_defined(spec) if piece]
    return sorted(texts, key=len, reverse=True)


def keeps_user_defined(spec: TokenizerSpec, *, by_splitting: bool = False) -> bool:
    """Tell whether user-defined pieces stay with the model instead of being added tokens.

    The library changes the text between added tokens piece by piece: each would get a prefix and
    lose the spaces at its ends. A Unigram model finds them by their score; for the others
    (``by_splitting``) a pattern cuts them out of the changed text.
    """
    spaces = spec.normalizer
    if spec.added_tokens.tokens or not isinstance(spaces, Spaces):
        return False
    if isinstance(spec.model, models.Unigram):
        return not by_splitting
    if not isinstance(spec.model, (models.ScoreBPE, models.Characters)):
        return False
    return spaces.add_dummy_prefix or spaces.remove_extra_whitespaces


def unigram_scores(spec: TokenizerSpec) -> Numbers | None:
    """Return the scores with what user-defined pieces count."""
    vocabulary, model = spec.vocabulary, spec.model
    if vocabulary.scores is None or vocabulary.types is None:
        return vocabulary.scores
    if not isinstance(model, models.Unigram) or model.user_defined == "score":
        return vocabulary.scores
    kinds = vocabulary.types.view.tolist()
    scores = vocabulary.scores.view.tolist()
    normal = [s for s, kind in zip(scores, kinds, strict=True) if kind == TokenType.NORMAL]
    best = max((2.0**-126, *normal))
    for number, kind in enumerate(kinds):
        if kind == TokenType.USER_DEFINED:
            preferred = len(vocabulary.pieces[number]) * best - 0.1
            scores[number] = preferred if model.user_defined == "preferred" else 0.0
    return vocabulary.scores if scores == list(vocabulary.scores) else Numbers.of("d", scores)


def _rank_bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    """Give every token its merges, lowest id first; a word that is a token is that token."""
    add(
        "ids-possible", "model", "merges follow a list, so overlapping words can be cut differently"
    )
    special = {token.id for token in spec.added_tokens.tokens}
    return models.BPE(merges_by_rank(vocabulary, special), ignore_merges=True)


def _loose_bpe(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, models.LooseBPE)
    add(
        "ids-possible",
        "model",
        "merges that produce no token are left out, and equal ranks follow each other",
    )
    kept = _sound(model.pairs, vocabulary, 0)
    pairs = model.pairs if kept is None else kept  # none may be left
    return models.BPE(models.Merges(pairs, Pieces.of([])), byte_fallback=True)


def _unigram(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, (models.Unigram, models.LatticeUnigram))
    made = models.Unigram(unk=model.unk, byte_fallback=model.byte_fallback)
    if made != model:
        add(
            "ids-possible",
            "model",
            "scores are added in double precision, so near ties can be decided differently",
        )
        types = spec.vocabulary.types
        if types is not None and TokenType.UNUSED in types.view.tolist():
            add("ids", "model", "unused tokens can be produced")
    if vocabulary.scores is None:
        raise UnsupportedError("the vocabulary has no scores")
    return made


def _word_piece(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    model = spec.model
    assert isinstance(model, models.WordPiece)
    most = NO_LIMIT if model.max_chars is None else model.max_chars
    unk = model.unk
    if unk is not None and not 0 <= unk < len(vocabulary):
        unk = None
        add("ids", "model.unk", "unknown words get no token")
    made = models.WordPiece(unk, model.prefix, most)
    if made != replace(model, unk=unk):
        add("ids-possible", "model", "the maximum word length counts characters")
    return made


def _word_level(spec: TokenizerSpec, vocabulary: Vocabulary, add: AddLoss) -> Model:
    return spec.model


_MODELS: dict[type, Callable[[TokenizerSpec, Vocabulary, AddLoss], Model]] = {
    models.BPE: _bpe,
    models.ScoreBPE: _score_bpe,
    models.RankBPE: _rank_bpe,
    models.Characters: _characters,
    models.Words: _words,
    models.LooseBPE: _loose_bpe,
    models.Unigram: _unigram,
    models.LatticeUnigram: _unigram,
    models.WordPiece: _word_piece,
    models.WordLevel: _word_level,
}
