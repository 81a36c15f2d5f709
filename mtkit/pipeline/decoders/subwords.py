"""Decoding of trained subword models: the ``Subwords`` and ``AfterBos`` decoders.

Both take ids, since the role of a token decides what it gives, one by one: a whole sequence is a
stream that has ended.

Source: google/sentencepiece, sentencepiece_processor.cc (``Decode``); karpathy/llama2.c, run.c
(``decode``).
"""

from __future__ import annotations

from codecs import utf_8_decode

from mtkit.errors import UsageError
from mtkit.pipeline.models.words import character_size
from mtkit.spec import TokenType
from mtkit.spec import decoders as spec
from mtkit.spec.text import MARK_BYTES
from mtkit.spec.vocabulary import BYTE_TOKENS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.spec import TokenizerSpec, Vocabulary

REPLACEMENT = "\ufffd".encode()
HEX = b"0123456789abcdefABCDEF"
_BYTE_OF = {piece: byte for byte, piece in enumerate(BYTE_TOKENS)}


def decode(
    tokenizer: TokenizerSpec, ids: Iterable[int], *, skip_special_tokens: bool = True
) -> bytes:
    """Decode a sequence with a decoder of this module.

    Raises:
        UsageError: An id is not in the vocabulary.
    """
    source = begin(tokenizer, skip_special_tokens=skip_special_tokens)
    text = b"".join([source.push(token_id) for token_id in ids]) + source.finish()
    return denormalize(tokenizer.decoder, text)


def begin(tokenizer: TokenizerSpec, *, skip_special_tokens: bool) -> Subwords | AfterBos:
    """Return what decodes id by id, up to the denormalizer."""
    if isinstance(tokenizer.decoder, spec.Subwords):
        return Subwords(tokenizer.vocabulary, tokenizer.decoder)
    return AfterBos(tokenizer, skip_special_tokens=skip_special_tokens)


def denormalize(decoder: object, text: bytes) -> bytes:
    """Apply the denormalizer of a decoder that has one; an empty text stays empty."""
    if not isinstance(decoder, spec.Subwords) or decoder.denormalizer is None or not text:
        return text
    from mtkit.pipeline.normalizers.aligned import Aligned
    from mtkit.pipeline.normalizers.spaces import compile_spaces

    aligned = Aligned.of(text.decode("utf-8", "surrogateescape"))
    compile_spaces(decoder.denormalizer, ())(aligned)
    return aligned.text.encode("utf-8", "surrogateescape")


def _check(token_id: int, vocabulary: Vocabulary) -> None:
    if not 0 <= token_id < len(vocabulary):
        raise UsageError(
            f"is {token_id}, but the vocabulary has the ids 0 to {len(vocabulary) - 1}", field="id"
        )


class Subwords:
    """Joins pieces; control pieces are never shown, bytes wait for the rest of their character."""

    def __init__(self, vocabulary: Vocabulary, decoder: spec.Subwords) -> None:
        self._vocabulary = vocabulary
        self._decoder = decoder
        self._drops = decoder.drop_marks != "none"
        self._waiting = bytearray()

    def push(self, token_id: int) -> bytes:
        """Take an id and return the bytes that are settled now."""
        _check(token_id, self._vocabulary)
        piece, kind = self._vocabulary.pieces[token_id], self._vocabulary.type_of(token_id)
        if kind == TokenType.BYTE and piece in _BYTE_OF:
            self._waiting.append(_BYTE_OF[piece])
            return self._written(_take_characters(self._waiting, end=False))
        return self.finish() + self._written(self._shown(piece, kind))

    def finish(self) -> bytes:
        """Return what was held back."""
        return self._written(_take_characters(self._waiting, end=True))

    def _shown(self, piece: bytes, kind: TokenType) -> bytes:
        if kind == TokenType.CONTROL:
            return b""
        if kind == TokenType.UNKNOWN:
            return self._decoder.unk_surface
        if self._drops and piece.startswith(MARK_BYTES):
            piece = piece[len(MARK_BYTES) :]
            self._drops = self._decoder.drop_marks == "all"
        return piece.replace(MARK_BYTES, b" ")

    def _written(self, text: bytes) -> bytes:
        """Return a text; behind one that is not empty no mark is dropped."""
        self._drops = self._drops and not text
        return text


def _take_characters(waiting: bytearray, *, end: bool) -> bytes:
    """Take the characters off that bytes begin with, U+FFFD for each byte of none.

    Args:
        waiting: The bytes; what could still become a character stays.
        end: Nothing follows.
    """
    taken = bytearray()
    while waiting:
        part = bytes(waiting[: character_size(waiting[0])])
        try:
            _, size = utf_8_decode(part, "strict", end)
        except UnicodeDecodeError:
            part, size = REPLACEMENT, 1
        if not size:
            break
        taken += part
        del waiting[:size]
    return bytes(taken)


class AfterBos:
    """Joins pieces as the reference prints them one by one."""

    def __init__(self, tokenizer: TokenizerSpec, *, skip_special_tokens: bool) -> None:
        self._vocabulary = tokenizer.vocabulary
        self._bos = tokenizer.special_ids.bos
        self._skip = skip_special_tokens
        self._before: int | None = None

    def push(self, token_id: int) -> bytes:
        """Take an id and return its bytes."""
        _check(token_id, self._vocabulary)
        before, self._before = self._before, token_id
        if self._skip and self._vocabulary.type_of(token_id) == TokenType.CONTROL:
            return b""
        if before is None and token_id == self._bos:
            return b""
        piece: bytes = self._vocabulary.pieces[token_id]
        if before is not None and before == self._bos:
            piece = piece.removeprefix(b" ")
        return scan_byte(piece)

    def finish(self) -> bytes:
        """Return nothing: nothing was held back."""
        return b""


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
