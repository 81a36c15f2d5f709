"""Models and their merges as the base of a .mtok can hold them, over one dense vocabulary.

Merges for the base of a .mtok: (left id, right id, rank), found by the two ids. The loader allows
equal ranks (the leftmost pair merges), so a model that merges by score is held exactly: all pairs
that make tokens of one score have one rank. A model that merges whatever makes a token has for each
token the one pair that its own merging ends in.

Every id has a place: holes get texts that no UTF-8 contains, added tokens beyond the vocabulary get
theirs. Where two ids have one text, the one that the model finds stands first, as the loader's
bisection takes it.
"""

from __future__ import annotations

import struct

from mtkit.errors import format_count
from mtkit.formats.mtok.component_writer import STRING_LIMIT, string, u8, u32
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
        losses.add("ids-possible", MERGES, f"{skipped} merges that produce no token are left out")
    return [(left, right, rank) for (left, right), rank in ranks.items() if rank < RANK_LIMIT]


def _merges_by_score(spec: TokenizerSpec, losses: Losses) -> list[Merge]:
    model, vocabulary = spec.model, spec.vocabulary
    assert isinstance(model, models.ScoreBPE)
    scores = [0.0] * len(vocabulary) if vocabulary.scores is None else list(vocabulary.scores)
    made: dict[bytes, int] = {}
    for token_id, piece in enumerate(vocabulary.pieces):
        kind = vocabulary.type_of(token_id)
        if piece and kind != TokenType.ABSENT and (model.mergeable == "any" or kind in SEGMENTED):
            made.setdefault(piece, token_id)
            if kind == TokenType.UNUSED:
                losses.add("ids-possible", MERGES, "unused tokens are not split again")
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


def _merges_by_id(spec: TokenizerSpec, losses: Losses) -> list[Merge]:
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

        parts = merge_symbols(
            letters, [1] * len(letters), candidate, lambda left, right: left + right
        )
        ids = [found.get(part) for part, _ in parts]
        if len(ids) == 2 and ids[0] is not None and ids[1] is not None:
            merges.append((ids[0], ids[1], token_id))
        else:
            skipped += 1
    if skipped:
        losses.add(
            "ids-possible",
            MERGES,
            f"{format_count(skipped, 'token')} cannot be produced by merging",
        )
    return merges


MODEL = "model"
BPE, WORD_PIECE, UNIGRAM = range(3)
LONGEST = 0x7FFFFFFF
NO_PREFIX = "\x00\x00"
"""A prefix that no piece has: words are found whole or not at all."""
PENALTY = 10.0
"""What an unknown character costs below the lowest score."""
MERGING = (models.BPE, models.LooseBPE, models.ScoreBPE, models.RankBPE, models.Characters)


def placeholder(token_id: int) -> bytes:
    """Text of an id that stands for nothing: no UTF-8, so no text contains it."""
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
    """Return the ids in the order of their texts, of equal ones the model's own first."""
    found = spec.vocabulary.ids
    keys = [(piece, found.get(piece) != token_id) for token_id, piece in enumerate(pieces)]
    return sorted(range(len(pieces)), key=keys.__getitem__)


def _entries(spec: TokenizerSpec, pieces: list[bytes]) -> bytes:
    return b"".join(string(pieces[i]) + i.to_bytes(4, "little") for i in sorted_ids(spec, pieces))


def _bpe(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> bytes:
    model = spec.model
    found = spec.vocabulary.ids
    has_bytes = BYTE_TOKENS[0] in found
    if isinstance(model, models.BPE):
        if model.ignore_merges:
            losses.add(
                "ids-possible", MODEL, "a word that is itself a token can be split by the merges"
            )
        if model.end_of_word_suffix or model.continuing_subword_prefix:
            losses.add("ids", MODEL, "prefixes inside words are not added")
        if model.missing == "after":
            losses.add(
                "ids-possible", MODEL, "unknown characters become byte tokens before merging"
            )
        if model.whole_newlines:
            losses.add("ids-possible", MODEL, "runs of line breaks go through the merges")
    if isinstance(model, models.RankBPE):
        losses.add(
            "ids-possible", MODEL, "a word that is itself a token can be split by the merges"
        )
    unk = getattr(model, "unk", None)
    spelled = getattr(model, "byte_fallback", False) and all(text in found for text in BYTE_TOKENS)
    if unk is not None and not spelled and not _has_letters(found):
        losses.add(
            "ids-possible",
            MODEL,
            "characters without a token are dropped instead of becoming unknown",
        )
    table = sorted(merges_of(spec, pieces, losses))
    merges = b"".join(struct.pack("<III", *merge) for merge in table)
    head = u8(BPE) + u32(len(pieces)) + u8(has_bytes, 0) + u32(len(table))
    return head + _entries(spec, pieces) + merges


def _has_letters(found: dict[bytes, int]) -> bool:
    """Tell whether every byte has a letter that is a token, so that nothing is unknown."""
    return all(letter.encode() in found for letter in letters_of_bytes(bytes(range(256))))


def _unigram(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> bytes:
    model, vocabulary = spec.model, spec.vocabulary
    assert isinstance(model, (models.Unigram, models.LatticeUnigram))
    given = [] if vocabulary.scores is None else [float(s) for s in vocabulary.scores]
    scores = given + [0.0] * (len(pieces) - len(given))
    unk = model.unk
    if unk is None:
        unk = len(pieces)
        pieces.append(placeholder(unk))
        scores.append(0.0)
        losses.add("ids-special", MODEL, "unknown characters get an id of their own")
    if isinstance(model, models.Unigram):
        lowest = min(given, default=0.0) - PENALTY
        _correct_scores(spec, pieces, scores, unk, lowest)
        losses.add(
            "ids-possible",
            MODEL,
            "if two ways to cut a word have equal scores, the other one is chosen",
        )
    head = u8(UNIGRAM) + u32(len(pieces), unk) + u8(model.byte_fallback)
    entries = (
        string(pieces[i]) + struct.pack("<Id", i, scores[i]) for i in sorted_ids(spec, pieces)
    )
    return head + b"".join(entries)


def _correct_scores(
    spec: TokenizerSpec, pieces: list[bytes], scores: list[float], unk: int, lowest: float
) -> None:
    """Set scores so that the loader's lattice finds what the model finds.

    It reads the cost of an unknown character from the unknown token, and takes byte tokens for
    pieces: the first byte of a character carries its whole cost, the others none. Pieces that the
    model never makes cost more than any text.
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
                    losses.add(
                        "ids-possible",
                        MODEL,
                        "MNN counts the longest word in bytes, not in characters",
                    )
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
    head = u8(WORD_PIECE) + u32(len(pieces)) + string(text) + string(prefix) + u32(longest)
    return head + _entries(spec, pieces)
