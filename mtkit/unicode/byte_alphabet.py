"""The byte alphabet: one printable letter for each of the 256 bytes.

Printable bytes of Latin-1 stand for themselves, the other 68 get U+0100 onwards, in order.

Source: openai/gpt-2, src/encoder.py, ``bytes_to_unicode``.
"""

from __future__ import annotations

_PRINTABLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHERS = [byte for byte in range(256) if byte not in _PRINTABLE]

LETTERS = tuple(
    chr(byte if byte in _PRINTABLE else 0x100 + _OTHERS.index(byte)) for byte in range(256)
)
"""Byte -> letter."""

BYTES = {letter: byte for byte, letter in enumerate(LETTERS)}
"""Letter -> byte."""


def to_letters(data: bytes) -> str:
    """Spell bytes in the alphabet."""
    return "".join([LETTERS[byte] for byte in data])


def to_bytes(text: str) -> bytes | None:
    """Read bytes back; None where a character is not a letter of the alphabet."""
    try:
        return bytes([BYTES[letter] for letter in text])
    except KeyError:
        return None
