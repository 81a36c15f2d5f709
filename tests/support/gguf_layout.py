"""GGUF files laid out by hand with struct, for tests; not the writer under test."""

from __future__ import annotations

import struct

U8, I8, U16, I16, U32, I32, F32, BOOL, STRING, ARRAY, U64, I64, F64 = range(13)
CODES = {
    U8: "B", I8: "b", U16: "H", I16: "h", U32: "I", I32: "i", F32: "f", BOOL: "B",
    U64: "Q", I64: "q", F64: "d",
}  # fmt: skip
ALIGNMENT = 32


class Layout:
    """Fields of one version and byte order."""

    def __init__(self, version: int = 3, order: str = "<") -> None:
        self.version = version
        self.order = order
        self.wide = "I" if version == 1 else "Q"

    def pack(self, codes: str, *values: object) -> bytes:
        return struct.pack(self.order + codes, *values)

    def string(self, text: bytes) -> bytes:
        return self.pack(self.wide, len(text)) + text

    def value(self, kind: int, value: object) -> bytes:
        if kind == STRING:
            return self.string(value)
        if kind == ARRAY:
            element, values = value
            head = self.pack("I" + self.wide, element, len(values))
            return head + b"".join(self.value(element, item) for item in values)
        return self.pack(CODES[kind], value)

    def key(self, name: bytes, kind: int, value: object) -> bytes:
        return self.string(name) + self.pack("I", kind) + self.value(kind, value)

    def tensor(self, name: bytes, shape: tuple[int, ...], kind: int, offset: int) -> bytes:
        axes = b"".join(self.pack(self.wide, axis) for axis in shape)
        return self.string(name) + self.pack("I", len(shape)) + axes + self.pack("IQ", kind, offset)

    def file(self, keys: list[bytes], tensors: list[bytes] = (), data: bytes = b"") -> bytes:
        head = b"GGUF" + self.pack("I" + 2 * self.wide, self.version, len(tensors), len(keys))
        table = head + b"".join(keys) + b"".join(tensors)
        return table + (bytes(-len(table) % ALIGNMENT) + data if tensors else b"")


SCALARS = {
    b"a.u8": (U8, 255), b"a.i8": (I8, -128), b"a.u16": (U16, 65535), b"a.i16": (I16, -32768),
    b"a.u32": (U32, 2**32 - 1), b"a.i32": (I32, -(2**31)), b"a.u64": (U64, 2**64 - 1),
    b"a.i64": (I64, -(2**63)), b"a.f32": (F32, 0.5), b"a.f64": (F64, 0.1), b"a.bool": (BOOL, 1),
    b"a.string": (STRING, "né".encode()), b"a.bad": (STRING, b"x\xff"), b"a.empty": (STRING, b""),
}  # fmt: skip
ARRAYS = {
    b"b.u8": (U8, [0, 255]), b"b.i16": (I16, [-2, 3, 4]), b"b.u32": (U32, [1, 2**32 - 1]),
    b"b.i64": (I64, [-(2**63), 5]), b"b.f32": (F32, [0.25, -1.5]), b"b.f64": (F64, [0.1]),
    b"b.bool": (BOOL, [1, 0, 1]), b"b.none": (STRING, []),
    b"b.strings": (STRING, [b"s%d" % i * (i % 3) for i in range(600)]),
    b"b.nested": (ARRAY, [(U8, [1, 2]), (STRING, [b"x", b"yz"]), (ARRAY, [(I32, [-7])])]),
}  # fmt: skip


def sample(layout: Layout) -> bytes:
    """A file with every type of value, two tensors, and nothing else."""
    keys = [layout.key(name, kind, value) for name, (kind, value) in SCALARS.items()]
    keys += [layout.key(name, ARRAY, value) for name, value in ARRAYS.items()]
    tensors = [layout.tensor(b"t.f32", (3, 2), 0, 0), layout.tensor(b"t.q8", (32,), 8, 32)]
    return layout.file(keys, tensors, bytes(range(64)) + bytes(2))


def small(layout: Layout) -> bytes:
    """A file of a few hundred bytes, for cutting it everywhere."""
    keys = [
        layout.key(b"general.architecture", STRING, b"llama"),
        layout.key(b"tokenizer.ggml.tokens", ARRAY, (STRING, [b"<unk>", b"a", b"bc"])),
        layout.key(b"tokenizer.ggml.scores", ARRAY, (F32, [0.0, -1.0, -2.0])),
        layout.key(b"x.nested", ARRAY, (ARRAY, [(U8, [1]), (STRING, [b"q"])])),
        layout.key(b"x.last", U64, 1),
    ]
    tensors = [layout.tensor(b"t", (4,), 0, 0)]
    return layout.file(keys, tensors, struct.pack(layout.order + "4f", 1, 2, 3, 4))
