"""Protocol-buffer messages as lists of fields, without a schema.

A field is a varint tag (number * 8 + wire type) and a value: varint (0), 8 bytes (1), varint length
and bytes (2), 4 bytes (5). Groups (3, 4) are not taken. Fields keep their bytes, so that what is
not understood is written back as it was; fields that repeat keep their order.
"""

from __future__ import annotations

from mtkit.errors import FormatError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


class Field:
    """One field of a message.

    Attributes:
        number: Its number in the schema.
        wire: Its wire type.
        number_value: The value of a varint, else 0.
        data: The bytes of any other value.
        raw: The whole field as it is in the file.
        offset: Where the value begins in the file.
    """

    __slots__ = ("data", "number", "number_value", "offset", "raw", "wire")

    def __init__(
        self, number: int, wire: int, number_value: int, data: bytes, raw: bytes, offset: int
    ) -> None:
        self.number = number
        self.wire = wire
        self.number_value = number_value
        self.data = data
        self.raw = raw
        self.offset = offset


def parse(data: bytes, name: str, base: int = 0) -> Iterator[Field]:
    """Yield the fields of a message.

    Args:
        data: The message.
        name: What to call it in errors.
        base: Where it begins in the file.

    Raises:
        FormatError: A field is cut off or of no known wire type.
    """
    size = len(data)
    at = 0
    while at < size:
        start = at
        tag, at = varint(data, at, name, base)
        number, wire = tag >> 3, tag & 7
        if not 0 < number < 1 << 29:
            raise damaged(f"holds a field with number {number}", name, base + start)
        value = 0
        begin = at
        if wire == VARINT:
            value, at = varint(data, at, name, base)
            end = begin
        elif wire == BYTES:
            length, begin = varint(data, at, name, base)
            end = at = begin + length
        elif wire in {FIXED32, FIXED64}:
            end = at = begin + (4 if wire == FIXED32 else 8)
        else:
            raise damaged(f"holds a field of wire type {wire}", name, base + start)
        if at > size:
            raise damaged(
                f"field {number} needs {end - begin} bytes, but only {size - begin} are left",
                name,
                base + start,
                "the file is probably truncated",
            )
        yield Field(number, wire, value, data[begin:end], data[start:at], base + begin)


def varint(data: bytes, at: int, name: str, base: int) -> tuple[int, int]:
    """Return an unsigned 64-bit number and the place behind it.

    Raises:
        FormatError: It is cut off or longer than ten bytes.
    """
    value = shift = 0
    start = at
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value & 0xFFFFFFFFFFFFFFFF, at
        shift += 7
        if shift >= 70:
            raise damaged("holds a number of more than ten bytes", name, base + start)
    raise damaged("ends inside a number", name, base + start, "the file is probably truncated")


def damaged(what: str, name: str, offset: int, hint: str = "") -> FormatError:
    """Return the error for a message that does not follow the format."""
    return FormatError(what, field=name, offset=offset, hint=hint)


def encode_varint(value: int) -> bytes:
    """Return an unsigned number as a varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def field(number: int, value: int | bytes) -> bytes:
    """Return a varint or bytes field."""
    if isinstance(value, int):
        return encode_varint(number << 3) + encode_varint(value & 0xFFFFFFFFFFFFFFFF)
    return encode_varint(number << 3 | BYTES) + encode_varint(len(value)) + value


class Settings:
    """A small message whose fields can be read and replaced; what is not touched stays."""

    def __init__(self, data: bytes, name: str, base: int = 0) -> None:
        """Read a message.

        Raises:
            FormatError: It is damaged.
        """
        self.fields = [(f.number, f.wire, f) for f in parse(data, name, base)]
        self.raw = [(f.number, f.raw) for _, _, f in self.fields]

    def number(self, number: int, default: int) -> int:
        """Return a varint; of several the last counts."""
        found = [f.number_value for n, wire, f in self.fields if n == number and wire == VARINT]
        return found[-1] if found else default

    def truth(self, number: int, default: bool) -> bool:
        """Return a truth value."""
        return bool(self.number(number, int(default)))

    def data(self, number: int, default: bytes = b"") -> bytes:
        """Return bytes; of several the last counts."""
        found = [f.data for n, wire, f in self.fields if n == number and wire == BYTES]
        return found[-1] if found else default

    def set(self, number: int, value: int | bytes) -> None:
        """Put a value in the place of all others of its number, or where the order wants it."""
        places = [at for at, (n, _) in enumerate(self.raw) if n == number]
        new = number, field(number, value)
        if places:
            self.raw = [f for f in self.raw if f[0] != number]
            self.raw.insert(places[0], new)
        else:
            self.raw.insert(sum(n < number for n, _ in self.raw), new)
        (parsed,) = parse(new[1], "")
        self.fields = [f for f in self.fields if f[0] != number]
        self.fields.append((number, parsed.wire, parsed))

    def remove(self, number: int) -> None:
        """Take all fields of a number out."""
        self.raw = [f for f in self.raw if f[0] != number]
        self.fields = [f for f in self.fields if f[0] != number]

    def message(self) -> bytes:
        """Return the message."""
        return join(raw for _, raw in self.raw)


def join(parts: Iterable[bytes]) -> bytes:
    """Return fields one after the other: that is a message."""
    return b"".join(parts)
