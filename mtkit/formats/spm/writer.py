"""Writing a model message from a specification that sentencepiece's own components describe.

Settings that a file had are taken as they were and only changed where the specification says
something else; so what was read is written back byte for byte.

Source: google/sentencepiece, sentencepiece_model.proto.
"""

from __future__ import annotations

from mtkit.errors import FormatError
from mtkit.formats.spm.pieces import BPE, CHAR, UNIGRAM, WORD, write_pieces
from mtkit.formats.spm.wire import Settings, field, join
from mtkit.spec import TokenType
from mtkit.spec.decoders import Subwords
from mtkit.spec.models import Characters, ScoreBPE, Unigram, Words
from mtkit.spec.normalizers import Spaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import TypedDict

    from mtkit.spec import TokenizerSpec, Vocabulary

    class Roles(TypedDict, total=False):
        """Ids with a role, those that there are."""

        bos: int
        eos: int
        pad: int


KEPT = "spm"
MESSAGES = {
    2: "trainer_spec",
    3: "normalizer_spec",
    4: "self_test_data",
    5: "denormalizer_spec",
}
MODEL_TYPES: dict[type, int] = {Unigram: UNIGRAM, ScoreBPE: BPE, Words: WORD, Characters: CHAR}
UNK_SURFACE = " \u2047 ".encode()
ROLES = (("bos", 46, 41, b"<s>"), ("eos", 47, 42, b"</s>"), ("pad", 48, 43, b"<pad>"))
"""Role, fields of trainer_spec for its piece and its id, default of the piece."""


def write_model(spec: TokenizerSpec) -> bytes:
    """Return the whole file."""
    kept = _kept(spec)
    parts = [*write_pieces(spec.vocabulary, kept)]
    parts += [field(number, data) for number, data in messages(spec, kept).items()]
    parts.append(bytes.fromhex(str(kept.get("fields") or "")))
    return join(parts)


def _kept(spec: TokenizerSpec) -> dict[str, object]:
    """Return what a file had besides the specification, as JSON values.

    Raises:
        FormatError: It is not as the reader keeps it.
    """
    found = dict(spec.extras).get(KEPT)
    if not isinstance(found, dict):
        return {}
    for name, value in found.items():
        check = {
            "no_score": _are_ranges,
            "plain_type": _are_ranges,
            "piece_fields": _are_fields,
        }.get(name, _is_hexadecimal)
        if not check(value, len(spec.vocabulary)):
            raise FormatError("is not as a file has it", field=f"extras.{KEPT}.{name}")
    return found


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
    """Whether a value is bytes in hexadecimal, or None for a message that is not there."""
    if not isinstance(value, str):
        return value is None
    try:
        bytes.fromhex(value)
    except ValueError:
        return False
    return True


def messages(spec: TokenizerSpec, kept: dict[str, object]) -> dict[int, bytes]:
    """Return the messages behind the pieces by number, those that there are.

    Args:
        spec: The specification.
        kept: Message name -> what a file had, in hex, or None where it had none.
    """
    given: dict[int, bytes | None] = {}
    for number, name in MESSAGES.items():
        data = kept.get(name)
        given[number] = bytes.fromhex(data) if isinstance(data, str) else None
    made: dict[int, bytes] = {}
    trainer = Settings(given[2] or b"", MESSAGES[2])
    set_trainer(trainer, spec, new=MESSAGES[2] not in kept)
    normalizer = Settings(given[3] or b"", MESSAGES[3])
    assert isinstance(spec.normalizer, Spaces)
    set_spaces(normalizer, spec.normalizer, new=MESSAGES[3] not in kept)
    for number, settings in ((2, trainer), (3, normalizer)):
        data_bytes = settings.message()
        if data_bytes or given[number] is not None or MESSAGES[number] not in kept:
            made[number] = data_bytes
    if given[4] is not None:
        made[4] = given[4]
    denormalizer = spec.decoder.denormalizer if isinstance(spec.decoder, Subwords) else None
    if given[5] is not None:
        made[5] = given[5]
    elif denormalizer is not None:
        settings = Settings(b"", MESSAGES[5])
        set_spaces(settings, denormalizer, new=True)
        made[5] = settings.message()
    return made


def set_trainer(settings: Settings, spec: TokenizerSpec, *, new: bool) -> None:
    """Bring the trainer's settings in line with the specification."""
    kind = MODEL_TYPES[type(spec.model)]
    byte_fallback = bool(getattr(spec.model, "byte_fallback", False))
    normalizer = spec.normalizer
    suffix = isinstance(normalizer, Spaces) and normalizer.suffix
    known = settings.number(3, UNIGRAM)
    if (known if known in MODEL_TYPES.values() else UNIGRAM) != kind:
        settings.set(3, kind)
    if new:
        settings.set(4, len(spec.vocabulary))
    for number, value in ((24, suffix), (35, byte_fallback)):
        if settings.truth(number, False) != value:
            settings.set(number, int(value))
    surface = spec.decoder.unk_surface if isinstance(spec.decoder, Subwords) else UNK_SURFACE
    if settings.data(44, UNK_SURFACE) != surface:
        settings.set(44, surface)
    found = find_roles(spec.vocabulary, settings)
    for role, piece_number, id_number, _ in ROLES:
        token_id = getattr(spec.special_ids, role)
        if token_id is None or found.get(role) == token_id:
            continue
        if token_id >= len(spec.vocabulary):
            continue  # the role is lost, which the comparison with what is read back lists
        if spec.vocabulary.type_of(token_id) == TokenType.CONTROL:
            settings.set(piece_number, spec.vocabulary.pieces[token_id])
            settings.set(id_number, token_id)


def set_spaces(settings: Settings, spaces: Spaces, *, new: bool) -> None:
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


def find_roles(vocabulary: Vocabulary, trainer: Settings) -> Roles:
    """Return the ids with a role: control pieces spelled as the trainer notes."""
    found: Roles = {}
    spelled = [(role, trainer.data(number) or spelling) for role, number, _, spelling in ROLES]
    pieces, types = vocabulary.pieces, vocabulary.types or ()
    places = pieces.places(text for _, text in spelled)
    control = {
        pieces[token_id]: token_id for token_id in places if types[token_id] == TokenType.CONTROL
    }
    for role, text in spelled:
        if text in control:
            found[role] = control[text]  # type: ignore[literal-required]  # of ROLES
    return found
