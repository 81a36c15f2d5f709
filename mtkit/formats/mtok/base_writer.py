"""Fields of a .mtok base file as bytes."""

from __future__ import annotations

import struct

from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Union

STRING_LIMIT = 65535


def u8(*values: Union[int, bool]) -> bytes:
    """Write bytes."""
    return bytes(values)


def u32(*values: int) -> bytes:
    """Write u32 numbers.

    Raises:
        UnsupportedError: One needs more bits, or a sign.
    """
    try:
        return struct.pack(f"<{len(values)}I", *values)
    except struct.error:
        raise UnsupportedError("a number does not fit the 32 bits of the format") from None


def string(text: Union[str, bytes]) -> bytes:
    """Write u16 length and bytes.

    Raises:
        UnsupportedError: It is too long.
    """
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if len(data) > STRING_LIMIT:
        raise UnsupportedError(f"a text has {len(data)} bytes, but the format holds {STRING_LIMIT}")
    return len(data).to_bytes(2, "little") + data


def listed(kind: int, parts: list[bytes]) -> bytes:
    """Write a list of components; one alone stands for itself, none is type 0."""
    if len(parts) == 1:
        return parts[0]
    return u8(kind) + u32(len(parts)) + b"".join(parts) if parts else u8(0)
