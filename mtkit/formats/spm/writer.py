"""Writing a SentencePiece model: a specification adapted to what it can hold, and its message.

Settings of a file are only changed where the specification differs, so that a file that was read is
written back byte for byte.

Source: google/sentencepiece, sentencepiece_model.proto; its normalizer, models and decoder.
"""

from __future__ import annotations

from mtkit.base.packed import Numbers, Pieces
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Loss
from mtkit.formats.spm.message import (
    BPE_TYPE,
    CHAR_TYPE,
    UNIGRAM_TYPE,
    WORD_TYPE,
    SettingsMessage,
    encode_field,
    join_fields,
    write_pieces,
)
from mtkit.spec import TokenType, Vocabulary, model_name, replace
from mtkit.spec.decoders import AfterBos, Subwords
from mtkit.spec.models import BPE, Characters, ScoreBPE, Unigram, Words
from mtkit.spec.normalizers import Spaces
from mtkit.spec.scores import score_form
from mtkit.spec.spaces import near_space_rule, space_rule
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import BYTE_TOKENS, SEGMENTED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import TypedDict

    from mtkit.formats.contract import LossCode, LossRule
    from mtkit.spec import TokenizerSpec
    from mtkit.spec.models import Model

    class Roles(TypedDict, total=False):
        """Ids with a role."""

        bos: int
        eos: int
        pad: int


EXTRAS = "spm"
MESSAGES = {2: "trainer_spec", 3: "normalizer_spec", 4: "self_test_data", 5: "denormalizer_spec"}
MODEL_TYPES: dict[type, int] = {
    Unigram: UNIGRAM_TYPE,
    ScoreBPE: BPE_TYPE,
    Words: WORD_TYPE,
    Characters: CHAR_TYPE,
}
UNK_SURFACE = " \u2047 ".encode()
ROLES = (("bos", 46, 41, b"<s>"), ("eos", 47, 42, b"</s>"), ("pad", 48, 43, b"<pad>"))
"""Role, fields of trainer_spec for its piece and its id, default of the piece."""


def write_model(spec: TokenizerSpec) -> bytes:
    """Return the whole file."""
    extras = _extras_of(spec)
    parts = [*write_pieces(spec.vocabulary, extras)]
    parts += [
        encode_field(number, data) for number, data in settings_messages(spec, extras).items()
    ]
    parts.append(bytes.fromhex(str(extras.get("fields") or "")))
    return join_fields(parts)


def _extras_of(spec: TokenizerSpec) -> dict[str, object]:
    """Return the checked extras of a file: what the specification does not hold of it."""
    extras = dict(spec.extras).get(EXTRAS)
    if not isinstance(extras, dict):
        return {}
    for name, value in extras.items():
        check = {
            "no_score": _are_ranges,
            "plain_type": _are_ranges,
            "piece_fields": _are_fields,
        }.get(name, _is_hexadecimal)
        if not check(value, len(spec.vocabulary)):
            raise FormatError("is not as a file has it", field=f"extras.{EXTRAS}.{name}")
    return extras


def _are_ranges(value: object, size: int) -> bool:
    """Whether a value is ids as (first, behind the last) ranges."""
    return isinstance(value, (list, tuple)) and all(
        isinstance(pair, (list, tuple))
        and len(pair) == 2
        and all(isinstance(number, int) for number in pair)
        and 0 <= pair[0] <= pair[1] <= size
        for pair in value
    )


def _are_fields(value: object, size: int) -> bool:
    """Whether a value is (id, hexadecimal) of pieces."""
    return isinstance(value, (list, tuple)) and all(
        isinstance(pair, (list, tuple))
        and len(pair) == 2
        and isinstance(pair[0], int)
        and isinstance(pair[1], str)
        and _is_hexadecimal(pair[1], size)
        for pair in value
    )


def _is_hexadecimal(value: object, _: int) -> bool:
    """Whether a value is bytes in hexadecimal, or None for a missing message."""
    if not isinstance(value, str):
        return value is None
    try:
        bytes.fromhex(value)
    except ValueError:
        return False
    return True


def settings_messages(spec: TokenizerSpec, extras: dict[str, object]) -> dict[int, bytes]:
    """Return the messages behind the pieces by number.

    Args:
        extras: Message name -> that of a file, in hex, or None where it had none.
    """
    stored: dict[int, bytes | None] = {}
    for number, name in MESSAGES.items():
        data = extras.get(name)
        stored[number] = bytes.fromhex(data) if isinstance(data, str) else None
    messages: dict[int, bytes] = {}
    trainer = SettingsMessage(stored[2] or b"", MESSAGES[2])
    set_trainer(trainer, spec, new=MESSAGES[2] not in extras)
    normalizer = SettingsMessage(stored[3] or b"", MESSAGES[3])
    assert isinstance(spec.normalizer, Spaces)
    set_spaces(normalizer, spec.normalizer, new=MESSAGES[3] not in extras)
    for number, settings in ((2, trainer), (3, normalizer)):
        data_bytes = settings.message()
        if data_bytes or stored[number] is not None or MESSAGES[number] not in extras:
            messages[number] = data_bytes
    if stored[4] is not None:
        messages[4] = stored[4]
    denormalizer = spec.decoder.denormalizer if isinstance(spec.decoder, Subwords) else None
    if stored[5] is not None:
        messages[5] = stored[5]
    elif denormalizer is not None:
        settings = SettingsMessage(b"", MESSAGES[5])
        set_spaces(settings, denormalizer, new=True)
        messages[5] = settings.message()
    return messages


