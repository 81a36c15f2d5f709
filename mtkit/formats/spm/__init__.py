"""SentencePiece ``tokenizer.model``: a protocol-buffer message.

ModelProto: pieces (1, repeated), trainer_spec (2), normalizer_spec (3), self_test_data (4),
denormalizer_spec (5). The settings' other fields, the self-test and unknown fields are kept in the
extras, so that a file is written back byte for byte. Encoding adds no special tokens and finds none
in the text: the spelling of a control piece is ordinary text.

Source: google/sentencepiece 0.2, sentencepiece_model.proto; sentencepiece_processor.cc.
"""

from __future__ import annotations

from mtkit.base.binary import Source
from mtkit.errors import FormatError, UnsupportedError
from mtkit.formats.contract import Reading, Written, losses_between
from mtkit.formats.spm.message import (
    BPE_TYPE,
    BYTES,
    CHAR_TYPE,
    UNIGRAM_TYPE,
    WORD_TYPE,
    SettingsMessage,
    check_native_pieces,
    check_pieces,
    damage_error,
    parse_fields,
    read_native_pieces,
    read_pieces,
)
from mtkit.formats.spm.writer import (
    LOSS_RULES,
    MESSAGES,
    UNK_SURFACE,
    adapt_spec,
    find_roles,
    model_of_type,
    settings_messages,
    write_model,
)
from mtkit.spec import AddedTokens, SpecialIds, TokenizerSpec, replace
from mtkit.spec.decoders import Subwords
from mtkit.spec.normalizers import Spaces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Literal

    from mtkit.formats.contract import WriteOptions
    from mtkit.formats.spm.message import Field

NAME = "spm"
TITLE = "SentencePiece model (tokenizer.model)"

TRIE_BLOCK = 1024
"""The trie of a character map comes in blocks of so many bytes."""


def sniff(source: Source) -> bool:
    """Tell by the first piece: a message that begins with a string and goes on with its score."""
    head = bytes(source.data[:512])
    if head[:1] != b"\x0a":
        return False
    try:
        first = next(parse_fields(head, "pieces[0]"))
        part = next(parse_fields(first.data, "piece"))
    except (FormatError, StopIteration):
        return False
    behind = first.data[len(part.raw) :][:1]
    return part.number == 1 and part.wire == BYTES and behind in {b"", b"\x15", b"\x18"}


def read(source: Source, overrides: Mapping[str, object]) -> Reading:
    """Read a model.

    Raises:
        FormatError: The file is damaged, or the reference would refuse it.
    """
    pieces: list[Field] = []
    parts: dict[int, bytes] = {}
    rest = b""
    packed = read_native_pieces(source.data)
    for part in parse_fields(packed[2] if packed else bytes(source.data), "model"):
        if part.wire != BYTES or not 1 <= part.number <= 5:
            rest += part.raw
        elif part.number == 1:
            pieces.append(part)
        else:  # protocol buffers merge repeated messages, which joining the bytes does
            parts[part.number] = parts.get(part.number, b"") + part.data
    vocabulary, odd = packed[:2] if packed else read_pieces(pieces)
    trainer = SettingsMessage(parts.get(2, b""), "trainer_spec")
    normalizer = SettingsMessage(parts.get(3, b""), "normalizer_spec")
    byte_fallback = trainer.truth(35, False)
    kind = trainer.number(3, UNIGRAM_TYPE)
    kind = kind if kind in {BPE_TYPE, WORD_TYPE, CHAR_TYPE} else UNIGRAM_TYPE
    check = check_native_pieces if packed else check_pieces
    unk = check(vocabulary, byte_fallback=byte_fallback, kind_of_model=kind)
    spaces = read_spaces(normalizer, suffix=trainer.truth(24, False))
    denormalizer = None
    if 5 in parts:
        spaces_back = read_spaces(SettingsMessage(parts[5], "denormalizer_spec"), suffix=False)
        denormalizer = spaces_back if spaces_back.charsmap else None
    leading: Literal["all", "first", "none"] = "all" if spaces.remove_extra_whitespaces else "none"
    if leading == "none" and spaces.add_dummy_prefix:
        leading = "first"
    spec = TokenizerSpec(
        vocabulary,
        model_of_type(kind, unk, byte_fallback=byte_fallback),
        normalizer=spaces,
        decoder=Subwords(
            unk_surface=trainer.data(44, UNK_SURFACE), drop_marks=leading, denormalizer=denormalizer
        ),
        added_tokens=AddedTokens(parse_special=False),
        special_ids=SpecialIds(unk=unk, **find_roles(vocabulary, trainer)),
        invalid_utf8="keep",
    )
    extras = {**unusual_messages(spec, parts, rest), **odd}
    return Reading(replace(spec, extras=((NAME, extras),)) if extras else spec)


def unusual_messages(
    spec: TokenizerSpec, parts: dict[int, bytes], rest: bytes
) -> dict[str, object]:
    """Return the messages, in hex, that differ from what the writer makes of the specification.

    The character map is left out of the normalizer's settings: the specification has it.
    """
    usual = settings_messages(spec, {})
    messages: dict[str, object] = {"fields": rest.hex()} if rest else {}
    for number, name in MESSAGES.items():
        data = parts.get(number)
        if data == usual.get(number):
            continue
        if number == 3 and data is not None:
            settings = SettingsMessage(data, name)
            if settings.data(2):
                settings.remove(2)
            data = settings.message()
        messages[name] = None if data is None else data.hex()
    return messages


def write(spec: TokenizerSpec, options: WriteOptions) -> Written:
    """Write a model."""
    adapted = adapt_spec(spec)
    try:
        data = write_model(adapted)
        back = read(Source("", data), {}).spec
    except FormatError as error:
        raise UnsupportedError(error.what, field=error.field) from None
    return Written({".model": data}, losses_between(spec, back, rules=LOSS_RULES))


def read_spaces(settings: SettingsMessage, *, suffix: bool) -> Spaces:
    """Return the normalizer of a NormalizerSpec."""
    charsmap = settings.data(2)
    if charsmap:
        size = int.from_bytes(charsmap[:4], "little")
        if len(charsmap) <= 4 or size >= len(charsmap) or not size or size % TRIE_BLOCK:
            left = max(len(charsmap) - 4, 0)
            what = f"says its trie has {size} bytes, but {left} follow, the replacements included"
            raise damage_error(what if size else "its trie is empty", "precompiled_charsmap", 0)
    return Spaces(
        charsmap=charsmap,
        add_dummy_prefix=settings.truth(3, True),
        remove_extra_whitespaces=settings.truth(4, True),
        escape_whitespaces=settings.truth(5, True),
        suffix=suffix,
    )
