"""Decoding of trained subword models: the ``Subwords`` and ``AfterBos`` decoders.

Both take ids, since the role of a token decides what it gives.

Source: google/sentencepiece, sentencepiece_processor.cc (``Decode``); karpathy/llama2.c, run.c
(``decode``).
"""

from __future__ import annotations

from mtkit.errors import UsageError
from mtkit.pipeline.models.words import BYTE_PIECES, character_size
from mtkit.spec import TokenType
from mtkit.spec.decoders import AfterBos, Subwords

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from mtkit.spec import TokenizerSpec

MARK = "\u2581".encode()
REPLACEMENT = "\ufffd".encode()
HEX = b"0123456789abcdefABCDEF"


def decode(spec: TokenizerSpec, ids: Iterable[int], *, skip_special_tokens: bool = True) -> bytes:
    """Decode a sequence with a decoder of this module.

    Raises:
        UsageError: An id is not in the vocabulary.
    """
    ids = list(ids)
    for token_id in ids:
        if not 0 <= token_id < len(spec.vocabulary):
            raise UsageError(
                f"is {token_id}, the vocabulary has the ids 0 to {len(spec.vocabulary) - 1}",
                field="id",
            )
    if isinstance(spec.decoder, AfterBos):
        return decode_after_bos(spec, ids, skip_special_tokens=skip_special_tokens)
    assert isinstance(spec.decoder, Subwords)
    return decode_subwords(spec, spec.decoder, ids)


def decode_subwords(spec: TokenizerSpec, decoder: Subwords, ids: Sequence[int]) -> bytes:
    """Join pieces; control pieces are never shown."""
    vocabulary = spec.vocabulary
    byte_of = {piece: byte for byte, piece in enumerate(BYTE_PIECES)}
    text = bytearray()
    waiting = bytearray()
    seen_mark = False
    drops = decoder.drop_marks != "none"
    for token_id in ids:
        piece, kind = vocabulary.pieces[token_id], vocabulary.type_of(token_id)
        if kind == TokenType.BYTE and piece in byte_of:
            waiting.append(byte_of[piece])
            continue
        text += spell_bytes(bytes(waiting))
        waiting.clear()
        drops = drops and not text and not seen_mark
        if kind == TokenType.CONTROL:
            continue
        if kind == TokenType.UNKNOWN:
            text += decoder.unk_surface
            continue
        if drops and piece.startswith(MARK):
            piece = piece[len(MARK) :]
            seen_mark = decoder.drop_marks == "first"
        text += piece.replace(MARK, b" ")
    text += spell_bytes(bytes(waiting))
    if decoder.denormalizer is None:
        return bytes(text)
    from mtkit.pipeline.normalizers.aligned import Aligned
    from mtkit.pipeline.normalizers.spaces import compile_spaces

    aligned = Aligned.of(text.decode("utf-8", "surrogateescape"))
    compile_spaces(decoder.denormalizer, ())(aligned)
    return aligned.text.encode("utf-8", "surrogateescape")


def spell_bytes(data: bytes) -> bytes:
    """Keep well-formed UTF-8, write U+FFFD for each other byte."""
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    else:
        return data
    out = bytearray()
    at = 0
    while at < len(data):
        part = data[at : at + character_size(data[at])]
        try:
            part.decode("utf-8")
        except UnicodeDecodeError:
            part = data[at : at + 1]
            out += REPLACEMENT
        else:
            out += part
        at += len(part)
    return bytes(out)


def decode_after_bos(
    spec: TokenizerSpec, ids: Sequence[int], *, skip_special_tokens: bool
) -> bytes:
    """Join pieces as the reference prints them one by one."""
    vocabulary, bos = spec.vocabulary, spec.special_ids.bos
    text = bytearray()
    previous: int | None = None
    for position, token_id in enumerate(ids):
        piece = vocabulary.pieces[token_id]
        hidden = skip_special_tokens and vocabulary.type_of(token_id) == TokenType.CONTROL
        if not hidden and not (position == 0 and token_id == bos):
            if previous is not None and previous == bos and piece[:1] == b" ":
                piece = piece[1:]
            text += scan_byte(piece)
        previous = token_id
    return bytes(text)


def scan_byte(piece: bytes) -> bytes:
    """Return the byte that a piece begins to spell, else the piece.

    The reference's scanf is content with ``<0x`` and one or two digits of either case, white space
    between allowed, whatever follows. It prints a C string: byte 0 gives nothing.
    """
    if not piece.startswith(b"<0x"):
        return piece
    rest = piece[3:].lstrip(b" \t\n\v\f\r")
    digits = rest[:2] if rest[1:2] and rest[1] in HEX else rest[:1]
    if not digits or digits[0] not in HEX:
        return piece
    return bytes((int(digits, 16),)).strip(b"\0")
