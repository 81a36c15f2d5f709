"""How a program is written: little-endian numbers, texts and lists with their length in front.

Numbers have 32 bits. What needs more, or a sign, is left to the pipeline: ``UnsupportedError``.
"""

from __future__ import annotations

import struct

from mtkit.errors import UnsupportedError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

NONE = 0xFFFFFFFF
"""No id."""
OUTSIDE = 0xFFFFFFFE
"""An id that is none: where a text needs it, the pipeline says what is wrong."""


def u8(value: int) -> bytes:
    """A small number or a flag."""
    return struct.pack("<B", value)


def u32(value: int | None) -> bytes:
    """A number or an id."""
    return _packed("<I", NONE if value is None else value)


def f64(value: float) -> bytes:
    """A float."""
    return struct.pack("<d", value)


def text(value: str | bytes) -> bytes:
    """A text with its length."""
    data = value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value)
    return u32(len(data)) + data


def numbers(values: Iterable[int]) -> bytes:
    """A list of numbers."""
    listed = list(values)
    return _packed(f"<I{len(listed)}I", len(listed), *listed)


def _packed(layout: str, *values: int) -> bytes:
    try:
        return struct.pack(layout, *values)
    except struct.error:
        raise UnsupportedError("the core has numbers of 32 bits without a sign") from None


def code_point_map(pairs: Iterable[tuple[int, bytes]]) -> bytes:
    """Code points with what each becomes."""
    listed = sorted(pairs)
    ends, at = [], 0
    for _, value in listed:
        at += len(value)
        ends.append(at)
    return (
        numbers(code for code, _ in listed)
        + numbers(ends)
        + text(b"".join(value for _, value in listed))
    )
