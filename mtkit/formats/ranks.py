"""Ranked byte strings: a specification of them (tiktoken, tekken), and a merge list from ranks.

tiktoken and tekken files have a split pattern and a list of ranked byte strings. The list becomes a
vocabulary in the byte alphabet whose ids are ranks; two neighbors merge where their union is in the
list. Text is split by the pattern first, and special tokens in it are plain text by default.

A merge list for such a model has every cut of a token into two tokens, ordered by the token; of one
token, by the ids of the parts. Two overlapping cuts of one token can then merge in another order
than from the left.

Source: huggingface/transformers 5, convert_slow_tokenizer.py (``generate_merges``).
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Losses
from mtkit.formats.json_fields import encode_text
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    components_of,
    decoders,
    model_name,
    models,
    pre_tokenizers,
)
from mtkit.spec.models import Merges
from mtkit.spec.text import Regex
from mtkit.spec.vocabulary import is_sparse
from mtkit.unicode.utf8 import bytes_of_letters, letters_of_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from mtkit.formats.contract import Loss, LossRule


def merges_by_rank(vocabulary: Vocabulary, special: Collection[int]) -> Merges:
    """Return the merges that make every token but the special ones, the lowest id first."""
    usable = {
        piece: number
        for number, piece in enumerate(vocabulary.pieces)
        if piece and number not in special
    }
    return merges_by_cuts(usable.values(), usable)


def merges_by_cuts(results: Iterable[int], usable: Mapping[bytes, int]) -> Merges:
    """Return the merges with the given results, in their order.

    Args:
        usable: Piece -> id of the tokens that may be part or result of a merge.
    """
    pieces = {number: piece for piece, number in usable.items()}
    flat: list[int] = []
    for number in results:
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


RANK_RULES: Mapping[str, LossRule] = {"model": lambda *_: ()}
"""Of the model, ``ranks_of`` lists all losses."""
HIGHEST_RANK = 1 << 24
"""No vocabulary comes near; a higher rank is damage."""


def rank_vocabulary(ranks: Mapping[bytes, int]) -> Vocabulary:
    """Arrange byte strings by their ranks; an unused rank becomes an ABSENT piece."""
    size = max([*ranks.values(), -1]) + 1
    check_rank_gaps(size, len(ranks))
    pieces = [b""] * size
    types = bytearray([TokenType.ABSENT]) * size
    for piece, rank in ranks.items():
        if types[rank] != TokenType.ABSENT:
            raise FormatError(f"{rank} stands twice", field="rank")
        pieces[rank] = letters_of_bytes(piece).encode("utf-8")
        types[rank] = TokenType.NORMAL
    plain = len(ranks) == size
    return Vocabulary(Pieces.of(pieces), None if plain else Numbers("B", bytes(types)))


def check_rank_gaps(size: int, count: int) -> None:
    """Raise FormatError where ids below ``size`` are too many for ``count`` tokens."""
    if is_sparse(size, count):
        raise FormatError(f"is {size - 1}, but there are {count} tokens", field="rank")


def rank_spec(
    vocabulary: Vocabulary,
    pattern: str,
    special: Mapping[str, int],
    special_ids: SpecialIds,
    *,
    extras: tuple[tuple[str, object], ...] = (),
) -> TokenizerSpec:
    """Build the specification."""
    tokens = tuple(
        AddedToken(token_id, encode_text(text, "special token"), special=True)
        for text, token_id in sorted(special.items(), key=lambda item: item[1])
    )
    return TokenizerSpec(
        vocabulary,
        models.RankBPE(),
        pre_tokenizer=pre_tokenizers.Sequence(
            (
                pre_tokenizers.Split(fancy_regex(pattern)),
                pre_tokenizers.ByteLevel(
                    add_prefix_space=False, use_regex=False, trim_offsets=False
                ),
            )
        ),
        decoder=decoders.Pieces("byte_alphabet"),
        added_tokens=AddedTokens(tokens, parse_special=False),
        special_ids=special_ids,
        invalid_utf8="replace",
        extras=extras,
    )


def fancy_regex(pattern: str) -> Regex:
    """Return a pattern with the rules of Rust's fancy-regex, which tiktoken runs."""
    return Regex(pattern, word="joiners", anchors="text", case_folding="simple", counted="modified")


