"""A GGUF file taken apart, to be written with whatever is in it.

Twice the same key, a type that does not go with its data, offsets anywhere: ``gguf.writer`` refuses
all of that.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any

from mtkit.gguf import open_gguf
from mtkit.gguf.types import BY_NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


class Draft:
    """What a GGUF file is made of.

    Attributes:
        keys: ``[name, type, value]``; the types are named as by mtkit.
        tensors: ``[name, shape, number of the type, data, offset or None]``.
        n_keys: What the header says; None for the truth.
        n_tensors: The same.
        version: Of the format.
        edits: Applied to the bytes of the file at the end.
    """

    def __init__(self, path: Path) -> None:
        file = open_gguf(path)
        self.keys: list[list[Any]] = []
        for name, value in file.metadata.items():
            kind = file.metadata.type_name(name)
            kept = list(value) if kind.endswith("[]") else value
            self.keys.append([name.encode(), kind, kept])
        self.tensors: list[list[Any]] = [
            [t.name.encode(), list(t.shape), t.type.number, bytes(file.tensor_data(t)), None]
            for t in file.tensors
        ]
        self.arch = str(file.metadata["general.architecture"])
        self.n_keys: int | None = None
        self.n_tensors: int | None = None
        self.version = 3
        self.edits: list[Callable[[bytearray], object]] = []

    def value(self, name: str) -> Any:
        """Return the value of a key, or None."""
        return next((key[2] for key in self.keys if key[0] == name.encode()), None)

    def set(self, name: str, kind: str, value: Any) -> None:
        """Set a key, or add it."""
        for key in self.keys:
            if key[0] == name.encode():
                key[1:] = kind, value
                return
        self.keys.append([name.encode(), kind, value])

    def bytes(self) -> bytes:
        """Return the file."""
        alignment = self.value("general.alignment")
        if type(alignment) is not int or not 0 < alignment <= 1 << 12:
            alignment = 32
        n_tensors = len(self.tensors) if self.n_tensors is None else self.n_tensors
        n_keys = len(self.keys) if self.n_keys is None else self.n_keys
        head = bytearray(struct.pack("<4sIQQ", b"GGUF", self.version, n_tensors, n_keys))
        for name, kind, value in self.keys:
            head += _string(name) + _value(kind, value)
        data = bytearray()
        for name, shape, number, content, offset in self.tensors:
            head += _string(name) + struct.pack("<I", len(shape))
            head += b"".join(struct.pack("<Q", axis % (1 << 64)) for axis in shape)
            at = len(data) if offset is None else offset % (1 << 64)
            head += struct.pack("<IQ", number, at)
            data += content + bytes(-len(content) % alignment)
        whole = head + bytes(-len(head) % alignment) + data
        for edit in self.edits:
            edit(whole)
        return bytes(whole)


def _string(text: bytes | str) -> bytes:
    raw = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def _value(kind: str, value: Any) -> bytes:
    """Return type and value; a value that does not go with its type becomes one that does."""
    plain = kind.removesuffix("[]")
    number = BY_NAME[plain].number
    if kind.endswith("[]"):
        values = value if isinstance(value, (list, tuple)) else [value]
        head = struct.pack("<IIQ", BY_NAME["array"].number, number, len(values))
        if plain not in ("string", "array"):
            try:
                return head + struct.pack(f"<{len(values)}{BY_NAME[plain].code}", *values)
            except (struct.error, OverflowError):
                pass
        return head + b"".join(_scalar(plain, one) for one in values)
    return struct.pack("<I", number) + _scalar(plain, value)


def _scalar(plain: str, value: Any) -> bytes:
    if isinstance(value, (list, tuple)):
        value = value[0] if value else 0
    if plain == "string":
        return _string(value if isinstance(value, (bytes, str)) else repr(value))
    if isinstance(value, (bytes, str)):
        value = len(value)
    code, size = BY_NAME[plain].code, BY_NAME[plain].size
    if plain in ("f32", "f64"):
        try:
            return struct.pack("<" + code, value)
        except OverflowError:
            return struct.pack("<" + code, float("inf"))
    whole = int(value) if value == value and abs(value) < 1 << 70 else 0  # noqa: PLR0124  NaN
    return (whole % (1 << 8 * size)).to_bytes(size, "little")
