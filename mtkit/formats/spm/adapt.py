"""From any specification to one that a SentencePiece model can hold, and what is lost on the way.

Source: google/sentencepiece: what its normalizer, models and decoder do.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import UnsupportedError
from mtkit.formats.contract import Loss
from mtkit.formats.spm.writer import MODEL_TYPES
from mtkit.spec import TokenType, Vocabulary, replace
from mtkit.spec.decoders import AfterBos
from mtkit.spec.marks import near_space_rule, space_rule
from mtkit.spec.model_names import model_name
from mtkit.spec.models import BPE, Characters, ScoreBPE, Unigram, Words
from mtkit.spec.normalizers import Spaces
from mtkit.spec.scores import score_form
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import BYTE_TOKENS, SEGMENTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from mtkit.formats.contract import LossCode
    from mtkit.formats.remainder import Rule
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.models import Model


def adapt(spec: TokenizerSpec) -> TokenizerSpec:
    """Replace components by those that the format has.

    Raises:
        UnsupportedError: The format has no such model or vocabulary.
    """
    if isinstance(spec.model, BPE):
        if space_rule(spec) is None:
            raise UnsupportedError(
                "SentencePiece cannot split a text before it merges", field="model"
            )
        spec = score_form(spec)
    if type(spec.model) not in MODEL_TYPES:
        raise UnsupportedError(
            "SentencePiece supports Unigram, BPE by score, char and word models, not "
            f"{model_name(spec.model)}",
            field="model",
        )
    near = near_space_rule(spec)
    rule = space_rule(spec) or (near[0] if near else Spaces())
    vocabulary = typed(spec)
    if isinstance(spec.decoder, AfterBos):
        vocabulary = marked(vocabulary)
        rule = replace(rule, escape_whitespaces=True)
    rule = replace(rule, keep="pieces", prefix="text")
    unk = next(i for i, kind in enumerate(vocabulary.types or ()) if kind == TokenType.UNKNOWN)
    return replace(
        spec,
        vocabulary=vocabulary,
        normalizer=rule,
        pre_tokenizer=None,
        model=plain_model(spec.model, unk),
    )


def plain_model(model: Model, unk: int) -> Model:
    """Return a model with the switches that the format means."""
    byte_fallback = bool(getattr(model, "byte_fallback", False))
    if isinstance(model, ScoreBPE):
        return ScoreBPE(unk=unk, byte_fallback=byte_fallback)
    if isinstance(model, Unigram):
        return Unigram(
            unk=unk,
            byte_fallback=byte_fallback,
            candidates="used",
            user_defined="preferred",
            precision="f32",
            byte_places="last" if byte_fallback else "each",
        )
    assert isinstance(model, (Characters, Words))
    return model


def typed(spec: TokenizerSpec) -> Vocabulary:
    """Return the vocabulary with roles and float32 scores, added tokens beyond it included.

    Raises:
        UnsupportedError: It has holes or no unknown token.
    """
    vocabulary = spec.vocabulary
    size = spec.vocab_size
    pieces = list(vocabulary.pieces) + [b""] * (size - len(vocabulary))
    types = list(vocabulary.all_types())
    types += [TokenType.ABSENT] * (size - len(types))
    scores = [0.0] * size
    if vocabulary.scores is not None:
        scores[: len(vocabulary)] = vocabulary.scores
    for token in spec.added_tokens.tokens:
        if types[token.id] in {TokenType.NORMAL, TokenType.ABSENT}:
            pieces[token.id] = token.content
            types[token.id] = TokenType.CONTROL if token.special else TokenType.USER_DEFINED
    if getattr(spec.model, "byte_fallback", False):
        spelled = frozenset(BYTE_TOKENS)
        for token_id, piece in enumerate(pieces):
            if piece in spelled:
                types[token_id] = TokenType.BYTE
    unk = spec.special_ids.unk
    if unk is None or unk >= len(types):
        unk = getattr(spec.model, "unk", None)
    if TokenType.UNKNOWN not in types:
        if unk is None:
            raise UnsupportedError(
                "has no unknown token, the format wants one", field="vocabulary.types"
            )
        types[unk] = TokenType.UNKNOWN
    # Other numbers than the format's own are ordinary to its reader.
    types = [TokenType.NORMAL if kind == TokenType.UNDEFINED else kind for kind in types]
    if TokenType.ABSENT in types:
        raise UnsupportedError(
            f"has no token {types.index(TokenType.ABSENT)}, but the format numbers pieces by place",
            field="vocabulary",
        )
    return Vocabulary(Pieces.of(pieces), Numbers("B", bytes(types)), Numbers.of("f", scores))


def marked(vocabulary: Vocabulary) -> Vocabulary:
    """Write U+2581 for plain spaces, and control pieces without the newlines around them."""
    space, mark = b" ", MARK_BYTES
    pieces = []
    for piece, kind in zip(vocabulary.pieces, vocabulary.types or (), strict=True):
        if kind in SEGMENTED:
            pieces.append(piece.replace(space, mark))
        else:
            pieces.append(piece.strip(b"\n") or piece)
    return replace(vocabulary, pieces=Pieces.of(pieces))


def vocabulary_losses(spec: TokenizerSpec, back: TokenizerSpec) -> Iterator[Loss]:
    """Yield what is different in the vocabulary."""
    old, new = spec.vocabulary, back.vocabulary
    if old.pieces != new.pieces:
        yield Loss("ids-special", "vocabulary.pieces", "spaces in tokens are written as U+2581")
    if old.types != new.types:
        yield Loss("metadata", "vocabulary.types", "every token gets a SentencePiece type")
    if old.scores != new.scores:
        told = old.scores is None or list(old.scores) != list(new.scores or ())[: len(old)]
        yield Loss(
            "ids-possible" if told else "metadata",
            "vocabulary.scores",
            "scores are rounded to float32",
        )
    if old.hidden != new.hidden:
        yield Loss("ids-possible", "vocabulary.hidden", "hidden tokens can be produced")


def space_loss(name: str, spec: TokenizerSpec) -> Loss:
    """Return what is lost of normalizer or pre-tokenizer."""
    rule = space_rule(spec)
    if rule is None:
        near = near_space_rule(spec)
        if near and near[1]:
            return Loss("ids-possible", name, "extra white space is removed as sentencepiece does")
        return Loss("ids", name, "text is not normalized or split in the same way")
    if rule.keep != "pieces" or rule.prefix != "text":
        return Loss(
            "ids-possible", name, "spaces and user-defined tokens follow sentencepiece's rules"
        )
    return Loss("ids-special", name, "U+2581 counts as a space, and invalid UTF-8 becomes U+FFFD")


def added_loss(spec: TokenizerSpec) -> Loss:
    """Return what is lost of the added tokens, or of how none are looked for."""
    code: LossCode = "ids-special" if spec.added_tokens.tokens else "metadata"
    return Loss(
        code, "added_tokens", "special tokens that are spelled out in a text are plain text"
    )


RULES: Mapping[str, Rule] = {
    "vocabulary": vocabulary_losses,
    "model": ("ids-possible", "words are cut into tokens by sentencepiece's own code"),
    "normalizer": lambda spec, _: [space_loss("normalizer", spec)],
    "pre_tokenizer": lambda spec, _: [space_loss("pre_tokenizer", spec)],
    "post_processor": ("metadata", "encoding adds no special tokens; add BOS and EOS yourself"),
    "decoder": ("decoding", "spaces in decoded text follow sentencepiece's rules"),
    "added_tokens": lambda spec, _: [added_loss(spec)],
    "special_ids": ("metadata", "only UNK, BOS, EOS and PAD are kept as special tokens"),
    "invalid_utf8": ("ids-special", "each byte that is not valid UTF-8 becomes U+FFFD"),
    "extras": ("metadata", "settings of other formats, and training settings, are not kept"),
}
"""What it means that a field does not come back."""