def ranks_of(spec: TokenizerSpec, what: str) -> tuple[dict[bytes, int], str, tuple[Loss, ...]]:
    """Return byte string -> rank, split pattern and losses of a byte-level specification."""
    losses = Losses()
    pattern, letters = _pattern_and_letters(spec, what)
    vocabulary = spec.vocabulary
    special = {token.id for token in spec.added_tokens.tokens}
    ranks: dict[bytes, int] = {}
    lost: list[int] = []
    for token_id, piece in enumerate(vocabulary.pieces):
        if token_id in special or vocabulary.type_of(token_id) is not TokenType.NORMAL:
            continue
        raw = bytes_of_letters(piece.decode("utf-8", "replace"))
        if raw is None or raw in ranks:
            lost.append(token_id)
        else:
            ranks[raw] = token_id
    if lost:
        effect = f"tokens that are not byte strings of their own: {len(lost)}, the first {lost[0]}"
        losses.add("decoding", "vocabulary", effect)
    if len(ranks) < 256 or any(bytes([byte]) not in ranks for byte in range(256)):
        raise UnsupportedError(f"{what} needs a token for each of the 256 bytes")
    if isinstance(spec.model, models.BPE):
        _check_merges(spec.model, ranks, vocabulary, losses)
    elif not isinstance(spec.model, models.RankBPE):
        raise UnsupportedError(f"{what} holds byte-level BPE, not {model_name(spec.model)}")
    if spec.normalizer is not None:
        losses.add("ids", "normalizer", f"{type(spec.normalizer).__name__} is skipped")
    if letters.add_prefix_space:
        losses.add("ids", "pre_tokenizer", "no space is added before a text")
    if pattern != fancy_regex(pattern.pattern):
        effect = "the split pattern runs in a different regex engine"
        losses.add("ids-possible", "pre_tokenizer", effect)
    return ranks, pattern.pattern, tuple(losses)


def _pattern_and_letters(spec: TokenizerSpec, what: str) -> tuple[Regex, pre_tokenizers.ByteLevel]:
    """Return the pattern of the only split, which keeps its matches, and the byte alphabet."""
    steps = list(components_of(spec.pre_tokenizer))
    letters = steps[-1] if steps else None
    if not isinstance(letters, pre_tokenizers.ByteLevel):
        raise UnsupportedError(f"{what} supports byte-level BPE only")
    if letters.use_regex and len(steps) == 1:
        return Regex(pre_tokenizers.BYTE_LEVEL_SPLIT), letters
    split = steps[0]
    if len(steps) != 2 or not isinstance(split, pre_tokenizers.Split) or letters.use_regex:
        raise UnsupportedError(f"{what} holds one split pattern, this tokenizer has more")
    if not isinstance(split.pattern, Regex) or split.behavior not in ("isolated", "removed"):
        raise UnsupportedError(f"{what} cannot hold this Split")
    if split.behavior == "removed" and not split.invert:
        raise UnsupportedError(f"{what} cannot drop what the pattern finds")
    return split.pattern, letters


def _check_merges(
    model: models.BPE, ranks: Mapping[bytes, int], vocabulary: Vocabulary, losses: Losses
) -> None:
    """Compare a merge list with what ranks by id would merge."""
    if model.unk is not None or model.continuing_subword_prefix or model.end_of_word_suffix:
        raise UnsupportedError("ranks cannot hold an unknown token, a prefix or a suffix")
    pieces, size = vocabulary.pieces, len(vocabulary)
    merges: dict[tuple[int, int], int] = {}
    last = -1
    for left, right in model.merges.pairs.pairs():
        if left >= size or right >= size:
            raise UnsupportedError("a merge has a part that is not a token")
        result = vocabulary.ids.get(pieces[left] + pieces[right], -1)
        if result < last:
            raise UnsupportedError("ids do not rise with the ranks of the merges")
        last = result
        merges[left, right] = result
    by_id = {token_id: raw for raw, token_id in ranks.items()}
    allowed = sum(
        raw[:cut] in ranks and raw[cut:] in ranks
        for raw in by_id.values()
        for cut in range(1, len(raw))
    )
    if allowed != len(merges):
        effect = (
            f"merging by rank allows {allowed:,} pairs, but the list of merges has {len(merges):,}"
        )
        losses.add("ids-possible", "model.merges", effect)
    elif not model.ignore_merges:
        effect = "a word that is itself a token is never split"
        losses.add("ids-possible", "model.ignore_merges", effect)
    elif len(set(merges.values())) < allowed:
        effect = "pairs with the same result merge from the left instead of in list order"
        losses.add("ids-possible", "model.merges", effect)
