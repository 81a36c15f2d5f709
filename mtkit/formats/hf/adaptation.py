"""From any specification to one of the components of tokenizer.json.

Each stage is replaced by the library's nearest components (``component_adaptation``), and every
field that changes is a loss. A specification of the library's own components passes unchanged.
SentencePiece models are converted as transformers does: merges from scores, U+2581 by Prepend and
Replace, control pieces as special added tokens.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.base.record import Record
from mtkit.errors import UnsupportedError, format_count
from mtkit.formats.contract import Losses
from mtkit.formats.hf.component_adaptation import (
    adapt_decoder,
    adapt_model,
    adapt_normalizer,
    adapt_pre_tokenizer,
    keeps_user_defined,
    nearest_component,
    unigram_scores,
)
from mtkit.formats.hf.config import adapt_extras
from mtkit.formats.hf.numbers import spell_floats
from mtkit.formats.json_fields import format_value
from mtkit.formats.tokenizer_config import ROLES
from mtkit.spec import (
    AddedToken,
    AddedTokens,
    SpecialIds,
    TokenizerSpec,
    TokenType,
    Vocabulary,
    models,
    replace,
)
from mtkit.spec.decoders import Fuse
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import is_sparse

TYPE_CHECKING = False
if TYPE_CHECKING:
    from mtkit.formats.contract import Loss


class Adaptation(Record):
    """A specification of the library's components, its scores as text, and the losses."""

    spec: TokenizerSpec
    scores: list[str]
    losses: tuple[Loss, ...] = ()


def adapt_spec(spec: TokenizerSpec) -> Adaptation:
    """Adapt a specification."""
    losses = Losses()
    vocabulary = _vocabulary(spec, losses)
    scores, off = spell_floats(vocabulary.scores or ())
    if off:
        effect = f"{format_count(off, 'score')} cannot be written exactly"
        losses.add("ids-possible", "vocabulary.scores", effect)
    special_ids = _special_ids(spec, losses)
    changes = {
        "vocabulary": vocabulary,
        "model": adapt_model(spec, vocabulary, losses.add),
        "normalizer": adapt_normalizer(spec, losses.add),
        "pre_tokenizer": adapt_pre_tokenizer(spec, losses.add),
        "post_processor": nearest_component(spec.post_processor, "post_processor", losses.add),
        "decoder": _decoder(spec, losses),
        "added_tokens": _added_tokens(spec, losses),
        "special_ids": special_ids,
        "extras": adapt_extras(spec, special_ids, losses.add),
        "invalid_utf8": "error",
        "clean_up_spaces": "none" if spec.clean_up_spaces == "none" else "on_request",
        "join": " ",
        "prefix_ids": (),
    }
    if spec.invalid_utf8 != "error":
        losses.add("ids-special", "invalid_utf8", "text that is not valid UTF-8 cannot be encoded")
    if spec.clean_up_spaces not in ("none", "on_request"):
        effect = "decoding keeps spaces unless the caller asks for cleanup"
        losses.add("decoding", "clean_up_spaces", effect)
    if spec.prefix_ids:
        effect = "tokens before every text are added by the post-processor"
        losses.add("ids-special", "prefix_ids", effect)
    adapted = _check_numbers(replace(spec, **changes), losses)
    return Adaptation(adapted, scores, tuple(losses))


def _vocabulary(spec: TokenizerSpec, losses: Losses) -> Vocabulary:
    """Return the vocabulary without what JSON cannot hold: types, equal pieces, most scores."""
    vocabulary = spec.vocabulary
    unigram = isinstance(spec.model, (models.Unigram, models.LatticeUnigram))
    scores = unigram_scores(spec) if unigram else None
    if vocabulary.scores is not None and not unigram:
        effect = "scores are replaced by the order of the merges; no text changes"
        losses.add("metadata", "vocabulary.scores", effect)
    kinds = vocabulary.types.view.tolist() if vocabulary.types is not None else []
    if set(kinds) - {TokenType.NORMAL, TokenType.ABSENT}:
        losses.add("metadata", "vocabulary.types", "token types (control, byte …) are not kept")
    absent = {number for number, kind in enumerate(kinds) if kind == TokenType.ABSENT}
    pieces = vocabulary.pieces
    if unigram:
        if absent:
            raise UnsupportedError("a Unigram vocabulary of this format cannot have holes")
        if scores != vocabulary.scores:
            effect = "the scores of user-defined tokens are written as they are used"
            losses.add("metadata", "vocabulary.scores", effect)
        return Vocabulary(pieces, scores=scores)
    duplicates = set(vocabulary.hidden)
    if len(pieces) != len(pieces.ids) + max(len(absent) - 1, 0) or duplicates:
        ids = vocabulary.ids
        duplicates |= {i for i, p in enumerate(pieces) if ids.get(p) != i and i not in absent}
    if duplicates:
        effect = f"left out: {format_count(len(duplicates), 'doubled token')}"
        losses.add("decoding", "vocabulary.pieces", effect)
        losses.add("metadata", "vocabulary.hidden", "hidden tokens are left out")
        absent |= duplicates
        pieces = Pieces.of(b"" if i in absent else p for i, p in enumerate(pieces))
    size = len(pieces)
    while size - 1 in absent:  # the format has no place for holes behind the last token
        size -= 1
        losses.add("metadata", "vocabulary.types", "unused ids at the end are not written")
    if size != len(pieces):
        pieces = Pieces.of(pieces[:size])
    also = vocabulary.also
    if not absent & set(range(size)):
        return Vocabulary(pieces, also=also)
    types = bytes(TokenType.ABSENT if i in absent else TokenType.NORMAL for i in range(size))
    return Vocabulary(pieces, Numbers("B", types), also=also)