def set_trainer(settings: SettingsMessage, spec: TokenizerSpec, *, new: bool) -> None:
    """Bring the trainer's settings in line with the specification."""
    kind = MODEL_TYPES[type(spec.model)]
    byte_fallback = bool(getattr(spec.model, "byte_fallback", False))
    normalizer = spec.normalizer
    suffix = isinstance(normalizer, Spaces) and normalizer.suffix
    stored = settings.number(3, UNIGRAM_TYPE)
    if (stored if stored in MODEL_TYPES.values() else UNIGRAM_TYPE) != kind:
        settings.set(3, kind)
    if new:
        settings.set(4, len(spec.vocabulary))
    for number, value in ((24, suffix), (35, byte_fallback)):
        if settings.truth(number, False) != value:
            settings.set(number, int(value))
    surface = spec.decoder.unk_surface if isinstance(spec.decoder, Subwords) else UNK_SURFACE
    if settings.data(44, UNK_SURFACE) != surface:
        settings.set(44, surface)
    roles = find_roles(spec.vocabulary, settings)
    for role, piece_number, id_number, _ in ROLES:
        token_id = getattr(spec.special_ids, role)
        if token_id is None or roles.get(role) == token_id:
            continue
        if token_id >= len(spec.vocabulary):
            continue  # the role is lost, which the comparison with what is read back lists
        if spec.vocabulary.type_of(token_id) == TokenType.CONTROL:
            settings.set(piece_number, spec.vocabulary.pieces[token_id])
            settings.set(id_number, token_id)


def set_spaces(settings: SettingsMessage, spaces: Spaces, *, new: bool) -> None:
    """Bring a normalizer's settings in line with the specification."""
    if settings.data(2) != spaces.charsmap:
        settings.set(2, spaces.charsmap)
    values = (
        (3, spaces.add_dummy_prefix),
        (4, spaces.remove_extra_whitespaces),
        (5, spaces.escape_whitespaces),
    )
    for number, value in values:
        if new or settings.truth(number, True) != value:
            settings.set(number, int(value))


def find_roles(vocabulary: Vocabulary, trainer: SettingsMessage) -> Roles:
    """Return the ids with a role: control pieces with the spelling in trainer_spec."""
    roles: Roles = {}
    spellings = [(role, trainer.data(number) or spelling) for role, number, _, spelling in ROLES]
    pieces, types = vocabulary.pieces, vocabulary.types or ()
    places = pieces.places(text for _, text in spellings)
    control = {
        pieces[token_id]: token_id for token_id in places if types[token_id] == TokenType.CONTROL
    }
    for role, text in spellings:
        if text in control:
            roles[role] = control[text]  # type: ignore[literal-required]  # of ROLES
    return roles


def adapt_spec(spec: TokenizerSpec) -> TokenizerSpec:
    """Replace components by those that the format has."""
    if isinstance(spec.model, BPE):
        if space_rule(spec) is None:
            what = "SentencePiece cannot split a text before it merges"
            raise UnsupportedError(what, field="model")
        spec = score_form(spec)
    if type(spec.model) not in MODEL_TYPES:
        raise UnsupportedError(
            "SentencePiece supports Unigram, BPE by score, char and word models, not "
            f"{model_name(spec.model)}",
            field="model",
        )
    near = near_space_rule(spec)
    rule = space_rule(spec) or (near[0] if near else Spaces())
    vocabulary = _typed_vocabulary(spec)
    if isinstance(spec.decoder, AfterBos):
        vocabulary = _mark_spaces(vocabulary)
        rule = replace(rule, escape_whitespaces=True)
    rule = replace(rule, keep="pieces", prefix="text")
    unk = next(i for i, kind in enumerate(vocabulary.types or ()) if kind == TokenType.UNKNOWN)
    return replace(
        spec,
        vocabulary=vocabulary,
        normalizer=rule,
        pre_tokenizer=None,
        model=_plain_model(spec.model, unk),
    )


def _plain_model(model: Model, unk: int) -> Model:
    """Return a model with the switches that a file implies."""
    if isinstance(model, (Characters, Words)):
        return model
    byte_fallback = bool(getattr(model, "byte_fallback", False))
    return model_of_type(MODEL_TYPES[type(model)], unk, byte_fallback=byte_fallback)


