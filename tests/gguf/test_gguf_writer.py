"""What is written is read back the same, by mtkit and by the gguf library."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gguf_layout as lay
import pytest
from gguf_layout import Layout
from hypothesis import given
from hypothesis import strategies as st
from support import FIXTURES, VOCABULARIES, reference, shared

from mtkit.base.binary import Source
from mtkit.errors import UsageError
from mtkit.gguf import GgufFile, open_gguf
from mtkit.gguf.types import BY_NAME, TENSOR_TYPES
from mtkit.gguf.writer import Key, NewTensor, gguf_bytes, write_gguf

F32, Q8_0 = TENSOR_TYPES[0], TENSOR_TYPES[8]


def keys_of(file: GgufFile) -> list[Key]:
    return [
        Key(name, file.metadata.type_name(name), value) for name, value in file.metadata.items()
    ]


def tensors_of(file: GgufFile) -> list[NewTensor]:
    return [NewTensor(t.name, t.shape, t.type, file.tensor_data(t)) for t in file.tensors]


def test_a_file_of_every_type_is_rewritten_byte_for_byte() -> None:
    layout = Layout(3)
    keys = [layout.key(name, kind, value) for name, (kind, value) in lay.SCALARS.items()]
    keys += [
        layout.key(name, lay.ARRAY, value)
        for name, value in lay.ARRAYS.items()
        if value[0] != lay.ARRAY
    ]
    tensors = [layout.tensor(b"t", (3, 2), 0, 0), layout.tensor(b"q", (32,), 8, 32)]
    data = layout.file(keys, tensors, bytes(range(24)) + bytes(8) + bytes(range(34)) + bytes(30))
    file = open_gguf(Source("a", data))
    assert gguf_bytes(keys_of(file), tensors_of(file)) == data


def test_big_endian_becomes_little_endian() -> None:
    big, little = (open_gguf(Source("a", lay.small(Layout(3, order)))) for order in "><")
    keys = [key for key in keys_of(big) if key.name != "x.nested"]
    written = open_gguf(Source("a", gguf_bytes(keys)))
    for key in keys:
        value, other = written.metadata[key.name], little.metadata[key.name]
        assert (list(value) == list(other)) if key.type.endswith("[]") else value == other


OWN = sorted(FIXTURES.glob("*/vocab.gguf"))


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.parent.name)
def test_own_vocabularies_are_rewritten_byte_for_byte(path: Path) -> None:
    file = open_gguf(path)
    padded = gguf_bytes(keys_of(file)).ljust(file.data_offset, b"\0")  # as gguf-py ends a file
    assert padded == path.read_bytes()


@pytest.mark.parametrize("name", VOCABULARIES)
def test_vocabularies_are_rewritten_byte_for_byte(name: str) -> None:
    path = shared(f"gguf-vocab/ggml-vocab-{name}.gguf")
    assert gguf_bytes(keys_of(open_gguf(path))) == path.read_bytes()


names = st.text("abc._0", min_size=1, max_size=12)
INTEGERS = {"u8": (0, 8), "i8": (1, 8), "u16": (0, 16), "i16": (1, 16), "u32": (0, 32),
            "i32": (1, 32), "u64": (0, 64), "i64": (1, 64)}  # fmt: skip
scalars: dict[str, st.SearchStrategy[Any]] = {
    name: st.integers(-(1 << bits - 1) if signed else 0, (1 << bits - signed) - 1)
    for name, (signed, bits) in INTEGERS.items()
}
scalars |= {
    "f32": st.floats(width=32),
    "f64": st.floats(),
    "bool": st.booleans(),
    "string": st.binary(max_size=20).map(lambda raw: raw.decode("utf-8", "surrogateescape")),
}
keys_to_write = st.one_of(
    *(
        st.builds(Key, names, st.just(name), values)
        | st.builds(Key, names, st.just(f"{name}[]"), st.lists(values, max_size=5))
        for name, values in scalars.items()
    )
)


@given(st.lists(keys_to_write, max_size=6, unique_by=lambda key: key.name))
def test_read_undoes_write(keys: list[Key]) -> None:
    file = open_gguf(Source("a", gguf_bytes(keys)))
    assert len(scalars) == len(BY_NAME) - 1  # all but arrays
    assert list(file.metadata) == [key.name for key in keys]
    for key in keys:
        value = file.metadata[key.name]
        value = list(value) if key.type.endswith("[]") else value
        assert repr(value) == repr(key.value)  # nan is nan
        assert file.metadata.type_name(key.name) == key.type


def test_the_library_reads_what_is_written(tmp_path: Path) -> None:
    library = reference("gguf")
    path = tmp_path / "out.gguf"
    data = bytes(range(96)), bytes(range(68))
    write_gguf(
        str(path),
        [Key("general.architecture", "string", "llama"), Key("general.alignment", "u32", 64),
         Key("llama.x", "f32[]", [0.5, 2.0]), Key("llama.s", "string[]", ["a", "ü"])],
        [NewTensor("a", (4, 6), F32, data[0]), NewTensor("b", (32, 2), Q8_0, data[1])],
    )  # fmt: skip
    reader = library.GGUFReader(path)
    assert reader.fields["llama.s"].contents() == ["a", "ü"]
    assert reader.fields["llama.x"].contents() == [0.5, 2.0]
    for tensor, raw in zip(reader.tensors, data, strict=True):
        assert tensor.data_offset % 64 == 0
        assert tensor.data.tobytes() == raw
    assert os.listdir(tmp_path) == ["out.gguf"]


@pytest.mark.parametrize(
    ("keys", "tensors"),
    [
        ([Key("a", "u8", 256)], []),
        ([Key("a", "u8", "x")], []),
        ([Key("a", "u8[]", [1, -1])], []),
        ([Key("a", "array[]", [])], []),
        ([Key("a", "string", 3)], []),
        ([Key("", "u8", 1)], []),
        ([Key("a", "u8", 1), Key("a", "u8", 1)], []),
        ([Key("general.alignment", "u32", 24)], []),
        ([], [NewTensor("a", (3,), F32, bytes(8))]),
        ([], [NewTensor("a", (31,), Q8_0, bytes(34))]),
        ([], [NewTensor("a", (1,), F32, bytes(4))] * 2),
    ],
)
def test_what_cannot_be_written_leaves_no_file(
    tmp_path: Path, keys: list[Key], tensors: list[NewTensor]
) -> None:
    with pytest.raises(UsageError):
        write_gguf(str(tmp_path / "out.gguf"), keys, tensors)
    assert os.listdir(tmp_path) == []
