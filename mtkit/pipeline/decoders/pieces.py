"""Decoding token by token as each one's role says: the ``Pieces`` decoder.

Source: ggml-org/llama.cpp, llama-vocab.cpp, ``token_to_piece`` and ``detokenize``.
"""

from __future__ import annotations

from mtkit.pipeline.decoders.components import clean_up, clean_up_pairs
from mtkit.spec import TokenType, decoders, post_processors
from mtkit.spec.text import MARK_BYTES
from mtkit.unicode.byte_alphabet import BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from mtkit.spec import AddedToken, TokenizerSpec

_DIGITS = b"0123456789abcdef"


def decode(
    spec: TokenizerSpec,
    ids: Iterable[int],
    *,
    skip_special_tokens: bool,
    remove_added: bool = False,
) -> bytes:
    """Decode a sequence.

    Args:
        spec: Its decoder is ``Pieces``.
        ids: Token ids.
        skip_special_tokens: Hide special tokens.
        remove_added: Take off the first and the last token where they are what the post-processor
            puts there; behind a first one taken off no space is dropped.
    """
    assert isinstance(spec.decoder, decoders.Pieces)
    ids = list(ids)
    drops_space = spec.decoder.drop_first_space
    if remove_added:
        first, last = _ends(spec)
        if ids and ids[0] in first:
            ids, drops_space = ids[1:], False
        if ids and ids[-1] in last:
            ids = ids[:-1]
    added = {token.id: token for token in spec.added_tokens.tokens}
    parts = [piece_of(spec, added, i, skip_special_tokens=skip_special_tokens) for i in ids]
    if drops_space and parts and parts[0].startswith(b" "):
        parts[0] = parts[0][1:]
    text = b"".join(parts)
    pairs = clean_up_pairs(spec.clean_up_spaces)
    if not pairs:
        return text
    return clean_up(text.decode("latin-1"), pairs).encode("latin-1")


def piece_of(
    spec: TokenizerSpec,
    added: dict[int, AddedToken],
    token_id: int,
    *,
    skip_special_tokens: bool = False,
) -> bytes:
    """Return the bytes of one token, nothing for an id that names none.

    Args:
        spec: Its decoder is ``Pieces``.
        added: Its added tokens by id.
        token_id: The id.
        skip_special_tokens: Hide special tokens.
    """
    assert isinstance(spec.decoder, decoders.Pieces)
    token, spelling, vocabulary = added.get(token_id), spec.decoder.spelling, spec.vocabulary
    if token is not None and token.special and skip_special_tokens:
        return b""
    inside = 0 <= token_id < len(vocabulary)
    piece = vocabulary.pieces[token_id] if inside else b""
    if spelling == "bytes":
        return piece
    role = vocabulary.type_of(token_id) if inside else TokenType.UNDEFINED
    if spelling == "plain" and role is not TokenType.BYTE:
        return piece
    if token is not None:
        return token.content
    if role is TokenType.BYTE:
        return _byte(piece)
    return _normal(piece, spelling) if role is TokenType.NORMAL else b""


def _byte(piece: bytes) -> bytes:
    """Return the byte of a ``<0xHH>`` token; what is not a digit ends the number."""
    value = 0
    for digit in piece[3:5].lower():
        place = _DIGITS.find(digit)
        if place < 0:
            break
        value = value * 16 + place
    return bytes((value,)) if len(piece) > 3 else b""


def _normal(piece: bytes, spelling: str) -> bytes:
    if spelling == "marks":
        return piece.replace(MARK_BYTES, b" ")
    if spelling == "words":
        if piece.startswith(b"##"):
            return piece[2:].replace(MARK_BYTES, b" ")
        alone = piece.startswith(MARK_BYTES) or (piece[:1] == b"[" and piece[-1:] == b"]")
        return (piece if alone else b" " + piece).replace(MARK_BYTES, b" ")
    written = bytearray()
    for letter in piece.decode("utf-8", "surrogateescape"):
        byte = BYTES.get(letter)
        if byte is None:
            code = letter.encode("utf-8", "surrogateescape").hex().encode()
            written += b"[UNK_BYTE_0x" + code + piece + b"]"
        else:
            written.append(byte)
    return bytes(written)


def _ends(spec: TokenizerSpec) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the fixed ids at the begin and at the end of the template for one text."""
    template = spec.post_processor
    if not isinstance(template, post_processors.Template):
        return (), ()
    slots = template.single
    place = next((at for at, slot in enumerate(slots) if slot.text is not None), len(slots))
    first = [token for slot in slots[:place] for token in slot.ids]
    last = [token for slot in slots[place:] for token in slot.ids]
    return tuple(first[:1]), tuple(last[-1:])