def model_of_type(kind: int, unk: int, *, byte_fallback: bool) -> Model:
    """Return the model of a model_type."""
    if kind == BPE_TYPE:
        return ScoreBPE(unk=unk, byte_fallback=byte_fallback)
    if kind == WORD_TYPE:
        return Words(unk=unk, byte_fallback=byte_fallback)
    if kind == CHAR_TYPE:
        return Characters(unk=unk, byte_fallback=byte_fallback)
    return Unigram(
        unk=unk,
        byte_fallback=byte_fallback,
        candidates="used",
        user_defined="preferred",
        precision="f32",
        byte_places="last" if byte_fallback else "each",
    )


def _typed_vocabulary(spec: TokenizerSpec) -> Vocabulary:
    """Return the vocabulary with roles and float32 scores, added tokens beyond it included."""
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
        byte_tokens = frozenset(BYTE_TOKENS)
        for token_id, piece in enumerate(pieces):
            if piece in byte_tokens:
                types[token_id] = TokenType.BYTE
    unk = spec.special_ids.unk
    if unk is None or unk >= len(types):
        unk = getattr(spec.model, "unk", None)
    if TokenType.UNKNOWN not in types:
        if unk is None:
            what = "has no unknown token, the format wants one"
            raise UnsupportedError(what, field="vocabulary.types")
        types[unk] = TokenType.UNKNOWN
    # Other numbers than the format's own are ordinary to its reader.
    types = [TokenType.NORMAL if kind == TokenType.UNDEFINED else kind for kind in types]
    if TokenType.ABSENT in types:
        raise UnsupportedError(
            f"has no token {types.index(TokenType.ABSENT)}, but the format numbers pieces by place",
            field="vocabulary",
        )
    return Vocabulary(Pieces.of(pieces), Numbers("B", bytes(types)), Numbers.of("f", scores))


def _mark_spaces(vocabulary: Vocabulary) -> Vocabulary:
    """Write U+2581 for plain spaces, and control pieces without the newlines around them."""
    space, mark = b" ", MARK_BYTES
    pieces = []
    for piece, kind in zip(vocabulary.pieces, vocabulary.types or (), strict=True):
        if kind in SEGMENTED:
            pieces.append(piece.replace(space, mark))
        else:
            pieces.append(piece.strip(b"\n") or piece)
    return replace(vocabulary, pieces=Pieces.of(pieces))


def _vocabulary_losses(spec: TokenizerSpec, back: TokenizerSpec) -> Iterator[Loss]:
    old, new = spec.vocabulary, back.vocabulary
    if old.pieces != new.pieces:
        yield Loss("ids-special", "vocabulary.pieces", "spaces in tokens are written as U+2581")
    if old.types != new.types:
        yield Loss("metadata", "vocabulary.types", "every token gets a SentencePiece type")
    if old.scores != new.scores:
        has_other_values = (
            old.scores is None or list(old.scores) != list(new.scores or ())[: len(old)]
        )
        effect = "scores are rounded to float32"
        yield Loss("ids-possible" if has_other_values else "metadata", "vocabulary.scores", effect)
    if old.hidden != new.hidden:
        yield Loss("ids-possible", "vocabulary.hidden", "hidden tokens can be produced")


def _space_loss(name: str, spec: TokenizerSpec) -> Loss:
    """Return the loss of the normalizer or the pre-tokenizer."""
    rule = space_rule(spec)
    if rule is None:
        near = near_space_rule(spec)
        if near and near[1]:
            return Loss("ids-possible", name, "extra white space is removed as sentencepiece does")
        return Loss("ids", name, "text is not normalized or split in the same way")
    if rule.keep != "pieces" or rule.prefix != "text":
        effect = "spaces and user-defined tokens follow sentencepiece's rules"
        return Loss("ids-possible", name, effect)
    return Loss("ids-special", name, "U+2581 counts as a space, and invalid UTF-8 becomes U+FFFD")


def _added_token_loss(spec: TokenizerSpec) -> Loss:
    code: LossCode = "ids-special" if spec.added_tokens.tokens else "metadata"
    effect = "special tokens that are spelled out in a text are plain text"
    return Loss(code, "added_tokens", effect)


LOSS_RULES: Mapping[str, LossRule] = {
    "vocabulary": _vocabulary_losses,
    "model": ("ids-possible", "words are cut into tokens by sentencepiece's own code"),
    "normalizer": lambda spec, _: [_space_loss("normalizer", spec)],
    "pre_tokenizer": lambda spec, _: [_space_loss("pre_tokenizer", spec)],
    "post_processor": ("metadata", "encoding adds no special tokens; add BOS and EOS yourself"),
    "decoder": ("decoding", "spaces in decoded text follow sentencepiece's rules"),
    "added_tokens": lambda spec, _: [_added_token_loss(spec)],
    "special_ids": ("metadata", "only UNK, BOS, EOS and PAD are kept as special tokens"),
    "invalid_utf8": ("ids-special", "each byte that is not valid UTF-8 becomes U+FFFD"),
    "extras": ("metadata", "settings of other formats, and training settings, are not kept"),
}
"""Field -> its loss, where it does not come back."""
