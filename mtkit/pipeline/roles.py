"""Decoding token by token as each one's role says: the ``Pieces`` decoder.

Source: ggml-org/llama.cpp, llama-vocab.cpp, ``token_to_piece`` and ``detokenize``.
"""

from __future__ import annotations

from mtkit.pipeline.byte_alphabet import BYTES
from mtkit.pipeline.decoders import clean_up_steps
from mtkit.spec import TokenType, decoders

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.spec import TokenizerSpec

_MARK = "\u2581".encode()


def decode(spec: TokenizerSpec, ids: Iterable[int], *, skip_special_tokens: bool) -> bytes:
    """Decode a sequence."""
    assert isinstance(spec.decoder, decoders.Pieces)
    parts = []
    for at, token_id in enumerate(ids):
        piece = piece_bytes(spec, token_id, skip_special_tokens=skip_special_tokens)
        if at == 0 and spec.decoder.drop_first_space and piece.startswith(b" "):
            piece = piece[1:]
        parts.append(piece)
    text = b"".join(parts)
    steps = clean_up_steps(spec.clean_up_spaces)
    if not steps:
        return text
    cleaned = text.decode("utf-8", "surrogateescape")
    for step in steps:
        cleaned = step(cleaned)
    return cleaned.encode("utf-8", "surrogateescape")


def piece_bytes(spec: TokenizerSpec, token_id: int, *, skip_special_tokens: bool) -> bytes:
    """Return the bytes of one token; nothing for an id that names none."""
    assert isinstance(spec.decoder, decoders.Pieces)
    spelling = spec.decoder.spelling
    if spelling == "ids":
        return b"%x" % token_id
    vocabulary = spec.vocabulary
    if spelling == "bytes":
        return bytes(vocabulary.pieces[token_id]) if 0 <= token_id < len(vocabulary) else b""
    for token in spec.added_tokens.tokens:
        if token.id == token_id:
            return b"" if token.special and skip_special_tokens else token.content
    if not 0 <= token_id < len(vocabulary):
        return b""
    piece = bytes(vocabulary.pieces[token_id])
    role = vocabulary.type_of(token_id)
    if role is TokenType.BYTE:
        return bytes([int(piece[3:5], 16)])
    return _normal(piece, spelling) if role is TokenType.NORMAL else b""


def _normal(piece: bytes, spelling: str) -> bytes:
    if spelling == "marks":
        return piece.replace(_MARK, b" ")
    if spelling == "words":
        if piece.startswith(b"##"):
            return piece[2:]
        return piece if piece[:1] == b"[" and piece[-1:] == b"]" else b" " + piece
    written = bytearray()
    for letter in piece.decode("utf-8", "surrogateescape"):
        byte = BYTES.get(letter)
        if byte is None:
            code = letter.encode("utf-8", "surrogateescape").hex().encode()
            written += b"[UNK_BYTE_0x" + code + piece + b"]"
        else:
            written.append(byte)
    return bytes(written)
