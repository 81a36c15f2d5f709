"""Models as the base of a .mtok can hold them, over one dense vocabulary.

Every id has a place: holes get texts that no UTF-8 contains, added tokens beyond the vocabulary
get theirs. Where two ids have one text, the one that the model finds stands first, as the loader's
bisection takes it.
"""

from __future__ import annotations

import struct

from mtkit.formats.mtok.base_writer import STRING_LIMIT, string, u8, u32
from mtkit.formats.mtok.merges import merges_of
from mtkit.spec import TokenType, models
from mtkit.spec.model_names import model_name
from mtkit.spec.vocabulary import BYTE_TOKENS
from mtkit.unicode.byte_alphabet import to_letters

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.contract import Losses
    from mtkit.spec import TokenizerSpec

FIELD = "model"
BPE, WORD_PIECE, UNIGRAM = range(3)
LONGEST = 0x7FFFFFFF
NEVER = "\x00\x00"
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
    return _greedy(spec, pieces, losses)


def in_order(spec: TokenizerSpec, pieces: list[bytes]) -> list[int]:
    """Return the ids in the order of their texts, of equal ones the model's own first."""
    found = spec.vocabulary.ids
    keys = [(piece, found.get(piece) != token_id) for token_id, piece in enumerate(pieces)]
    return sorted(range(len(pieces)), key=keys.__getitem__)


def _entries(spec: TokenizerSpec, pieces: list[bytes]) -> bytes:
    return b"".join(string(pieces[i]) + i.to_bytes(4, "little") for i in in_order(spec, pieces))


def _bpe(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> bytes:
    model = spec.model
    found = spec.vocabulary.ids
    has_bytes = BYTE_TOKENS[0] in found
    if isinstance(model, models.BPE):
        if model.ignore_merges:
            losses.add(
                "ids-possible", FIELD, "a word that is itself a token can be split by the merges"
            )
        if model.end_of_word_suffix or model.continuing_subword_prefix:
            losses.add("ids", FIELD, "prefixes inside words are not added")
        if model.missing == "after":
            losses.add(
                "ids-possible", FIELD, "unknown characters become byte tokens before merging"
            )
        if model.whole_newlines:
            losses.add("ids-possible", FIELD, "runs of line breaks go through the merges")
    if isinstance(model, models.RankBPE):
        losses.add(
            "ids-possible", FIELD, "a word that is itself a token can be split by the merges"
        )
    unk = getattr(model, "unk", None)
    spelled = getattr(model, "byte_fallback", False) and all(text in found for text in BYTE_TOKENS)
    if unk is not None and not spelled and not _has_letters(found):
        losses.add(
            "ids-possible",
            FIELD,
            "characters without a token are dropped instead of becoming unknown",
        )
    table = sorted(merges_of(spec, pieces, losses))
    merges = b"".join(struct.pack("<III", *merge) for merge in table)
    head = u8(BPE) + u32(len(pieces)) + u8(has_bytes, 0) + u32(len(table))
    return head + _entries(spec, pieces) + merges


def _has_letters(found: dict[bytes, int]) -> bool:
    """Tell whether every byte has a letter that is a token, so that nothing is unknown."""
    return all(letter.encode() in found for letter in to_letters(bytes(range(256))))


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
        losses.add("ids-special", FIELD, "unknown characters get an id of their own")
    if isinstance(model, models.Unigram):
        lowest = min(given, default=0.0) - PENALTY
        _correct(spec, pieces, scores, unk, lowest)
        losses.add(
            "ids-possible",
            FIELD,
            "if two ways to cut a word have equal scores, the other one is chosen",
        )
    head = u8(UNIGRAM) + u32(len(pieces), unk) + u8(model.byte_fallback)
    entries = (string(pieces[i]) + struct.pack("<Id", i, scores[i]) for i in in_order(spec, pieces))
    return head + b"".join(entries)


def _correct(
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


def _greedy(spec: TokenizerSpec, pieces: list[bytes], losses: Losses) -> bytes:
    """Write greedy matching: WordPiece, whole words, and bytes without words."""
    model = spec.model
    prefix, longest = "", LONGEST
    unk = getattr(model, "unk", None)
    match model:
        case models.WordPiece():
            prefix = model.prefix
            if model.gap == "rest":
                losses.add("ids", FIELD, "a word with an unknown part becomes unknown as a whole")
            if model.restart:
                losses.add("ids-special", FIELD, f"a word does not begin again at {model.restart}")
            if model.max_chars is not None:
                longest = min(model.max_chars, LONGEST)
                if model.unit == "characters":
                    losses.add(
                        "ids-possible",
                        FIELD,
                        "MNN counts the longest word in bytes, not in characters",
                    )
        case models.WordLevel():
            prefix = NEVER
        case models.Words():
            prefix = NEVER
            losses.add("ids", FIELD, "text is not split before U+2581")
        case models.Trie():
            pass
        case _:
            losses.add("ids", FIELD, f"{model_name(model)} is replaced by longest match")
    text = pieces[unk] if unk is not None and 0 <= unk < len(pieces) else placeholder(len(pieces))
    if unk is None:
        losses.add("ids-special", FIELD, "a word without a token gets the id -1")
    head = u8(WORD_PIECE) + u32(len(pieces)) + string(text) + string(prefix) + u32(longest)
    return head + _entries(spec, pieces)