def _decoder(spec: TokenizerSpec, losses: Losses) -> object:
    if spec.join != " " and spec.decoder is None:
        if spec.join:
            losses.add("decoding", "join", "decoded tokens are joined with spaces")
            return None
        effect = "joining tokens without spaces becomes a decoder; no text changes"
        losses.add("metadata", "decoder", effect)
        losses.add("metadata", "join", effect)
        return Fuse()
    if spec.join != " ":
        effect = "the separator between tokens is not kept; the decoder does not use it"
        losses.add("metadata", "join", effect)
    return adapt_decoder(spec, losses.add)


def _special_ids(spec: TokenizerSpec, losses: Losses) -> SpecialIds:
    source = spec.special_ids
    roles = SpecialIds(**{role: getattr(source, role) for role in ROLES}, stop=source.stop)
    if roles != source:
        effect = "only BOS, EOS, UNK, SEP, PAD, CLS and MASK are kept as special tokens"
        losses.add("metadata", "special_ids", effect)
    for role in ROLES:
        if (getattr(source, role) or 0) >= spec.vocab_size:
            effect = "the id of a special token that is not in the vocabulary is not kept"
            losses.add("metadata", f"special_ids.{role}", effect)
    unk = getattr(spec.model, "unk", None)
    if unk is not None and roles.unk != unk:
        losses.add("metadata", "special_ids.unk", "UNK becomes the unknown token of the model")
        return replace(roles, unk=unk)
    return roles


def _added_tokens(spec: TokenizerSpec, losses: Losses) -> AddedTokens:
    """Collect the added tokens: those of the source and its control and user-defined pieces."""
    source = spec.added_tokens
    tokens = list(source.first.tokens if source.first else ()) + list(source.tokens)
    effect = "special tokens in a text are found by the tokenizers library's rules"
    if replace(source, tokens=()) != AddedTokens():
        losses.add("ids-special", "added_tokens", effect)
    contents = {token.content for token in tokens}
    for token in _pieces_to_find(spec):
        if token.content not in contents:
            tokens.append(token)
            losses.add("ids-special", "added_tokens", effect)
    added: list[AddedToken] = []
    for token in tokens:
        try:
            token.content.decode("utf-8")
        except UnicodeDecodeError:
            losses.add("ids-special", "added_tokens", effect)
            continue
        if token.content:
            added.append(token)
        else:
            losses.add("metadata", "added_tokens", "added tokens without a text are not written")
    return AddedTokens(tuple(added))


def _pieces_to_find(spec: TokenizerSpec) -> list[AddedToken]:
    """Return the pieces that become added tokens.

    These are control pieces, and user-defined ones unless they stay with the model
    (``keeps_user_defined``).
    """
    types = spec.vocabulary.types
    if types is None:
        return []
    kinds = {TokenType.CONTROL: True, TokenType.UNKNOWN: True}
    if not keeps_user_defined(spec):
        kinds[TokenType.USER_DEFINED] = False
    tokens = []
    for number, kind in enumerate(types.view.tolist()):
        if kind in kinds:
            piece = spec.vocabulary.pieces[number]
            if kind == TokenType.USER_DEFINED and b" " in piece:
                continue  # never found: the text has U+2581 for its spaces
            marked = MARK_BYTES in piece
            tokens.append(AddedToken(number, piece, normalized=marked, special=kinds[kind]))
    return tokens


def _check_numbers(spec: TokenizerSpec, losses: Losses) -> TokenizerSpec:
    """Make sure that the library gives the added tokens their ids.

    It takes the vocabulary's id of the same text, else the next free one; a token with another id
    joins the vocabulary.
    """
    pieces = spec.vocabulary.pieces
    types = spec.vocabulary.types
    following = len(pieces) - (types.data.tobytes().count(TokenType.ABSENT) if types else 0)
    tokens = spec.added_tokens.tokens
    contents = {token.content for token in tokens}
    numbers = {piece: number for number, piece in enumerate(pieces) if piece in contents}
    newcomers: list[AddedToken] = []
    for token in tokens:
        if token.content in numbers:
            if numbers[token.content] != token.id:
                raise UnsupportedError(
                    f"the added token {format_value(token.content.decode())} has the id "
                    f"{token.id}, the vocabulary has it as {numbers[token.content]}"
                )
        elif token.id == following and not newcomers:
            numbers[token.content] = following
            following += 1
        else:
            newcomers.append(token)
    if not newcomers:
        return spec
    if isinstance(spec.model, models.Unigram):
        raise UnsupportedError("the ids of the added tokens leave holes")
    last = max(len(pieces), *(token.id + 1 for token in tokens))
    if min(token.id for token in tokens) < 0 or is_sparse(last, len(pieces) + len(tokens)):
        raise UnsupportedError("the ids of the added tokens are none that a vocabulary has")
    all_pieces = list(pieces) + [b""] * (last - len(pieces))
    kinds = bytearray(spec.vocabulary.all_types())
    kinds += bytes([TokenType.ABSENT]) * (last - len(pieces))
    for token in [t for t in tokens if t.id >= len(pieces) or t in newcomers]:
        if kinds[token.id] != TokenType.ABSENT:
            raise UnsupportedError(f"two tokens have the id {token.id}")
        all_pieces[token.id], kinds[token.id] = token.content, TokenType.NORMAL
    effect = "added tokens are written as vocabulary entries to keep their ids"
    losses.add("metadata", "vocabulary.pieces", effect)
    column = Numbers("B", kinds) if TokenType.ABSENT in kinds else None
    if column != types:
        losses.add("metadata", "vocabulary.types", "ids without a token stay unused")
    return replace(spec, vocabulary=Vocabulary(Pieces.of(all_pieces), column))
