r"""Token texts of a GGUF and the pieces they stand for, there and back.

Most kinds of vocabulary list the very bytes that the model looks up. Two do not:

* ``bert``: a word begins with U+2581 and its rest without it; mtkit's pieces are ``word`` and
  ``##rest``. Texts in square brackets are left alone, as llama.cpp's converter does.
* ``rwkv``: texts are escaped: ``\t \n \r \xHH`` (lower case), backslash and another character.
"""

from __future__ import annotations

from mtkit.spec.text import MARK_BYTES

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

SPELLED = frozenset({"bert", "rwkv"})
"""Values of ``tokenizer.ggml.model`` whose texts are not pieces."""

_ESCAPED = {0x09: b"\\t", 0x0A: b"\\n", 0x0D: b"\\r", 0x5C: b"\\\\"}


def pieces(kind: str, texts: Iterable[bytes]) -> Iterator[bytes]:
    """Turn the texts of a vocabulary into pieces; ``kind`` is ``tokenizer.ggml.model``."""
    if kind == "bert":
        return map(_word, texts)
    if kind == "rwkv":
        return map(_unescaped, texts)
    return iter(texts)


def texts(kind: str, found: Iterable[bytes]) -> Iterator[bytes]:
    """Turn pieces into the texts of a vocabulary."""
    if kind == "bert":
        return map(_marked, found)
    if kind == "rwkv":
        return map(_escaped, found)
    return iter(found)


def _bracketed(text: bytes) -> bool:
    return text.startswith(b"[") and text.endswith(b"]") and len(text) > 1


def _word(text: bytes) -> bytes:
    if _bracketed(text):
        return text
    if not text.startswith(MARK_BYTES):
        return b"##" + text
    word = text[len(MARK_BYTES) :]
    # "#" and "[" are words of their own, so these can never be found in a text; they keep the
    # mark, so that they are not mistaken for the rest of a word.
    return text if word.startswith(b"##") or _bracketed(word) or not word else word


def _marked(piece: bytes) -> bytes:
    if (
        _bracketed(piece)
        or piece.startswith((MARK_BYTES + b"##", MARK_BYTES + b"["))
        or piece == MARK_BYTES
    ):
        return piece
    return piece[2:] if piece.startswith(b"##") else MARK_BYTES + piece


def _unescaped(text: bytes) -> bytes:
    if b"\\" not in text:
        return text
    out = bytearray()
    at = 0
    while at < len(text):
        byte = text[at]
        at += 1
        if byte != 0x5C or at == len(text):
            out.append(byte)
            continue
        letter = text[at : at + 1]
        at += 1
        if letter == b"x":
            digits = text[at : at + 2]
            out.append(_hex(digits))
            at += 2
        else:
            out += {b"t": b"\t", b"n": b"\n", b"r": b"\r"}.get(letter, letter)
    return bytes(out)


def _hex(digits: bytes) -> int:
    """Two hexadecimal digits; others count as nothing."""
    value = 0
    for digit in digits:
        value = value * 16 + max(b"0123456789abcdef".find(bytes((digit,))), 0)
    return value


def _escaped(piece: bytes) -> bytes:
    try:
        piece.decode("utf-8")
        foreign = False
    except UnicodeDecodeError:
        foreign = True
    out = bytearray()
    for byte in piece:
        if byte in _ESCAPED:
            out += _ESCAPED[byte]
        elif byte < 0x20 or byte == 0x7F or (foreign and byte >= 0x80):
            out += b"\\x%02x" % byte
        else:
            out.append(byte)
    return bytes(out)
