"""Models and their merges as the base of a .mtok can hold them, over one dense vocabulary.

Merges are (left id, right id, rank), found by the two ids. The loader allows equal ranks (the
leftmost pair merges), so a model that merges by score is held exactly: all pairs whose results have
one score have one rank. A model that merges by id has for each token the pair in which its own
merging ends.

Every id has a text: a hole one that is no UTF-8, an added token beyond the vocabulary its content.
Of two ids with one text, that of the model stands first, where the loader's bisection finds it.
"""

from __future__ import annotations

import struct

from mtkit.errors import format_count
from mtkit.formats.mtok.layout import (
    MODEL_BPE,
    MODEL_UNIGRAM,
    MODEL_WORD_PIECE,
    NO_PREFIX,
    STRING_LIMIT,
    string,
)
from mtkit.formats.mtok.model_reader import RANK_LIMIT
from mtkit.pipeline.models.bpe import merge_symbols
from mtkit.spec import TokenType, model_name, models
from mtkit.spec.vocabulary import BYTE_TOKENS, SEGMENTED
from mtkit.unicode.utf8 import letters_of_bytes, to_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.contract import Losses
    from mtkit.spec import TokenizerSpec

    Merge = tuple[int, int, int]


MERGES = "model.merges"


def merges_of(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> list[Merge]:
    """Return the merges of a model."""
    model = spec.model
    if isinstance(model, models.BPE):
        return _merges_by_list(spec, pieces, losses)
    if isinstance(model, models.LooseBPE):
        ranked = zip(model.pairs.pairs(), model.ranks, strict=True)
        return [(left, right, rank) for (left, right), rank in ranked]
    if isinstance(model, models.ScoreBPE):
        return _merges_by_score(spec, losses)
    if isinstance(model, models.RankBPE):
        return _merges_by_id(spec, losses)
    return []


def _merges_by_list(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> list[Merge]:
    model = spec.model
    assert isinstance(model, models.BPE)
    ids = spec.vocabulary.ids
    size = len(spec.vocabulary)
    ranks: dict[tuple[int, int], int] = {}
    skipped = 0
    for rank, pair in enumerate(model.merges.pairs.pairs()):
        left, right = pair
        if left >= size or right >= size or pieces[left] + pieces[right] not in ids:
            skipped += 1
        elif model.missing == "before":
            ranks[pair] = rank  # of two equal pairs the later rank counts
        else:
            ranks.setdefault(pair, rank)
    if skipped:
        losses.add("ids-possible", MERGES, f"{skipped} merges that produce no token are left out")
    return [(left, right, rank) for (left, right), rank in ranks.items() if rank < RANK_LIMIT]


def _merges_by_score(spec: TokenizerSpec, losses: Losses) -> list[Merge]:
    model, vocabulary = spec.model, spec.vocabulary
    assert isinstance(model, models.ScoreBPE)
    scores = [0.0] * len(vocabulary) if vocabulary.scores is None else list(vocabulary.scores)
    mergeable: dict[bytes, int] = {}
    for token_id, piece in enumerate(vocabulary.pieces):
        kind = vocabulary.type_of(token_id)
        if piece and kind != TokenType.ABSENT and (model.mergeable == "any" or kind in SEGMENTED):
            mergeable.setdefault(piece, token_id)
            if kind == TokenType.UNUSED:
                losses.add("ids-possible", MERGES, "unused tokens are not split again")
    if model.score_above is not None:
        results = {p: i for p, i in mergeable.items() if scores[i] > model.score_above}
    else:
        results = mergeable
    order = sorted({scores[token_id] for token_id in results.values()}, reverse=True)
    rank_of = {score: rank for rank, score in enumerate(order)}
    merges: list[Merge] = []
    for piece, token_id in results.items():
        rank = rank_of[scores[token_id]]
        for cut in range(1, len(piece)):
            left = mergeable.get(piece[:cut])
            right = None if left is None else mergeable.get(piece[cut:])
            if left is not None and right is not None:
                merges.append((left, right, rank))
    return merges


def _merges_by_id(spec: TokenizerSpec, losses: Losses) -> list[Merge]:
    """Return for each token the two parts in which merging by the ids below it ends."""
    ids_by_piece = spec.vocabulary.ids
    merges: list[Merge] = []
    skipped = 0
    for piece, token_id in sorted(ids_by_piece.items(), key=lambda item: item[1]):
        letters = list(map(to_bytes, piece.decode("utf-8", "surrogateescape")))
        if len(letters) < 2 or spec.vocabulary.type_of(token_id) != TokenType.NORMAL:
            continue

        def candidate(left: bytes, right: bytes, below: int = token_id) -> tuple[int, bytes] | None:
            result = ids_by_piece.get(left + right)
            return None if result is None or result >= below else (result, left + right)

        parts = merge_symbols(
            letters, [1] * len(letters), candidate, lambda left, right: left + right
        )
        ids = [ids_by_piece.get(part) for part, _ in parts]
        if len(ids) == 2 and ids[0] is not None and ids[1] is not None:
            merges.append((ids[0], ids[1], token_id))
        else:
            skipped += 1
    if skipped:
        effect = f"{format_count(skipped, 'token')} cannot be produced by merging"
        losses.add("ids-possible", MERGES, effect)
    return merges


MODEL = "model"
LONGEST = 0x7FFFFFFF
PENALTY = 10.0
"""An unknown character scores so much below the lowest score."""
MERGING = (models.BPE, models.LooseBPE, models.ScoreBPE, models.RankBPE, models.Characters)


def placeholder(token_id: int) -> bytes:
    """Return the text of an unused id: no UTF-8, so no text contains it."""
    return b"\xff\xfe%d" % token_id


def write_model(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> bytes:
    """Write the model with its vocabulary; ``pieces`` are the texts of all ids."""
    for token_id, piece in enumerate(pieces):
        if len(piece) > STRING_LIMIT:
            losses.add("ids", "vocabulary.pieces", f"id {token_id} is longer than 65,535 bytes")
            pieces[token_id] = placeholder(token_id)
    model = spec.model
    if isinstance(model, MERGING):
        return _bpe(spec, pieces, losses)
    if isinstance(model, (models.Unigram, models.LatticeUnigram)):
        return _unigram(spec, pieces, losses)
    return _longest_match(spec, pieces, losses)


def sorted_ids(spec: TokenizerSpec, pieces: list[bytes]) -> list[int]:
    """Return the ids in the order of their texts; of equal texts the model's own id first."""
    ids = spec.vocabulary.ids
    keys = [(piece, ids.get(piece) != token_id) for token_id, piece in enumerate(pieces)]
    return sorted(range(len(pieces)), key=keys.__getitem__)


def _entries(spec: TokenizerSpec, pieces: list[bytes]) -> bytes:
    return b"".join(string(pieces[i]) + i.to_bytes(4, "little") for i in sorted_ids(spec, pieces))


def _bpe(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> bytes:
    model = spec.model
    ids = spec.vocabulary.ids
    has_bytes = BYTE_TOKENS[0] in ids
    if isinstance(model, models.BPE):
        if model.ignore_merges:
            effect = "a word that is itself a token can be split by the merges"
            losses.add("ids-possible", MODEL, effect)
        if model.end_of_word_suffix or model.continuing_subword_prefix:
            losses.add("ids", MODEL, "prefixes inside words are not added")
        if model.missing == "after":
            effect = "unknown characters become byte tokens before merging"
            losses.add("ids-possible", MODEL, effect)
        if model.whole_newlines:
            losses.add("ids-possible", MODEL, "runs of line breaks go through the merges")
    if isinstance(model, models.RankBPE):
        effect = "a word that is itself a token can be split by the merges"
        losses.add("ids-possible", MODEL, effect)
    unk = getattr(model, "unk", None)
    spells_unknown = getattr(model, "byte_fallback", False) and all(
        text in ids for text in BYTE_TOKENS
    )
    if unk is not None and not spells_unknown and not _has_letters(ids):
        effect = "characters without a token are dropped instead of becoming unknown"
        losses.add("ids-possible", MODEL, effect)
    table = sorted(merges_of(spec, pieces, losses))
    merges = b"".join(struct.pack("<III", *merge) for merge in table)
    head = MODEL_BPE.write(len(pieces), has_bytes, False, len(table))
    return head + _entries(spec, pieces) + merges


def _has_letters(ids: dict[bytes, int]) -> bool:
    """Tell whether every byte letter is a token, so that nothing is unknown."""
    return all(letter.encode() in ids for letter in letters_of_bytes(bytes(range(256))))


def _unigram(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> bytes:
    model, vocabulary = spec.model, spec.vocabulary
    assert isinstance(model, (models.Unigram, models.LatticeUnigram))
    old_scores = [] if vocabulary.scores is None else [float(s) for s in vocabulary.scores]
    scores = old_scores + [0.0] * (len(pieces) - len(old_scores))
    unk = model.unk
    if unk is None:
        unk = len(pieces)
        pieces.append(placeholder(unk))
        scores.append(0.0)
        losses.add("ids-special", MODEL, "unknown characters get an id of their own")
    if isinstance(model, models.Unigram):
        lowest = min(old_scores, default=0.0) - PENALTY
        _correct_scores(spec, pieces, scores, unk, lowest)
        effect = "if two ways to cut a word have equal scores, the other one is chosen"
        losses.add("ids-possible", MODEL, effect)
    head = MODEL_UNIGRAM.write(len(pieces), unk, model.byte_fallback)
    entries = (
        string(pieces[i]) + struct.pack("<Id", i, scores[i]) for i in sorted_ids(spec, pieces)
    )
    return head + b"".join(entries)


def _correct_scores(
    spec: TokenizerSpec, pieces: list[bytes], scores: list[float], unk: int, lowest: float
) -> None:
    """Set scores so that the loader's lattice finds what the model finds.

    The loader takes the cost of an unknown character from the unknown token, and treats byte tokens
    as pieces: the first byte of a character has its whole cost, the others none. Pieces that the
    model never produces cost more than any text.
    """
    vocabulary = spec.vocabulary
    never = {TokenType.CONTROL, TokenType.UNUSED, TokenType.ABSENT}
    bytes_by_text = {text: value for value, text in enumerate(BYTE_TOKENS)}
    for token_id, piece in enumerate(pieces):
        value = bytes_by_text.get(piece)
        inside = token_id < len(vocabulary)
        if token_id == unk:
            scores[token_id] = lowest
        elif value is not None and getattr(spec.model, "byte_fallback", False):
            scores[token_id] = 0.0 if 0x80 <= value < 0xC0 else lowest
        elif not inside or vocabulary.type_of(token_id) in never:
            scores[token_id] = -1e9


def _longest_match(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> bytes:
    """Write greedy matching: WordPiece, whole words, and bytes without words."""
    model = spec.model
    prefix, longest = "", LONGEST
    unk = getattr(model, "unk", None)
    match model:
        case models.WordPiece():
            prefix = model.prefix
            if model.gap == "rest":
                losses.add("ids", MODEL, "a word with an unknown part becomes unknown as a whole")
            if model.restart:
                losses.add("ids-special", MODEL, f"a word does not begin again at {model.restart}")
            if model.max_chars is not None:
                longest = min(model.max_chars, LONGEST)
                if model.unit == "characters":
                    effect = "MNN counts the longest word in bytes, not in characters"
                    losses.add("ids-possible", MODEL, effect)
        case models.WordLevel():
            prefix = NO_PREFIX
        case models.Words():
            prefix = NO_PREFIX
            losses.add("ids", MODEL, "text is not split before U+2581")
        case models.Trie():
            pass
        case _:
            losses.add("ids", MODEL, f"{model_name(model)} is replaced by longest match")
    text = pieces[unk] if unk is not None and 0 <= unk < len(pieces) else placeholder(len(pieces))
    if unk is None:
        losses.add("ids-special", MODEL, "a word without a token gets the id -1")
    head = MODEL_WORD_PIECE.write(len(pieces), text, prefix, longest)
    return head + _entries(spec, pieces)
