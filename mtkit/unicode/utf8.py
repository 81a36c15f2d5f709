"""Bytes as text and back: UTF-8, with what becomes of bytes that are not valid; byte alphabet.

Where such bytes are kept, they travel as surrogate escapes (U+DC80 for byte 80 and so on), one
character a byte.

The byte alphabet has one printable letter for each of the 256 bytes: printable bytes of Latin-1
stand for themselves, the other 68 get U+0100 onwards, in order.

Source: openai/gpt-2, src/encoder.py, ``bytes_to_unicode``.
"""

from __future__ import annotations

from mtkit.errors import UsageError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    Rule = Literal["error", "replace", "keep", "loose", "wide"]


def to_text(data: str | bytes, rule: Rule, field: str = "text") -> str:
    """Return input as text."""
    if isinstance(data, str):
        if not data.isascii():
            _check_surrogates(data, field)
        return data
    check_type(data)
    if rule in {"loose", "wide"}:
        return _decode_loosely(bytes(data), field, wide=rule == "wide")
    if rule == "error":
        try:
            return bytes(data).decode("utf-8")
        except UnicodeDecodeError as error:
            raise UsageError(
                f"is not valid UTF-8: byte {data[error.start]:02X}", field=field, offset=error.start
            ) from None
    text = bytes(data).decode("utf-8", "surrogateescape")
    if rule == "keep" or text.isascii():
        return text
    return "".join(["\ufffd" if "\udc80" <= c <= "\udcff" else c for c in text])


def is_text(text: object) -> bool:
    """Whether it is text, or bytes of any kind."""
    if isinstance(text, (str, bytes)):
        return True
    try:
        memoryview(text)  # type: ignore[arg-type]
    except TypeError:
        return False
    return True


def check_type(text: object) -> None:
    """Raise TypeError for what is neither text nor bytes, with the calls that take many texts."""
    if not is_text(text):
        many = "; encode_batch_ids and encode_batch take many" * isinstance(text, (list, tuple))
        raise TypeError(f"a text is str or bytes, not {type(text).__name__}{many}")


def to_bytes(text: str) -> bytes:
    """Return UTF-8, escaped bytes as themselves, other surrogates as if they were characters."""
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        parts = []
        for character in text:
            escaped = "\udc80" <= character <= "\udcff"
            parts.append(
                character.encode("utf-8", "surrogateescape" if escaped else "surrogatepass")
            )
        return b"".join(parts)


def _check_surrogates(text: str, field: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        raise UsageError(
            f"has the lone surrogate U+{ord(text[error.start]):04X} at character {error.start}",
            field=field,
            hint="give bytes, or encode with errors='replace' first",
        ) from None


def _decode_loosely(data: bytes, field: str, *, wide: bool) -> str:
    """Decode byte by byte: any lead byte with its continuation bytes counts."""
    text, at = [], 0
    while at < len(data):
        first = data[at]
        size = 1 if first < 0x80 else 2 if first < 0xE0 else 3 if first < 0xF0 else 4
        rest = data[at + 1 : at + size]
        whole = len(rest) == size - 1 and all(byte >> 6 == 2 for byte in rest)
        if first >> 6 == 2 or first >= 0xF8 or not whole:
            text.append("\ufffd")
            at += 1
            continue
        code_point = first if size == 1 else first & (0xFF >> (size + 1))
        for byte in rest:
            code_point = code_point << 6 | byte & 0x3F
        if code_point > 0x10FFFF and not wide:
            raise UsageError(f"has the code point {code_point:X}", field=field, offset=at)
        if code_point > 0x10FFFF or 0xDC80 <= code_point <= 0xDCFF:
            # No character of Python's, or one that would be taken for an escaped byte.
            text.append(data[at : at + size].decode("utf-8", "surrogateescape"))
        else:
            text.append(chr(code_point))
        at += size
    return "".join(text)


_PRINTABLE_BYTES = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_OTHER_BYTES = [byte for byte in range(256) if byte not in _PRINTABLE_BYTES]

BYTE_LETTERS = tuple(
    chr(byte if byte in _PRINTABLE_BYTES else 0x100 + _OTHER_BYTES.index(byte))
    for byte in range(256)
)
"""Byte -> letter."""

BYTE_OF_LETTER = {letter: byte for byte, letter in enumerate(BYTE_LETTERS)}
"""Letter -> byte."""


def letters_of_bytes(data: bytes) -> str:
    """Spell bytes in the alphabet."""
    return "".join([BYTE_LETTERS[byte] for byte in data])


def bytes_of_letters(text: str) -> bytes | None:
    """Read bytes back; None where a character is not a letter of the alphabet."""
    try:
        return bytes([BYTE_OF_LETTER[letter] for letter in text])
    except KeyError:
        return None
